"""The dashboard that is shipped asks for metrics and labels that there are, in queries that Prometheus takes."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from prometheus_client.metrics import MetricWrapperBase

from guideway.server.door_watch import Delivery
from guideway.server.telemetry.metrics import GAUGES, THROTTLED, Metrics
from tests.system import machine

pytestmark = pytest.mark.anyio

FILE = Path(__file__).parents[3] / "examples" / "deploy" / "grafana-dashboard.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
OF_PROMETHEUS = {"instance", "job"}
"""Labels that a scrape adds."""


def queries() -> list[str]:
    """Return the queries of all panels."""
    dashboard: dict[str, Any] = json.loads(FILE.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def known() -> dict[str, set[str]]:
    """Return the labels of each metric, by the names that a query can ask for."""
    metrics = Metrics()
    for name in GAUGES:
        metrics.reads(name, lambda: 0.0)
    metrics.counts(THROTTLED, lambda: {"queue": 0})
    metrics.delivered("ops", Delivery.DELIVERED)
    metrics.open_tickets({})
    found: dict[str, set[str]] = {}
    declared = {
        collector._name: set(collector._labelnames)
        for collector in metrics.registry._collector_to_names
        if isinstance(collector, MetricWrapperBase)
    }
    for family in metrics.registry.collect():
        labels = declared.get(family.name, {label for sample in family.samples for label in sample.labels})
        for suffix in SUFFIXES[family.type]:
            found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def test_each_query_asks_for_metrics_and_labels_that_there_are() -> None:
    there_are, asked = known(), set[str]()
    for query in queries():
        names = set(re.findall(r"\b(?:guideway|process)_[a-z_]+", query))
        assert names, query
        assert names <= there_are.keys(), query
        asked |= names
        labels = set(re.findall(r"([a-z_]+) *=~?\"", query))
        for grouped in re.findall(r"\b(?:by|on) \(([a-z_, ]+)\)", query):
            labels |= set(grouped.split(", "))
        assert labels <= OF_PROMETHEUS.union(*(there_are[name] for name in names)), query
    unasked = {name for name in there_are if name.startswith("guideway_") and not name.endswith(("_count", "_sum"))}
    assert unasked - asked == {"guideway_lease_wait_seconds_bucket"}, "each metric has its place on it"


async def test_prometheus_reads_each_query(tmp_path: Path) -> None:
    machine.need("this test", {"promtool": "prometheus"}, root=False)
    filled = {"$__rate_interval": "5m", "$__range": "6h", "$instance": ".*"}
    rules = []
    for number, query in enumerate(queries()):
        whole = re.sub("|".join(map(re.escape, filled)), lambda found: filled[found[0]], query)
        rules.append({"record": f"guideway:query_{number}", "expr": whole})
    file = tmp_path / "rules.json"  # YAML is a superset of it
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = await anyio.run_process(["promtool", "check", "rules", str(file)], check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found".encode() in checked.stdout


def test_panels_have_a_place_and_an_id_of_their_own() -> None:
    panels = json.loads(FILE.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells

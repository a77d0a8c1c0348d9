"""docs/observability.md is true: its configuration is read, its metrics are those that there are, its record is one."""

import json
import re
from pathlib import Path

import anyio
import pytest

from guideway.server import config
from guideway.server.cli.logs import JsonFormatter
from guideway.server.run_log import log_run
from tests.server.seen.test_dashboard import known
from tests.server.world import World
from tests.system import machine

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_configuration_of_the_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    [text] = blocks("toml")
    file.write_text(text)
    read = config.load(file)
    assert read.metrics is not None
    assert read.telemetry is not None
    assert read.server.log_format == "json"


def test_the_page_has_every_metric_with_its_labels() -> None:
    rows = {
        name: set(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(guideway_\w+)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE)
    }
    there_are = {
        re.sub(r"_(?:bucket|count|sum)$", "", name): labels - {"le"}
        for name, labels in known().items()
        if name.startswith("guideway_")
    }
    assert rows == there_are


async def test_a_record_of_a_run_has_the_fields_of_the_page_s(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    log_run(await world.pipeline.run('PING "api.internal"', world.principal), world.principal)
    record = caplog.records[-1]
    record.trace_id = record.span_id = "0"
    [shown] = blocks("json")
    assert list(json.loads(shown)) == list(json.loads(JsonFormatter().format(record)))


async def test_prometheus_takes_the_rules_of_the_page(tmp_path: Path) -> None:
    machine.need("this test", {"promtool": "prometheus"}, root=False)
    _, rules = blocks("yaml")
    file = tmp_path / "rules.yml"
    file.write_text(rules)
    checked = await anyio.run_process(["promtool", "check", "rules", str(file)], check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for name in re.findall(r"guideway_\w+", rules):
        assert name in known()

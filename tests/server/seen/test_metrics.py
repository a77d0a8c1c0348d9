"""Metrics, as Prometheus reads them: what is counted, on which listener, and that no caller can make series of it."""

import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from prometheus_client.parser import text_string_to_metric_families

from guideway.dsl.scopes import Scope
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.leases import Place
from guideway.interpreter.store import open_store
from guideway.interpreter.weighing import Rules
from guideway.server.door_watch import Delivery
from guideway.server.oauth.verified import IssuerUnavailable
from guideway.server.telemetry import exposition
from guideway.server.telemetry.exposition import serving
from guideway.server.telemetry.metrics import Metrics
from guideway.server.telemetry_sections import MetricsSection
from guideway.server.tool import TOOL_NAME
from tests.server.approvals.world import ASKER, PROGRAM
from tests.server.approvals.world import World as AskingWorld
from tests.server.oauth.door import READ, Door, a_call, bearer
from tests.server.world import World
from tests.system import machine

pytestmark = pytest.mark.anyio


class Scraped:
    """What was scraped, read by Prometheus' own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples[(f"guideway_{name}", *sorted(labels.items()))]


@asynccontextmanager
async def scraping(metrics: Metrics, port: int = 0) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    async with serving(metrics, MetricsSection(port=port), None) as url, httpx2.AsyncClient() as http:
        yield http, url


async def scraped(metrics: Metrics) -> Scraped:
    async with scraping(metrics) as (http, url):
        answer = await http.get(url)
        assert answer.status_code == 200
        return Scraped(answer.text)


async def test_runs_steps_gates_and_refusals_are_counted(world: World) -> None:
    metrics = Metrics()
    world.pipeline.watch = metrics
    for program in (
        'PING "api.internal"',
        'TRY { PING "gone.internal" } CATCH { RESTART "database" }',
        'PING "nobody-has-this-name"',
        "PING",
    ):
        await world.pipeline.run(program, world.principal)
    with anyio.move_on_after(0.1):
        await world.pipeline.run('RESTART "stuck"', world.principal)
    found = await scraped(metrics)
    assert [found("runs_total", status=status) for status in ("completed", "contained", "refused", "cancelled")] == [
        *(1, 1, 2, 1)
    ]
    assert found("runs_total", status="timed_out") == 0, "it is there before the first"
    assert found("refusals_total", code="unknown_target") == 1
    assert found("refusals_total", code="syntax") == 1
    assert found("steps_total", command="PING", outcome="ok") == 1
    assert found("steps_total", command="PING", outcome="failed") == 1
    assert found("steps_total", command="RESTART", outcome="ok") == 1
    assert found("steps_total", command="RESTART", outcome="cancelled") == 1
    assert found("step_duration_seconds_count", command="RESTART") == 2
    assert found("step_duration_seconds_sum", command="RESTART") >= 0.05
    assert found("run_duration_seconds_count", status="contained") == 1
    assert found("gate_duration_seconds_count", gate="form") == 5
    assert found("gate_duration_seconds_count", gate="authorization") == 4
    assert found("gate_duration_seconds_count", gate="impact") == 3
    assert {label for family in found.families.values() for sample in family.samples for label in sample.labels} <= {
        *("status", "code", "command", "outcome", "gate", "kind", "state", "decision", "result", "le"),
        *("version", "risk_model", "implementation", "major", "minor", "patchlevel"),
    }
    assert "nobody-has-this-name" not in found.text


async def test_a_wait_for_what_others_hold_is_measured(world: World) -> None:
    metrics = Metrics()
    world.pipeline.watch = metrics
    gate = world.pipeline.gate
    service = world.pipeline.inventory.service("database")
    async with gate.leases.hold([Place(f"service {service.key}", 1, "x")], "another", 1):
        gate.rules = Rules(wait=0.01)
        await world.pipeline.run('RESTART "database"', world.principal)
    await world.pipeline.run('RESTART "database"', world.principal)
    found = await scraped(metrics)
    assert found("lease_wait_seconds_count", outcome="busy") == 1
    assert ("guideway_lease_wait_seconds_count", ("outcome", "got")) not in found.samples, "it did not have to wait"


async def test_open_tickets_are_those_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "_SAMPLE_SECONDS", 0.01)
    world, metrics = AskingWorld(), Metrics()
    store, leases = open_store(folder=tmp_path / "store")
    world.pipeline.gate = ImpactGate(Rules(can_ask=lambda _: True), records=store, leases=leases)
    store.opened.watch = metrics
    async with serving(metrics, MetricsSection(port=0), store) as url, httpx2.AsyncClient() as http:
        await world.pipeline.run(PROGRAM, ASKER)
        with anyio.fail_after(10):
            while True:
                found = Scraped((await http.get(url)).text)
                if found.samples.get(("guideway_tickets_open", ("state", "pending"))) == 1:
                    break
                await anyio.sleep(0.01)
    assert found("tickets_open", state="approved") == 0
    assert found("tickets_asked_total") == 1
    await store.close()
    await leases.close()


async def test_tokens_calls_sessions_and_what_is_too_much_are_counted() -> None:
    metrics, door = Metrics(), Door()
    door.world.server.be_watched(metrics, None)
    both = door.tokens.add("good", READ | {Scope.WRITE})
    reader, nothing = door.tokens.add("reader", READ), door.tokens.add("nothing", ())
    away = door.tokens.fail("away", IssuerUnavailable("it is away", 5))
    broken = door.tokens.fail("broken", RuntimeError("of this program"))
    async with door.serving() as http:
        body, headers = a_call('RESTART "database"')
        for token in (both, reader, nothing, "unknown", away, broken):
            await http.post("/mcp", json=body, headers=headers | bearer(token))
        await http.post("/mcp", json=body, headers=headers)
        await http.post("/mcp", json=body, headers=headers | {"Authorization": "Bearer ###"})
        async with door.connected(both, "legacy"):
            found = await scraped(metrics)
    results = ("insufficient_scope", "refused", "missing", "unavailable", "error")
    assert [found("token_checks_total", result=result) for result in results] == [2, 2, 1, 1, 1]
    assert found("token_checks_total", result="accepted") >= 2
    assert found("sessions_open") == 1
    assert (found("calls_running"), found("calls_queued")) == (0, 0)
    assert found("throttled_total", reason="calls_per_minute_of_caller") == 0


async def test_a_running_call_and_one_that_is_turned_away_are_seen(world: World) -> None:
    metrics = Metrics()
    world.server.be_watched(metrics, None)
    async with world.serving() as url, anyio.create_task_group() as tasks:

        async def call() -> None:
            async with Client(url, mode="2026-07-28") as client:
                await client.list_tools()
                await client.call_tool(TOOL_NAME, {"program": 'RESTART "stuck"'})

        tasks.start_soon(call)
        with anyio.fail_after(20):
            while "restart" not in world.stuck.calls:
                await anyio.sleep(0.01)
        assert (await scraped(metrics))("calls_running") == 1
        world.server.turn_away()
        body, headers = a_call('PING "api.internal"')
        async with httpx2.AsyncClient() as http:
            assert (await http.post(url, json=body, headers=headers)).status_code == 503
        assert (await scraped(metrics))("throttled_total", reason="stopping") == 1
        tasks.cancel_scope.cancel()


async def test_deliveries_are_counted_by_the_configuration_s_names() -> None:
    metrics = Metrics()
    metrics.delivered("ops", Delivery.RETRIED)
    metrics.delivered("ops", Delivery.DELIVERED)
    found = await scraped(metrics)
    assert found("webhook_deliveries_total", webhook="ops", outcome="delivered") == 1
    assert found("webhook_deliveries_total", webhook="ops", outcome="retried") == 1


async def test_metrics_have_a_listener_of_their_own(world: World) -> None:
    metrics = Metrics()
    world.server.be_watched(metrics, None)
    async with world.serving() as door, scraping(metrics) as (http, url):
        assert (await http.get(door.replace("/mcp", "/metrics"))).status_code == 404
        assert (await http.get(url, headers={"Host": "evil.example"})).status_code == 421
        assert (await http.get(url, headers={"Origin": "http://evil.example"})).status_code == 403
        assert (await http.get(url.replace("/metrics", "/mcp"))).status_code == 404
        assert (await http.post(url)).status_code == 405
        openmetrics = await http.get(url, headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text")
        assert openmetrics.text.endswith("# EOF\n")
    assert ipaddress.ip_address(MetricsSection().host).is_loopback


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with scraping(Metrics()) as (_, url):
        with pytest.raises(OSError, match="in use"):
            async with scraping(Metrics(), port=httpx2.URL(url).port or 0):
                raise AssertionError


async def test_prometheus_itself_finds_nothing_to_complain_of(world: World) -> None:
    machine.need("this test", {"promtool": "prometheus"}, root=False)
    metrics = Metrics()
    world.pipeline.watch = metrics
    world.server.be_watched(metrics, None)
    metrics.delivered("ops", Delivery.DELIVERED)
    metrics.open_tickets({})
    await world.pipeline.run('RESTART "database"', world.principal)
    text = (await scraped(metrics)).text
    checked = await anyio.run_process(["promtool", "check", "metrics"], input=text.encode(), check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

"""Traces, as a collector gets them: which spans there are, whose children they are, and what is in none of them."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from pydantic import ValidationError

from guideway.server.telemetry.call_spans import CallSpans
from guideway.server.telemetry.seldom import Seldom
from guideway.server.telemetry.tracing import Tracing
from guideway.server.telemetry_sections import TelemetrySection
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import a_call
from tests.server.seen.collector import Collector, attributes, collecting
from tests.server.world import Era, World

pytestmark = pytest.mark.anyio

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = f"00-{OTHER_TRACE}-{PARENT}-01"
CALL = f"tools/call {TOOL_NAME}"
GATES = ["gate form", "gate authorization", "gate impact"]


@asynccontextmanager
async def traced(world: World, collector: Collector, **section: Any) -> AsyncIterator[str]:
    """Serve a world whose calls are traced; what was sent is there when it is over."""
    tracing = Tracing(TelemetrySection(endpoint=collector.url, **section))
    world.pipeline.watch = tracing
    world.server.be_watched(None, CallSpans(tracing.tracer, TOOL_NAME))
    try:
        async with world.serving() as url:
            yield url
    finally:
        await tracing.close(10)


async def call(url: str, program: str, *, meta: Any = None, number: int = 1, **headers: Any) -> dict[str, Any]:
    """Call the tool as a client of today does."""
    body, sent = a_call(program)
    body["id"] = number
    body["params"]["_meta"] |= meta or {}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, json=body, headers=sent | headers)
    result: dict[str, Any] = answer.json()
    return result


async def test_a_call_is_a_trace_with_its_gates_and_steps(world: World) -> None:
    with collecting() as collector:
        async with traced(world, collector) as url:
            await call(url, 'TRY { PING "gone.internal" } CATCH { RESTART "database" }  # a-secret-comment')
            await call(url, 'RESTART "nothing-like-it"')
    good, refused = collector.named(CALL)
    assert good.kind == Span.SPAN_KIND_SERVER
    assert (
        attributes(good).items()
        >= {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2026-07-28",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": TOOL_NAME,
            "jsonrpc.request.id": "1",
            "network.transport": "tcp",
            "guideway.run.status": "contained",
        }.items()
    )
    assert "error.type" not in attributes(good)
    inside = [span for span in collector.spans if span.parent_span_id == good.span_id]
    assert all(span.trace_id == good.trace_id for span in inside)
    assert [span.name for span in inside if span.name.startswith("gate")] == GATES
    assert {attributes(span)["guideway.gate.outcome"] for span in inside if span.name in GATES} == {"passed"}
    ping, restart = [span for span in inside if span.name.startswith("step")]
    assert (ping.name, ping.status.code) == ("step PING", Status.STATUS_CODE_ERROR)
    assert attributes(ping) == {
        "guideway.step.number": 1,
        "guideway.step.command": "PING",
        "guideway.step.target": "gone.internal",
        "guideway.step.outcome": "failed",
        "error.type": "no_answer",
    }
    assert attributes(restart)["guideway.step.outcome"] == "ok"
    assert restart.end_time_unix_nano - restart.start_time_unix_nano >= 0.05e9, "it settles for so long"
    assert good.start_time_unix_nano <= ping.start_time_unix_nano
    assert restart.end_time_unix_nano <= good.end_time_unix_nano
    assert attributes(refused)["error.type"] == "tool_error"
    assert attributes(refused)["guideway.refusal.code"] == "unknown_target"
    assert refused.status.code == Status.STATUS_CODE_ERROR
    authorization = [span for span in collector.named("gate authorization") if span.parent_span_id == refused.span_id]
    assert [attributes(span)["error.type"] for span in authorization] == ["unknown_target"]
    assert collector.resource.items() >= {"service.name": "guideway"}.items()
    assert [path for path, _ in collector.requests] == ["/v1/traces"] * len(collector.requests)


STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
WHOSE: list[tuple[dict[str, Any], dict[str, Any], str | None, str | None, str]] = [
    ({}, {}, None, None, ""),
    ({"traceparent": TRACEPARENT}, {}, TRACE, None, ""),
    ({}, {"traceparent": TRACEPARENT}, TRACE, None, ""),
    ({"traceparent": TRACEPARENT}, {"traceparent": OTHER}, TRACE, OTHER_TRACE, ""),
    ({"traceparent": "nonsense"}, {"traceparent": OTHER}, OTHER_TRACE, None, ""),
    ({"traceparent": f"00-{'0' * 32}-{PARENT}-01"}, {}, None, None, ""),
    ({"traceparent": f"ff-{TRACE}-{PARENT}-01"}, {}, None, None, ""),
    ({"traceparent": TRACEPARENT.upper()}, {}, None, None, ""),
    ({"traceparent": TRACEPARENT + "x" * 10_000}, {}, None, None, ""),
    ({"traceparent": 17}, {}, None, None, ""),
    ({"traceparent": ["a"]}, {"traceparent": "00-"}, None, None, ""),
    ({"traceparent": {"traceparent": TRACEPARENT}}, {"traceparent": b"\xe9"}, None, None, ""),
    ({"traceparent": TRACEPARENT, "tracestate": STATE}, {}, TRACE, None, STATE),
    ({}, {"traceparent": TRACEPARENT, "tracestate": STATE}, TRACE, None, STATE),
    ({"traceparent": TRACEPARENT, "tracestate": f"a={'x' * 9_000}"}, {}, TRACE, None, ""),
    ({"traceparent": TRACEPARENT, "tracestate": "=,=,;"}, {}, TRACE, None, ""),
    ({"traceparent": TRACEPARENT, "tracestate": 3}, {}, TRACE, None, ""),
    ({"tracestate": STATE}, {}, None, None, ""),
]
"""What comes in `_meta` and in headers; whose trace it then is, to which other it is linked, and with which state."""


async def test_whose_trace_it_is(world: World, subtests: pytest.Subtests) -> None:
    with collecting() as collector:
        async with traced(world, collector) as url:
            for number, (meta, headers, *_) in enumerate(WHOSE):
                await call(url, 'PING "api.internal"', number=number, meta=meta, **headers)
    found = {int(attributes(span)["jsonrpc.request.id"]): span for span in collector.named(CALL)}
    assert len(found) == len(WHOSE)
    for number, (meta, headers, trace, linked, state) in enumerate(WHOSE):
        with subtests.test(meta=str(meta)[:80], headers=headers):
            span = found[number]
            parent = (None, "") if trace is None else (trace, PARENT)
            assert (trace and span.trace_id.hex(), span.parent_span_id.hex()) == parent
            assert [link.trace_id.hex() for link in span.links] == ([] if linked is None else [linked])
            assert span.trace_state == state


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_official_client_s_call_in_either_era_is_one_span(world: World, era: Era) -> None:
    """The SDK would make one of its own: there is one, and it belongs to the client's trace."""
    meta: Any = {"traceparent": TRACEPARENT}
    with collecting() as collector:
        async with traced(world, collector) as url, Client(url, mode=era) as client:
            await client.call_tool(TOOL_NAME, {"program": 'PING "api.internal"'}, meta=meta)
    [span] = collector.named(CALL)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert [s.name for s in collector.spans if s.parent_span_id == span.span_id] == [*GATES, "step PING"]
    assert "OpenTelemetryMiddleware" not in {type(each).__name__ for each in world.server.middleware}


async def test_a_collector_that_hangs_holds_up_no_call_and_no_end(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with collecting() as collector:
        collector.answers.clear()
        tracing = Tracing(TelemetrySection(endpoint=collector.url))
        world.pipeline.watch = tracing
        world.server.be_watched(None, CallSpans(tracing.tracer, TOOL_NAME))
        async with world.serving() as url:
            with anyio.fail_after(8):  # an exporter's own bound is ten
                await call(url, 'PING "api.internal"')
                await anyio.to_thread.run_sync(collector.came.wait)
                result = await call(url, 'PING "api.internal"')
        assert not result["result"]["isError"]
        with anyio.fail_after(8):
            await tracing.close(0.2)
    assert "Traceback" not in caplog.text


class Stuck(SpanExporter):
    """An exporter that never sends anything."""

    def export(self, spans: Any) -> SpanExportResult:
        raise AssertionError(spans)


def test_what_waits_to_be_sent_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setitem(os.environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64")
    tracing = Tracing(TelemetrySection(), Stuck())
    batch = tracing._processor._batch_processor
    with batch._export_lock:
        for _ in range(1_000):
            tracing.tracer.start_span("x").end()
        assert len(batch._queue) == 64
        batch._queue.clear()
    anyio.run(tracing.close, 5)


async def test_spans_that_nobody_samples_are_not_made(world: World) -> None:
    with collecting() as collector:
        async with traced(world, collector, sample_ratio=0.0) as url:
            await call(url, 'PING "api.internal"')
            await call(url, 'PING "api.internal"', meta={"traceparent": TRACEPARENT})
            await call(url, 'PING "api.internal"', meta={"traceparent": TRACEPARENT[:-1] + "0"})
    assert [span.trace_id.hex() for span in collector.named(CALL)] == [TRACE], "the client's own is"


async def test_headers_come_from_their_file_and_the_rest_from_the_environment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization=Bearer%20of-the-collector,x-tenant=ops\n")
    file.chmod(0o600)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "guideway-2")
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        async with traced(world, collector, headers_file=file) as url:
            await call(url, 'PING "api.internal"')
    [(_, headers), *_] = collector.requests
    sent = {name.lower(): value for name, value in headers.items()}
    assert (sent["authorization"], sent["x-tenant"]) == ("Bearer of-the-collector", "ops")
    assert (
        collector.resource.items()
        >= {
            "deployment.environment.name": "staging",
            "service.name": "guideway-2",
        }.items()
    )


@pytest.mark.parametrize(("text", "mode"), [("nothing", 0o600), ("", 0o600), ("a=b", 0o644)])
def test_headers_that_cannot_be_used_are_told_without_them(tmp_path: Path, text: str, mode: int) -> None:
    file = tmp_path / "headers"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ValueError, match=r"^\[telemetry\] `headers_file`: what it names ") as told:
        Tracing(TelemetrySection(endpoint="http://127.0.0.1:1", headers_file=file))
    assert "nothing" not in str(told.value)


def test_no_secret_is_sent_in_the_clear_beyond_this_machine(tmp_path: Path) -> None:
    for endpoint, good in [("http://collector:4318", False), ("https://collector", True), ("http://[::1]:4318", True)]:
        if good:
            TelemetrySection(endpoint=endpoint, headers_file=tmp_path)
        else:
            with pytest.raises(ValidationError, match="would be readable"):
                TelemetrySection(endpoint=endpoint, headers_file=tmp_path)
    assert TelemetrySection(endpoint="http://collector:4318").endpoint == "http://collector:4318"
    for endpoint in ("ftp://x", "http://u:p@x", "http://", "http://x:y", "http://x?y=1"):
        with pytest.raises(ValidationError):
            TelemetrySection(endpoint=endpoint)


async def test_records_within_a_call_name_its_trace(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    caplog.handler.addFilter(Tracing.correlate)
    try:
        with collecting() as collector:
            async with traced(world, collector) as url:
                await call(url, 'PING "api.internal"', meta={"traceparent": TRACEPARENT})
    finally:
        caplog.handler.removeFilter(Tracing.correlate)
    [record] = [record for record in caplog.records if record.name == "guideway.server.run_log"]
    assert record.trace_id == TRACE  # type: ignore[attr-defined]
    assert record.span_id == collector.named(CALL)[0].span_id.hex()  # type: ignore[attr-defined]
    logging.getLogger("guideway").info("outside")
    assert not hasattr(caplog.records[-1], "trace_id")


def test_what_is_away_is_logged_once_a_minute() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)

    def record(number: int) -> logging.LogRecord:
        return logging.LogRecord("x", logging.ERROR, "", 0, "failed %d", (number,), None)

    assert seldom.filter(record(1))
    assert not any(seldom.filter(record(number)) for number in range(99))
    assert seldom.filter(logging.LogRecord("x", logging.ERROR, "", 0, "another", None, None))
    now = 60.0
    last = record(7)
    assert seldom.filter(last)
    assert last.getMessage() == "failed 7 (99 more before it were only counted)"


def test_a_step_that_is_over_needs_no_call() -> None:
    """Programs run without one too; then nothing is made of them."""
    made: list[ReadableSpan] = []

    class Kept(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            made.extend(spans)
            return SpanExportResult.SUCCESS

    async def main() -> None:
        world = World()
        tracing = Tracing(TelemetrySection(), Kept())
        world.pipeline.watch = tracing
        report = await world.pipeline.run('PING "api.internal" GET_STATUS "database"', world.principal)
        assert len(report.steps) == 2
        await tracing.close(5)

    anyio.run(main)
    assert made == []

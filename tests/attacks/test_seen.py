"""What is there so that the server is seen, turned against it: its logs, its probes, its traces and its metrics."""

import json
import logging
import re
from typing import Any

import anyio
import httpx2
import pytest
from prometheus_client import generate_latest

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.server.cli.logs import JsonFormatter
from guideway.server.run_log import log_run
from guideway.server.telemetry.call_spans import CallSpans
from guideway.server.telemetry.metrics import Metrics
from guideway.server.telemetry.several import Several
from guideway.server.telemetry.tracing import Tracing
from guideway.server.telemetry_sections import TelemetrySection
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import READ, Door, a_call, bearer, message
from tests.server.seen.collector import collecting
from tests.server.test_http import INITIALIZE, post
from tests.server.world import World

pytestmark = pytest.mark.anyio

WORD = "s3cr3t"


async def test_a_subject_that_forges_a_record(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has their identity provider call them what would be a record of its own: another's run, done."""
    caplog.set_level("INFO")
    forged = json.dumps({"level": "info", "logger": "guideway.server.run_log", "message": "run 1", "subject": "ada"})
    world = World()
    mallory = Principal(f'x"}}\n{forged}\r\n\u2028{forged}', frozenset({Scope.READ}))
    log_run(await world.pipeline.run('PING "api.internal"', mallory), mallory, f"t\n{forged}")
    written = JsonFormatter().format(caplog.records[-1])
    assert len(written.splitlines()) == 1
    assert json.loads(written)["subject"].startswith('x"}\n{"level"')


async def test_a_request_that_hides_in_a_probe_s_body() -> None:
    """A probe needs no token, so it is sent through a proxy with a length and with chunks: the proxy reads one request,
    and the server two, of which the second came past all that the proxy checks.
    """
    door = Door()
    async with door.serving():
        stream = await anyio.connect_tcp("127.0.0.1", httpx2.URL(door.url).port or 0)
        async with stream:
            hidden = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
            head = f"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: {len(hidden) + 5}\r\n"
            await stream.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden)
            answered = b""
            with anyio.fail_after(10):
                try:
                    while True:
                        answered += await stream.receive()
                except anyio.EndOfStream:
                    pass
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert answered.count(b"HTTP/1.1") == 1


async def test_words_that_are_to_get_into_traces_and_metrics() -> None:
    """Somebody writes a word wherever a client, a program or a service can write one, so that a collector keeps it, and
    ever new ones, so that Prometheus has ever more series.
    """
    answers: list[httpx2.Response] = []
    door = Door()
    door.world.database.output = WORD  # what a service says
    token = door.tokens.add(f"token-{WORD}", READ | {Scope.WRITE}, subject=WORD)
    with collecting() as collector:
        tracing = Tracing(TelemetrySection(endpoint=collector.url))
        door.world.pipeline.watch = Several([metrics := Metrics(), tracing])
        before = len(generate_latest(metrics.registry).splitlines())
        door.world.server.be_watched(metrics, CallSpans(tracing.tracer, TOOL_NAME))
        async with door.serving() as http:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("tools/call", {"name": WORD, "arguments": {}}),
                ("tools/call", {"name": TOOL_NAME, "arguments": {WORD: WORD}}),
                ("tools/call", {"name": TOOL_NAME, "arguments": {"program": f'PING "{WORD}"'}}),
                ("tools/call", {"name": TOOL_NAME, "arguments": {"program": f'PING "api.internal" # {WORD}'}}),
                ("tools/call", {"name": TOOL_NAME, "arguments": {"program": 'GET_STATUS "database"'}}),
                ("tools/call", {"name": TOOL_NAME, "arguments": {"program": WORD}}),
                (f"x/{WORD}", {}),
                ("resources/read", {"uri": f"guideway://{WORD}"}),
                ("prompts/get", {"name": WORD}),
            ]
            for method, params in calls:
                body, headers = message(method, **params)
                body["id"] = WORD
                answers.append(
                    await http.post("/mcp", json=body, headers=headers | bearer(token) | {"tracestate": f"a={WORD}"})
                )
        await tracing.close(10)
    assert any(
        WORD in answer.json()["result"]["structuredContent"]["steps"][0]["untrusted_output"] for answer in answers[4:5]
    )
    assert len(collector.named(f"tools/call {TOOL_NAME}")) >= 4
    assert {"tools/call", "_OTHER"} <= {span.name for span in collector.spans}
    assert WORD.encode() not in b"".join(collector.bodies)
    text = generate_latest(metrics.registry)
    assert WORD.encode() not in text
    assert len(text.splitlines()) < before + 250, "statuses, codes, commands, gates: all of them closed lists"


METAS: list[Any] = ["x", [], 3, None, {"traceparent": {}}, {"traceparent": "\ud800"}, {"traceparent": None}]


async def test_meta_that_is_to_break_a_call(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody sends what is no `_meta`, to see what a server that looks for a trace in it says of its own insides."""
    world = World()
    answers: list[httpx2.Response] = []
    with collecting() as collector:
        tracing = Tracing(TelemetrySection(endpoint=collector.url))
        world.server.be_watched(None, CallSpans(tracing.tracer, TOOL_NAME))
        async with world.serving() as url, httpx2.AsyncClient() as http:
            older = await post(url, INITIALIZE)
            of_session = {
                "MCP-Protocol-Version": "2025-11-25",
                "Mcp-Session-Id": older.headers["mcp-session-id"],
                "Accept": "application/json, text/event-stream",
            }
            body, headers = a_call('PING "api.internal"')
            now = body["params"]["_meta"]
            for meta in METAS:
                modern = now | meta if isinstance(meta, dict) else meta
                for given, sent in ((modern, headers), (meta, of_session)):
                    body["params"]["_meta"] = given
                    kind = {"Content-Type": "application/json"}
                    answers.append(await http.post(url, content=json.dumps(body).encode(), headers=sent | kind))
            body["params"]["_meta"] = now
            assert not (await http.post(url, json=body, headers=headers)).json()["result"]["isError"]
        await tracing.close(10)
    for answer in answers:
        assert answer.status_code < 500, answer.text
        assert not re.search(r"Traceback|[A-Z]\w+Error\b|Internal error", answer.text), answer.text
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]

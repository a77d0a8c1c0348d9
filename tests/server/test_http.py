"""The HTTP transport below the client: who may reach it, by which address, and how it stops."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client

from guideway.interpreter.drivers.memory import Behaviour
from guideway.server.app import serve_http
from guideway.server.config import exposure
from guideway.server.oauth.refusal_log import MOST
from guideway.server.sections import ENDPOINT, ServerSection
from guideway.server.tool import TOOL_NAME
from tests.server.world import Era, World

pytestmark = pytest.mark.anyio

DISCOVER: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}
OPENINGS = {"legacy": INITIALIZE, "2026-07-28": DISCOVER}
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


async def post(url: str, message: dict[str, Any] | bytes, **headers: str) -> httpx2.Response:
    """Send one message as a client of its era does, with some headers changed."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"} if message == DISCOVER else {}
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"} | modern | headers
    async with httpx2.AsyncClient() as http:
        return await http.post(url, content=body, headers=sent)


@eras
async def test_host_and_origin_are_checked(world: World, era: Era, subtests: pytest.Subtests) -> None:
    async with world.serving() as url:
        here = httpx2.URL(url).port
        for headers, status in [
            ({}, 200),
            ({"Host": f"localhost:{here}"}, 200),
            ({"Origin": f"http://127.0.0.1:{here}"}, 200),
            ({"Origin": f"http://localhost:{here}"}, 200),
            ({"Host": "guideway.example"}, 421),
            ({"Host": f"guideway.example:{here}"}, 421),
            ({"Host": "127.0.0.1"}, 421),
            ({"Host": "127.0.0.1:1"}, 421),
            ({"Host": f"localhost.evil.example:{here}"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "http://localhost:1"}, 403),
            ({"Origin": f"https://localhost:{here}"}, 403),
            ({"Origin": "null"}, 403),
        ]:
            with subtests.test(**headers):
                response = await post(url, OPENINGS[era], **headers)
                assert response.status_code == status
                assert ("guideway" in response.text) == (status == 200)


async def test_what_is_turned_away_for_its_address_is_logged_and_cannot_fill_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with world.serving() as url:
        for _ in range(20):
            await post(url, DISCOVER, Host="evil.example")
        await post(url, DISCOVER, Origin="http://evil.example")
    said = [record.getMessage() for record in caplog.records if "evil" in record.getMessage()]
    why = "header is none that is known here: see `url` of [server]"
    assert said[0] == f"refused a request from 127.0.0.1, `evil.example`: its Host {why}"
    assert said[-1] == f"refused a request from 127.0.0.1, `http://evil.example`: its Origin {why}"
    assert len(said) == MOST + 1


@eras
async def test_more_hosts_and_origins_can_be_allowed(world: World, era: Era) -> None:
    async with world.serving(allowed_hosts=["ops.internal"], allowed_origins=["https://ops.internal"]) as url:
        response = await post(url, OPENINGS[era], Host="ops.internal", Origin="https://ops.internal")
    assert response.status_code == 200


async def test_nothing_else_is_served(world: World, subtests: pytest.Subtests) -> None:
    async with world.serving() as url, httpx2.AsyncClient() as http:
        for method, path, status in [
            ("GET", "/", 404),
            ("GET", "/sse", 404),
            ("POST", "/messages", 404),
            ("PUT", ENDPOINT, 405),
            ("GET", ENDPOINT, 400),
        ]:
            with subtests.test(method=method, path=path):
                assert (await http.request(method, httpx2.URL(url).join(path))).status_code == status


@eras
async def test_a_body_that_is_no_message_is_refused(world: World, era: Era, subtests: pytest.Subtests) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} if era != "legacy" else {}
    async with world.serving() as url:
        for name, body, status in [
            ("empty", b"", 400),
            ("cut", b"{", 400),
            ("batch", b"[]", 400),
            ("string", b'"PING"', 400),
            ("nested", b"[" * 100_000, 400),
            ("huge", b" " * 5_000_000, 413),
        ]:
            with subtests.test(name):
                assert (await post(url, body, **headers)).status_code == status


async def test_a_lone_surrogate_is_explained_and_ends_nothing(world: World) -> None:
    message = DISCOVER | {"method": "tools/call"}
    message["params"] = DISCOVER["params"] | {"name": TOOL_NAME, "arguments": {"program": "\ud800"}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": TOOL_NAME}
    async with world.serving() as url:
        response = await post(url, message, **headers)
        assert response.status_code == 200
        result = response.json()["result"]
        assert result["isError"]
        assert result["structuredContent"]["refusal"]["code"] == "syntax"
        assert (await post(url, DISCOVER)).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_is_served_to_whoever_asks(host: str) -> None:
    assert exposure(ServerSection(), host, tokens=False) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "guideway.example", "localhost.evil.example"])  # noqa: S104
async def test_no_other_address_is_bound_where_no_token_is_asked_for(world: World, host: str) -> None:
    with pytest.raises(ValueError, match="is not loopback, and nobody is asked for a token"):
        await serve_http(world.server, host=host)


async def test_a_port_that_is_taken_is_an_error(world: World) -> None:
    async with world.serving() as url:
        with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
            await serve_http(world.server, port=httpx2.URL(url).port or 0)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_ipv6_loopback_is_served(world: World) -> None:
    async with world.serving(host="::1") as url:
        assert url.startswith("http://[::1]:")
        async with Client(url) as client:
            assert (await client.list_tools()).tools


@eras
async def test_a_server_that_is_told_to_stop_lets_calls_end(world: World, era: Era) -> None:
    """The restart takes a while; the server is told to stop in the middle, and the client still has its result."""
    world.database.start_seconds = 0.5
    statuses: list[str] = []
    refused: list[int] = []
    async with anyio.create_task_group() as server_tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(world.server, signals=False, grace=20, task_status=task_status)

        url = await server_tasks.start(serve)

        async def stop_when_running(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            server_tasks.cancel_scope.cancel()
            refused.append((await post(url, OPENINGS[era])).status_code)

        with anyio.CancelScope(shield=True), anyio.fail_after(30):
            async with Client(url, mode=era) as client:
                await client.list_tools()  # or the client asks for the tool's output schema after the call
                result = await client.call_tool(
                    TOOL_NAME, {"program": 'RESTART "database"'}, progress_callback=stop_when_running
                )
                statuses.append(result.structured_content["status"])
    assert statuses == ["completed"]
    assert refused[0] == 503, "no new call begins"
    assert "start" not in world.database.calls, "it was not cancelled"


@eras
@pytest.mark.parametrize("progress", [True, False])
async def test_a_call_that_outlives_the_grace_is_cancelled(
    world: World, era: Era, progress: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client has the report of what was done until then, and nothing is logged as an error."""
    assert world.stuck.behaviour is Behaviour.NEVER_STOPS
    results = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, world.serving() as url:

            async def call() -> None:
                async with Client(url, mode=era) as client:
                    await client.list_tools()
                    options: Any = {"progress_callback": ignored} if progress else {}
                    results.append(await client.call_tool(TOOL_NAME, {"program": 'RESTART "stuck"'}, **options))

            tasks.start_soon(call)
            while "restart" not in world.stuck.calls:
                await anyio.sleep(0.01)
    [result] = results
    assert_cancelled(result)
    assert "start" in world.stuck.calls, "it was cancelled"
    assert "ERROR" not in caplog.text
    assert "Traceback" not in caplog.text


def assert_cancelled(result: types.CallToolResult) -> None:
    """Hold the result of a call that the server cancelled."""
    assert result.is_error
    report = result.structured_content
    assert report["status"] == "cancelled"
    assert [(step["command"], step["outcome"]) for step in report["steps"]] == [("RESTART", "cancelled")]


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Take progress, so that it is sent."""


@contextmanager
def serving_by_command(world: World, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve HTTP by ``guideway serve``; give the process and the URL."""
    stdio = world.command(folder)
    command = [stdio.command, *stdio.args, "--http", "127.0.0.1:0", "--json"]
    command.remove("--stdio")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told = ""
            while not told.endswith("}\n") and (line := server.stdout.readline()):
                told += line
            yield server, json.loads(told)["url"]
        finally:
            server.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_in_good_order(world: World, tmp_path: Path, number: signal.Signals) -> None:
    with serving_by_command(world, tmp_path) as (server, address):
        url = httpx2.URL(address)
        with socket.create_connection((url.host, url.port or 0)):  # an idle connection keeps nothing up
            server.send_signal(number)
            _, said = server.communicate(timeout=30)
    assert server.returncode == 0, said
    assert "Traceback" not in said


@eras
@pytest.mark.parametrize(
    "numbers", list(product([signal.SIGINT, signal.SIGTERM], repeat=2)), ids=lambda both: "-".join(n.name for n in both)
)
async def test_a_second_signal_does_not_wait_for_calls(
    world: World, tmp_path: Path, era: Era, numbers: tuple[signal.Signals, signal.Signals]
) -> None:
    first, second = numbers
    running = anyio.Event()
    results = []

    async def runs(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        running.set()

    with serving_by_command(world, tmp_path) as (server, url):

        async def call() -> None:
            async with Client(url, mode=era) as client:
                await client.list_tools()
                arguments = {"program": 'RESTART "stuck"'}
                results.append(await client.call_tool(TOOL_NAME, arguments, progress_callback=runs))

        with anyio.fail_after(25):  # its own deadline would end the restart after 30 s, as failed
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await running.wait()
                server.send_signal(first)
                while (await post(url, OPENINGS[era])).status_code != 503:
                    await anyio.sleep(0.01)
                assert not results, "the call has its grace"
                server.send_signal(second)
        _, said = server.communicate(timeout=30)
    assert_cancelled(results[0])
    assert server.returncode == 0, said
    assert "Traceback" not in said
    assert "ERROR" not in said


async def test_no_path_is_redirected(world: World) -> None:
    async with world.serving() as url:
        for path in ("/mcp/", "/grammar/"):
            assert (await post(str(httpx2.URL(url).join(path)), DISCOVER)).status_code == 404

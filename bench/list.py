"""`tools/list` of a caller whose copy is made already, against a server that has nothing but that answer.

The other server is the bare SDK: its handler returns the same answer in its wire form, the quickest that the SDK
allows, so that both send the same bytes and what differs is finding out who asks and which copy is theirs. Both
applications are asked in turns in this process, without a network, which would hide the difference. Medians of the time
and of the processor time of an answer; beside them, once, what making a copy costs.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import Message

import guideway
from bench import Figure
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.app import http_app
from guideway.server.tool import INSTRUCTIONS, build_server

ANSWERS = 500  # of each server in each case
MOST = 1.2
NAMES = (10, 10_000)  # of hosts, and of services
PREFIX = "io.modelcontextprotocol"
HOST, PORT = "127.0.0.1", 8765

Ask = Callable[[], Awaitable[bytes]]


def main() -> list[Figure]:
    """Measure both protocol eras, with few names and with many."""
    return [figure for names in NAMES for figure in anyio.run(measure, names)]


async def measure(names: int) -> list[Figure]:
    """Return the figures for an inventory of so many hosts and as many services."""
    ours = guideway_app(names)
    figures: list[Figure] = []
    async with running(ours):
        since = perf_counter()
        answer = result_of(await modern(ours)())
        figures.append(Figure(f"{names:,} names: the first answer", f"{(perf_counter() - since) * 1000:.0f} ms"))
        constant = constant_app(answer)
        async with running(constant):
            for era, connect in (("modern", connected_modern), ("legacy", connected_legacy)):
                pair = Pair(await connect(constant), await connect(ours))
                figures += await compare(f"{names:,} names, {era}", pair)
    return figures


class Pair(NamedTuple):
    """The two that are compared."""

    constant: Ask
    ours: Ask


async def compare(case: str, pair: Pair) -> list[Figure]:
    """Ask both in turns; return what an answer takes of each, and the ratios."""
    assert result_of(await pair.constant()) == result_of(await pair.ours())
    size = len(await pair.ours())
    spent: dict[Ask, list[tuple[float, float]]] = {ask: [] for ask in pair}
    for number in range(-50, ANSWERS):
        for ask in pair if number % 2 else reversed(pair):
            wall, processor = perf_counter(), process_time()
            await ask()
            if number >= 0:
                spent[ask].append((perf_counter() - wall, process_time() - processor))
    (base_wall, base), (ours_wall, ours) = ([median(times) for times in zip(*spent[ask], strict=True)] for ask in pair)
    return [
        Figure(f"{case}: the same {size:,} bytes always", f"{base_wall * 1000:.3f} ms"),
        Figure(f"{case}: guideway", f"{ours_wall * 1000:.3f} ms"),
        Figure(f"{case}: ratio", f"{ours_wall / base_wall:.2f}", f"at most {MOST}", ours_wall / base_wall <= MOST),
        Figure(f"{case}: ratio of processor time", f"{ours / base:.2f}", f"at most {MOST}", ours / base <= MOST),
    ]


def guideway_app(names: int) -> Starlette:
    """Return this product's application."""
    inventory = Inventory(
        (Host(f"web-{number:05}.internal", MemoryProbe()) for number in range(names)),
        (Service(f"unit-{number:05}", MemoryDriver(), risk=HARMLESS) for number in range(names)),
    )
    caller = Principal("bench", PROGRAM_SCOPES)
    return http_app(build_server(Pipeline(inventory), lambda: caller), host=HOST, port=PORT)


def constant_app(answer: dict[str, Any]) -> Starlette:
    """Return a bare server of the same name that has one answer."""
    wire = {key: value for key, value in answer.items() if key != "_meta"}

    async def list_tools(_ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams) -> dict[str, Any]:
        return wire

    server: Server[Any] = Server(
        "guideway",
        title="Guideway",
        version=guideway.__version__,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
    )
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    address = f"{HOST}:{PORT}"
    security = TransportSecuritySettings(allowed_hosts=[address], allowed_origins=[f"http://{address}"])
    return server.streamable_http_app(transport_security=security)


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[None]:
    """Let an application live, as a server does."""
    async with app.router.lifespan_context(app):
        yield


def modern(app: Starlette) -> Ask:
    """2026-07-28: each request stands for itself."""
    version = "2026-07-28"
    meta = {f"{PREFIX}/protocolVersion": version, f"{PREFIX}/clientCapabilities": {}}
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/list"}
    body = message("tools/list", {"_meta": meta}, id=1)
    return lambda: body_of(post(app, body, headers))


async def connected_modern(app: Starlette) -> Ask:
    """Return how to ask in the modern era."""
    return modern(app)


async def connected_legacy(app: Starlette) -> Ask:
    """2025-11-25: a session, and answers as event streams."""
    version = "2025-11-25"
    who = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    sent, _ = await post(app, message("initialize", who, id=1), {})
    headers = {"mcp-protocol-version": version, "mcp-session-id": sent["mcp-session-id"]}
    await post(app, message("notifications/initialized", {}), headers)
    body = message("tools/list", {}, id=2)
    return lambda: body_of(post(app, body, headers))


def message(method: str, params: dict[str, Any], **envelope: Any) -> bytes:
    """Return a message; a request where the envelope has an id."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | envelope).encode()


async def body_of(answer: Awaitable[tuple[dict[str, str], bytes]]) -> bytes:
    """Return the body of an answer."""
    return (await answer)[1]


async def post(app: Starlette, body: bytes, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    """Send a body to an application; return the headers and the body of its answer."""
    sent = {
        "host": f"{HOST}:{PORT}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
    } | headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": (HOST, 1),
        "server": (HOST, PORT),
    }
    ahead: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    answered: list[Message] = []

    async def receive() -> Message:
        if not ahead:
            await anyio.sleep_forever()
        return ahead.pop()

    async def send(part: Message) -> None:
        answered.append(part)

    await app(scope, receive, send)
    start, *parts = answered
    received = b"".join(part.get("body", b"") for part in parts)
    assert start["status"] < 300, received
    return {name.decode(): value.decode() for name, value in start["headers"]}, received


def result_of(body: bytes) -> dict[str, Any]:
    """Return the result in the body of an answer."""
    text = next((line[6:] for line in body.splitlines() if line.startswith(b"data: {")), body)
    found: dict[str, Any] = json.loads(text)["result"]
    return found

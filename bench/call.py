"""A tool call over HTTP: the sample script on services in memory, against a tool of the bare SDK that does nothing.

Each server is a process of its own with the same settings (uvicorn on asyncio with h11, SSE answers, sessions for the
earlier era). One client with one keep-alive connection to each calls them in turns, so that whatever else the machine
does falls on both alike; each time is a median over all calls. Where Linux tells it, the processor time that a call
takes of its server stands beside that: a busy machine bends it less.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

from bench import Figure

SCRIPT = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }'
)
TOOL = "execute_diagnostic_pipeline"
CALLS = 1_000  # of each server in each era
MOST = 1.15


def main() -> list[Figure]:
    """Measure both protocol eras."""
    with serving("noop") as noop, serving("guideway") as guideway:
        return [
            figure for era in (Modern, Legacy) for figure in compare(era.__name__.lower(), era(noop), era(guideway))
        ]


def compare(era: str, noop: "Client", guideway: "Client") -> list[Figure]:
    """Call both in turns; return what a call takes of each, and the ratios."""
    spent: dict[Client, list[float]] = {noop: [], guideway: []}
    for _ in range(100):  # warm caches up
        noop.call()
        guideway.call()
    before = {client: client.server.processor_seconds() for client in spent}
    for number in range(CALLS):
        for client in (noop, guideway) if number % 2 else (guideway, noop):
            since = perf_counter()
            client.call()
            spent[client].append(perf_counter() - since)
    used = {client: client.server.processor_seconds() - before[client] for client in spent}
    assert guideway.result()["structuredContent"]["status"] == "completed"
    base, ours = median(spent[noop]), median(spent[guideway])
    figures = [
        Figure(f"{era}: a tool of the bare SDK that does nothing", f"{base * 1000:.3f} ms"),
        Figure(f"{era}: the sample script", f"{ours * 1000:.3f} ms"),
        Figure(f"{era}: ratio", f"{ours / base:.2f}", f"<= {MOST}", ours / base <= MOST),
    ]
    if used[noop]:
        each = " and ".join(f"{used[client] / CALLS * 1000:.3f} ms" for client in (noop, guideway))
        figures += [
            Figure(f"{era}: processor time of the two", each),
            Figure(f"{era}: ratio of processor time", f"{used[guideway] / used[noop]:.2f}"),
        ]
    return figures


class Server(NamedTuple):
    """A server in a process of its own."""

    port: int
    pid: int

    def processor_seconds(self) -> float:
        """Return the processor time that it has used; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9
        except OSError:
            return 0.0


class Client:
    """The least that a client has to do: one request on one connection, and its answer read whole."""

    headers: dict[str, str]
    meta: dict[str, Any]

    def __init__(self, server: Server, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.server = server
        self._http = HTTPConnection("127.0.0.1", server.port)
        self._http.connect()
        assert self._http.sock is not None
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
        self.open()
        call = {"name": TOOL, "arguments": {"program": SCRIPT}} | self.meta
        self._body = self.message("tools/call", call)

    def open(self) -> None:
        """Do what this era asks of a client before its first call."""
        raise NotImplementedError

    @staticmethod
    def message(method: str, params: dict[str, Any], **envelope: Any) -> bytes:
        """Return a message; a request unless the envelope says otherwise."""
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | envelope).encode()

    def post(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        """Send a body; return the answer."""
        self._http.request("POST", "/mcp", body, self.headers)
        response = self._http.getresponse()
        read = response.read()
        assert response.status < 300, read
        return response, read

    def call(self) -> bytes:
        """Call the tool; return the body of the answer."""
        return self.post(self._body)[1]

    def result(self) -> dict[str, Any]:
        """Call the tool; return its result."""
        body = self.call()
        line = next((line[6:] for line in body.splitlines() if line.startswith(b"data: {")), body)
        found: dict[str, Any] = json.loads(line)["result"]
        return found


class Modern(Client):
    """2026-07-28: each request stands for itself."""

    def open(self) -> None:
        version = "2026-07-28"
        self.headers |= {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": TOOL}
        prefix = "io.modelcontextprotocol"
        self.meta = {"_meta": {f"{prefix}/protocolVersion": version, f"{prefix}/clientCapabilities": {}}}


class Legacy(Client):
    """2025-11-25: a session, and answers as event streams."""

    def open(self) -> None:
        version = "2025-11-25"
        who = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        response, _ = self.post(self.message("initialize", who))
        self.headers |= {"MCP-Protocol-Version": version, "Mcp-Session-Id": response.getheader("Mcp-Session-Id", "")}
        self.post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode())
        self.meta = {}


@contextmanager
def serving(which: str) -> Iterator[Server]:
    """Run one of the servers in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "bench.call", which], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        while True:
            with closing(socket.socket()) as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
        try:
            yield Server(port, server.pid)
        finally:
            server.terminate()


def serve(which: str) -> None:
    """Serve until terminated."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    print(port, flush=True)
    (serve_noop if which == "noop" else serve_guideway)(port)


def serve_guideway(port: int) -> None:
    """Serve this product as ``guideway serve`` does."""
    import anyio  # noqa: PLC0415  # the measuring process needs none of it

    from guideway.dsl.scopes import PROGRAM_SCOPES  # noqa: PLC0415
    from guideway.interpreter.drivers.memory import MemoryDriver  # noqa: PLC0415
    from guideway.interpreter.inventory import Host, Inventory  # noqa: PLC0415
    from guideway.interpreter.pipeline import Pipeline  # noqa: PLC0415
    from guideway.interpreter.principal import Principal  # noqa: PLC0415
    from guideway.interpreter.probes.memory import MemoryProbe  # noqa: PLC0415
    from guideway.interpreter.risk import HARMLESS  # noqa: PLC0415
    from guideway.interpreter.service import Service  # noqa: PLC0415
    from guideway.server.app import serve_http  # noqa: PLC0415
    from guideway.server.tool import build_server  # noqa: PLC0415

    caller = Principal("bench", PROGRAM_SCOPES)
    inventory = Inventory([Host("api.internal", MemoryProbe())], [Service("database", MemoryDriver(), risk=HARMLESS)])
    server = build_server(Pipeline(inventory), lambda: caller)

    async def run() -> None:
        await serve_http(server, port=port)

    anyio.run(run)


def serve_noop(port: int) -> None:
    """Serve a tool that does nothing with what the SDK offers."""
    import mcp_types as types  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415
    from mcp.server import lowlevel  # noqa: PLC0415
    from mcp.server.context import ServerRequestContext  # noqa: PLC0415

    schema = {"type": "object", "properties": {"program": {"type": "string"}}, "required": ["program"]}
    Context = ServerRequestContext[Any, Any]  # noqa: N806

    async def list_tools(_ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema=schema)])

    async def call_tool(_ctx: Context, _params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="ok")])

    server: lowlevel.Server[Any] = lowlevel.Server(
        "noop", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda _: schema
    )
    uvicorn.run(
        server.streamable_http_app(),
        port=port,
        loop="asyncio",
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )


if __name__ == "__main__":
    serve(sys.argv[1])

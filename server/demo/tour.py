"""The main job for real, in a few seconds: a crashed service, a client's program, a service that runs again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent

from guideway.server.app import serve_http
from guideway.server.config import load
from guideway.server.demo.processes import LOOPBACK
from guideway.server.demo.world import DemoError, World
from guideway.server.tool import TOOL_NAME, build_server
from guideway.server.wiring import build, caller

PROGRAM = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }'
)


@dataclass
class Tour:
    """What was seen on the way. ``say`` is given each line as it comes."""

    say: Callable[[str], None]
    killed: int = 0
    started: int = 0
    results: list[CallToolResult] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the machine form: both process ids of the database, and the tool's two results."""
        return {
            "killed_pid": self.killed,
            "started_pid": self.started,
            "results": [result.structured_content for result in self.results],
        }


def take(world: World, say: Callable[[str], None]) -> Tour:
    """Break the database, and let an MCP client mend it. Raises ``DemoError`` where that did not really happen."""
    tour = Tour(say)
    say(f"Four programs run under supervisord in {world.folder}: database, cache, api, worker.")
    tour.killed = world.kill("database")
    say(f"The database was killed, as a crash would (process {tour.killed}). Nobody starts it again.")
    anyio.run(_client, world, tour)
    tour.started = world.pid("database")
    answer = asyncio.run(_ask(world.database_port)) if tour.started else ""
    if tour.started in (0, tour.killed) or answer != "PONG":
        raise DemoError(f"the database was not started again; see {world.folder}")
    say(f"The database runs again, as process {tour.started}, and answers {answer}.")
    return tour


async def _client(world: World, tour: Tour) -> None:
    config = load(world.configuration)
    pipeline = build(config)
    async with anyio.create_task_group() as tasks:
        url = await tasks.start(_serve, build_server(pipeline, lambda: caller(config)), world.server_port)
        async with Client(url) as client:
            (tool,) = (await client.list_tools()).tools
            tour.say("")
            tour.say(f"An MCP client connects to {url} and finds one tool, {tool.name}. It submits:")
            tour.say(f"  {PROGRAM}")
            await _submit(client, tour)
            tour.say("")
            tour.say("And once more, now that the database runs:")
            await _submit(client, tour)
        tasks.cancel_scope.cancel()
    await pipeline.close()


async def _submit(client: Client, tour: Tour) -> None:
    result = await client.call_tool(TOOL_NAME, {"program": PROGRAM})
    tour.results.append(result)
    for block in result.content:
        if isinstance(block, TextContent):
            for line in block.text.splitlines():
                tour.say(f"  {line}")


async def _serve(server: Any, port: int, *, task_status: anyio.abc.TaskStatus[str]) -> None:
    await serve_http(server, port=port, signals=False, task_status=task_status)


async def _ask(port: int) -> str:
    """Return what the database itself answers to a ``PING``."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"PING\n")
    answer = await asyncio.wait_for(reader.readline(), timeout=5)
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()

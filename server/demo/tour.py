"""The main job for real, in a few seconds: a crashed service, a client that may look, and one scope more to mend it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import CallToolResult, TextContent
from pydantic import AnyUrl

from guideway.dsl.ast import COMMANDS
from guideway.dsl.scopes import known_scopes
from guideway.server.app import serve_http
from guideway.server.cli.development import tokens_let_in
from guideway.server.config import load
from guideway.server.demo.person import Person
from guideway.server.demo.processes import LOOPBACK
from guideway.server.demo.world import PERSON, DemoError, World
from guideway.server.describe import GRAMMAR_KEY
from guideway.server.development_issuer.sign_in import new_code
from guideway.server.oauth.caller import caller
from guideway.server.tool import TOOL_NAME, build_server
from guideway.server.wiring import build

DIAGNOSIS = 'IF_RUNNING "database" THEN { PING "api.internal" } ELSE { PING "cache.internal" }'
REPAIR = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }'
)
_HOME = "http://127.0.0.1:1/signed-in"  # where the client has its person sent back to; nobody needs to listen there


@dataclass
class Tour:
    """What was seen on the way. ``say`` is given each line as it comes; ``challenges`` are the server's own words."""

    say: Callable[[str], None]
    killed: int = 0
    started: int = 0
    challenges: list[str] = field(default_factory=list)
    results: list[CallToolResult] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the machine form: both process ids of the database, the challenges, and the tool's results."""
        return {
            "killed_pid": self.killed,
            "started_pid": self.started,
            "challenges": self.challenges,
            "results": [result.structured_content for result in self.results],
        }


def take(world: World, say: Callable[[str], None]) -> Tour:
    """Break the database, and let an MCP client mend it. Raises ``DemoError`` where that did not really happen."""
    tour = Tour(say)
    say(f"Four programs run under supervisord in {world.folder}: database, cache, api, worker.")
    tour.killed = world.kill("database")
    say(f"The database was killed, as a crash would (process {tour.killed}). Nobody starts it again.")
    say("")
    anyio.run(_visit, world, tour)
    tour.started = world.pid("database")
    answer = asyncio.run(_ask(world.database_port)) if tour.started else ""
    if tour.started in (0, tour.killed) or answer != "PONG":
        raise DemoError(f"the database was not started again; see {world.folder}")
    if not tour.challenges:
        raise DemoError("the client was never challenged")
    say(f"The database runs again, as process {tour.started}, and answers {answer}.")
    return tour


async def _visit(world: World, tour: Tour) -> None:
    async with _serving(world, tour) as (url, person), _client(url, person, tour) as client:
        await _list(client, tour, "It finds")
        tour.say("It submits a diagnosis:")
        await _submit(client, tour, DIAGNOSIS)
        tour.say("")
        tour.say("It submits a repair, which its token does not allow:")
        await _submit(client, tour, REPAIR)
        tour.say("")
        await _list(client, tour, "It lists the tools again, and finds")
        tour.say("And once more, now that the database runs:")
        await _submit(client, tour, REPAIR)


@asynccontextmanager
async def _serving(world: World, tour: Tour) -> AsyncIterator[tuple[str, Person]]:
    """Serve the world to whoever has a token of the development issuer; give the URL, and a person who can sign in."""
    config = load(world.with_tokens)
    pipeline = build(config)
    code = new_code()
    try:
        async with anyio.create_task_group() as tasks:
            serve = partial(
                serve_http,
                build_server(pipeline, caller),
                port=config.server.port,
                access=partial(tokens_let_in, config, sign_in_code=code),
                signals=False,
            )
            yield await tasks.start(serve), Person(PERSON, code, tour.say)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await pipeline.close()


@asynccontextmanager
async def _client(url: str, person: Person, tour: Tour) -> AsyncIterator[Client]:
    """Connect the official client, as any application would: it signs in, and steps up, by itself."""

    async def watch(response: httpx2.Response) -> None:
        match response.status_code:
            case 401 if "Authorization" not in response.request.headers:
                tour.say(f"An MCP client connects to {url}, is asked for a token, and sends its person to get one:")
            case 403:
                await response.aread()
                tour.challenges.append(response.headers["WWW-Authenticate"])
                said = response.json()["error"]["message"]
                tour.say(f"  403: {said}. The client asks its person for that one more:")
            case _:
                pass

    metadata = OAuthClientMetadata(
        client_name="The client of the demo",
        redirect_uris=[AnyUrl(_HOME)],
        token_endpoint_auth_method="none",  # noqa: S106  # the name of a method
    )
    auth = OAuthClientProvider(url, metadata, _Kept(), person.open, person.answer)
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, event_hooks={"response": [watch]}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


class _Kept:
    """What the client keeps of its sign-in, for as long as the demo runs."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


async def _list(client: Client, tour: Tour, finds: str) -> None:
    (tool,) = (await client.list_tools()).tools
    scopes = known_scopes((tool.meta or {})[GRAMMAR_KEY]["scopes"])
    words = [command.keyword for command in COMMANDS if command.scope in scopes]
    tour.say(f"{finds} one tool, {tool.name}, with a grammar for {', '.join(words)}.")


async def _submit(client: Client, tour: Tour, program: str) -> None:
    tour.say(f"  {program}")
    result = await client.call_tool(TOOL_NAME, {"program": program})
    tour.results.append(result)
    for block in result.content:
        if isinstance(block, TextContent):
            for line in block.text.splitlines():
                tour.say(f"  {line}")


async def _ask(port: int) -> str:
    """Return what the database itself answers to a ``PING``."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"PING\n")
    answer = await asyncio.wait_for(reader.readline(), timeout=5)
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()

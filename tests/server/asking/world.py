"""An installation in which a restart of the database needs a person, with a real store, behind the door with tokens."""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import mcp_types as types
from mcp import Client

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Ticket, TicketState
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import State
from guideway.interpreter.risk import HARMLESS, Impact, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.store import open_store
from guideway.interpreter.weighing import Rules
from guideway.interpreter.windows import Calendar, Freeze
from guideway.server.load import Load
from guideway.server.oauth.caller import caller
from guideway.server.request_state import Keys
from guideway.server.schema import output_schema
from guideway.server.tool import TOOL_NAME, build_server
from tests.server.oauth.door import Door, bearer
from tests.server.world import ROOMY, Era, World

PROGRAM = 'PING "api.internal" RESTART "database"'
REVISION = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}

Answers = Callable[[Any, Any], Awaitable[types.ElicitResult]]


class Approving(World):
    """`database` needs a person before each restart, `cache` never does, and `ledger` is frozen.

    Tickets are in a store in a folder.
    """

    def __init__(self, folder: Path, **rules: Any) -> None:
        super().__init__()
        self.folder = folder
        self.database = MemoryDriver(State.RUNNING)
        self.cache = MemoryDriver(State.STOPPED)
        records, leases = open_store(folder=folder)
        high = Risk(impact=Impact.HIGH, reversibility=Reversibility.HARD)
        now = datetime.now(UTC)
        freeze = Freeze("payday", now - timedelta(hours=1), now + timedelta(hours=1), "it is payday")
        inventory = Inventory(
            hosts=[Host("api.internal", MemoryProbe())],
            services=[
                Service("database", self.database, settle=0.0, risk=high),
                Service("cache", self.cache, settle=0.0, risk=HARMLESS),
                Service("ledger", MemoryDriver(), settle=0.0, risk=HARMLESS, calendar=Calendar((), (freeze,))),
            ],
        )
        rules.setdefault("can_ask", lambda _: True)
        self.records = records
        self.pipeline = Pipeline(
            inventory,
            tenants={"red": inventory},
            gate=ImpactGate(Rules(**rules), records=records, leases=leases),
            repeats=records.repeats,
        )

    @property
    def restarts(self) -> int:
        """Return how often the database was restarted."""
        return self.database.calls.count("restart")

    async def tickets(self, *states: TicketState, tenant: str | None = None) -> list[Ticket]:
        """Return the tickets, in some states or in all, the newest first."""
        records, _ = open_store(folder=self.folder)  # one of its own: what a process left is looked at, too
        try:
            return await records.tickets(tenant, time.time(), states=states)
        finally:
            await records.close()


class Desk:
    """The world behind the door: `mona` asks, `ada` approves, each with a token of that name."""

    def __init__(
        self, world: Approving, *, forms: Collection[str] = (), keys: Keys | None = None, page: bool = True
    ) -> None:
        self.world = world
        self.door = Door(world)
        world.server = build_server(world.pipeline, caller, forms=forms, keys=keys, load=Load(ROOMY))
        self.http: httpx2.AsyncClient
        self._page = page
        tokens = self.door.tokens
        tokens.add("mona", {Scope.READ, Scope.WRITE}, subject="mona")
        tokens.add("mike", {Scope.READ, Scope.WRITE}, subject="mike")
        tokens.add("red", {Scope.READ, Scope.WRITE}, subject="mona", tenant="red")
        tokens.add("ada", {Scope.APPROVE}, subject="ada")

    @asynccontextmanager
    async def open(self, **settings: Any) -> AsyncIterator["Desk"]:
        """Serve it."""
        try:
            async with self.door.serving(**settings) as self.http:
                if self._page:
                    self.world.server.show_tickets_at(self.door.url.replace("/mcp", "/approvals"))
                yield self
        finally:
            await self.world.pipeline.close()

    @asynccontextmanager
    async def client(
        self, era: Era, answers: Answers | None = None, *, shown: str = "mona", **options: Any
    ) -> AsyncIterator[Client]:
        """Connect the official client; ``answers`` is what its person does when asked, None where it cannot ask."""
        async with self.door.connected(shown, era, elicitation_callback=answers, **options) as client:
            yield client

    async def decide(self, ticket_id: str, word: str = "approve", reason: str = "go on") -> None:
        """Decide on a ticket as a person does over the API."""
        path = f"/api/approvals/{ticket_id}/{word}"
        answer = await self.http.post(path, json={"reason": reason}, headers=bearer("ada"))
        assert answer.status_code == 200, answer.text


async def call(
    client: Client, program: str = PROGRAM, token: str | None = None, **options: Any
) -> types.CallToolResult:
    """Call the tool, and hold the result to what the tool says of its results."""
    arguments = {"program": program} | ({"_confirmation_token": token} if token else {})
    result = await client.call_tool(TOOL_NAME, arguments, **options)
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(result.structured_content, output_schema(), format_checker=formats)
    return result


def text(result: types.CallToolResult) -> str:
    """Return what a person reads."""
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def ending(result: types.CallToolResult) -> str:
    """Return how a call ended: its status, or the code of its refusal."""
    report = result.structured_content
    return str(report["refusal"]["code"] if report["refusal"] else report["status"])


def ticket_in(url: str) -> str:
    """Return the ticket that a page's address is of."""
    found = re.fullmatch(r"http://127\.0\.0\.1:\d+/approvals/([A-Za-z0-9_-]{24})", url)
    assert found, url
    return found[1]

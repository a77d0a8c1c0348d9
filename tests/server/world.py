"""A small installation in memory, served through the real door: HTTP in this process, stdio by ``guideway serve``."""

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.repeats import Repeats
from guideway.interpreter.results import State
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.app import serve_http
from guideway.server.load_bounds import LoadBounds
from guideway.server.tool import build_server

BOTH = frozenset({Scope.READ, Scope.WRITE})
SAMPLE = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }'
)

CONFIGURATION = """
caller = "tester"

[callers.tester]
scopes = {scopes}

[hosts."api.internal"]
probe = "memory"

[hosts."gone.internal"]
probe = "memory"
answers = false

[services.database]
driver = "memory"
impact = "low"
reversibility = "easy"
state = "stopped"
settle_seconds = 0.05

[services.ledger]
driver = "memory"
impact = "low"
reversibility = "easy"
restartable = false

[services.stuck]
driver = "memory"
impact = "low"
reversibility = "easy"
behaviour = "never_stops"
restart_seconds = 30.0
"""

#: Bounds that no test reaches by chance: one caller who tries a thing fifty times at once, or a thousand bad tokens.
ROOMY = LoadBounds(
    calls_at_once_of_caller=1_000,
    calls_per_minute_of_caller=1_000_000,
    refused_per_minute_of_address=1_000_000,
    refused_per_minute=1_000_000,
)

Transport = Literal["stdio", "http"]
Era = Literal["legacy", "auto", "2026-07-28"]


class World:
    """Two hosts and three services; `stuck` never stops, `ledger` may not be restarted.

    Without ``repeats`` a restart with an idempotency key is refused, as where there is no store.
    """

    def __init__(self, scopes: Iterable[Scope] = BOTH, repeats: Repeats | None = None) -> None:
        self.principal = Principal("tester", frozenset(scopes))
        self.database = MemoryDriver(State.STOPPED)
        self.stuck = MemoryDriver(behaviour=Behaviour.NEVER_STOPS)
        self.pipeline = Pipeline(
            Inventory(
                hosts=[Host("api.internal", MemoryProbe()), Host("gone.internal", MemoryProbe(answers=False))],
                services=[
                    Service("database", self.database, settle=0.05, risk=HARMLESS),
                    Service("ledger", MemoryDriver(), restartable=False, risk=HARMLESS),
                    Service("stuck", self.stuck, risk=HARMLESS),
                ],
            ),
            deadlines=Deadlines(restart=30),
            repeats=repeats,
        )
        self.server = build_server(self.pipeline, lambda: self.principal)
        self.said = ""  # what a process over stdio wrote to standard error, once it has ended

    @asynccontextmanager
    async def serving(self, **settings: Any) -> AsyncIterator[str]:
        """Serve HTTP on a free port; give the URL."""
        async with anyio.create_task_group() as tasks:

            async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
                await serve_http(self.server, signals=False, grace=0, task_status=task_status, **settings)

            url = await tasks.start(serve)
            try:
                yield url
            finally:
                tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def connected(self, transport: Transport, era: Era, **options: Any) -> AsyncIterator[Client]:
        """Connect the official client: over HTTP to this world, over stdio to one like it in a process of its own."""
        match transport:
            case "http":
                async with self.serving() as url, Client(url, mode=era, **options) as client:
                    yield client
            case "stdio":
                with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
                    try:
                        server = stdio_client(self.command(Path(folder)), errlog=log)
                        async with Client(server, mode=era, **options) as client:
                            yield client
                    finally:
                        log.seek(0)
                        self.said = log.read()

    def command(self, folder: Path) -> StdioServerParameters:
        """Return the command that serves a world like this over stdio; its configuration is written to a folder."""
        configuration = folder / "guideway.toml"
        configuration.write_text(CONFIGURATION.format(scopes=json.dumps(sorted(self.principal.scopes))))
        return StdioServerParameters(
            command=str(Path(sys.executable).with_name("guideway")),
            args=["serve", "--stdio", "--config", str(configuration)],
        )

"""What the whole guard costs a call: token, syntax, scopes and names, impact, and a durable record, part by part.

The sample script runs in process on services in memory, in turns with the same commands without any guard: their
drivers are asked one after the other, as the script would. The store is SQLite in a folder, with an fsync a commit, and
the trail is sealed. In the first case the service runs, so that the script only reads; in the second it is down, so
that the script restarts it. A caller shows one token all the time, as clients do for the minutes that it lives; what
one costs that was not seen before stands beside that.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import anyio
from joserfc.jwk import OKPKey

from bench import Figure
from bench.authorization import Issuers, sections, tenants
from bench.call import SCRIPT
from guideway.dsl.analysis import analyze
from guideway.dsl.parser import parse
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.facts import of_caller
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import State, Status
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.interpreter.store import open_store
from guideway.interpreter.weighing import NOTHING_ASKED, Rules
from guideway.server.oauth.verifier import TrustedIssuers

CALLS: Final = 400
WARM: Final = 50
MOST: Final = 1.0  # milliseconds more than without any guard
RESOURCE: Final = "https://bench.example/mcp"


def main() -> list[Figure]:
    """Measure both cases, each whole and in its parts."""
    with Issuers(1) as issuers:
        return anyio.run(figures, issuers)


async def figures(issuers: Issuers) -> list[Figure]:
    """Return what calls take."""
    found: list[Figure] = []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        trusted = await stack.enter_async_context(
            TrustedIssuers(sections(issuers, 1), resource=RESOURCE, tenants=tenants(1))
        )
        for case in (Case("it only reads", State.RUNNING, folder), Case("it restarts", State.STOPPED, folder)):
            tokens = iter([issuers.token(RESOURCE) for _ in range(CALLS + WARM)])
            parts = await case.parts(trusted, issuers.token(RESOURCE), tokens)
            bare, guarded, first = parts.pop("without"), parts.pop("with"), parts.pop("first")
            more = guarded - bare
            found += [
                Figure(f"{case.name}: without any guard", _ms(bare)),
                Figure(f"{case.name}: with the whole guard", _ms(guarded)),
                Figure(f"{case.name}: more", _ms(more), f"at most {MOST:g} ms", more * 1e3 <= MOST),
                *(Figure(f"{case.name}: of that, {part}", _ms(seconds)) for part, seconds in parts.items()),
                Figure(f"{case.name}: of that, all else", _ms(more - sum(parts.values()))),
                Figure(f"{case.name}: beside it, a token that was not seen before", _ms(first)),
            ]
            await case.close()
    return found


class Case:
    """The sample script on a service that is in a state, behind the guard and without it."""

    def __init__(self, name: str, state: State, folder: str) -> None:
        self.name = name
        self._state = state
        self._driver = MemoryDriver()
        self._service = Service("database", self._driver, settle=0.0, risk=HARMLESS)
        self._host = Host("api.internal", MemoryProbe())
        inventory = Inventory([self._host], [self._service])
        key = OKPKey.generate_key("Ed25519")
        keeping = Keeping(sealer=Signer(key), belief=Believed([key]))
        self._store, leases = open_store(folder=Path(folder, state.value), keeping=keeping)
        gate = ImpactGate(Rules(can_ask=lambda _: True), records=self._store, leases=leases, outbox=self._store.outbox)
        self._pipeline = Pipeline(inventory, tenants={"t0": inventory}, gate=gate, trail=self._store.trail)

    async def parts(self, trusted: TrustedIssuers, token: str, unseen: Iterator[str]) -> dict[str, float]:
        """Return medians, in seconds, of calls in turns with one token; ``unseen`` are others, of which each is new."""
        spent: dict[str, list[float]] = defaultdict(list)
        for number in range(CALLS + WARM):
            since = perf_counter()
            await trusted.verify(next(unseen))
            self._note(spent, "first", since, number)
            self._driver.state = self._state
            since = perf_counter()
            await self._unguarded()
            self._note(spent, "without", since, number)
            self._driver.state = self._state
            since = perf_counter()
            caller = (await trusted.verify(token)).principal
            self._note(spent, "the token", since, number)
            report = await self._pipeline.run(SCRIPT, caller)
            self._note(spent, "with", since, number)
            assert report.status is Status.COMPLETED, report
            await self._apart(caller, spent, number)
        return {part: median(times) for part, times in spent.items()}

    async def _unguarded(self) -> None:
        """Do what the script does, and ask nobody."""
        if (await self._service.settled(30.0)).state is State.RUNNING:
            await self._host.ping(5.0)
        else:
            await self._service.restart(60.0)

    async def _apart(self, caller: Principal, spent: dict[str, list[float]], number: int) -> None:
        """Do parts of the guard by themselves."""
        since = perf_counter()
        analyze(parse(SCRIPT))
        self._note(spent, "the syntax", since, number)
        admitted_since = perf_counter()
        admitted = self._pipeline.admit(SCRIPT, caller)
        spent_on_syntax = spent["the syntax"][-1] if number >= WARM else 0.0
        self._note(spent, "scopes, names and worst case", admitted_since + spent_on_syntax, number)
        since = perf_counter()
        await self._pipeline.gate.clear(admitted.candidate(caller, NOTHING_ASKED, "0"))
        self._note(spent, "impact", since, number)
        since = perf_counter()
        await self._record(caller)
        self._note(spent, "the record on disk, commits as the case has them", since, number)

    async def _record(self, caller: Principal) -> None:
        """Put what such a call puts, and wait for it as often."""
        facts = {"run": "0", "caller": of_caller(caller), "program": SCRIPT}
        restarts = self._state is not State.RUNNING
        for _ in range(2 if restarts else 1):
            now = time.time()
            self._store.trail.put([Entry(kind, "t0", now, facts) for kind in (Kind.RUN_BEGUN, Kind.RUN_ENDED)])
            await self._store.trail.written()

    @staticmethod
    def _note(spent: dict[str, list[float]], part: str, since: float, number: int) -> None:
        if number >= WARM:
            spent[part].append(perf_counter() - since)

    async def close(self) -> None:
        """Close the store."""
        await self._pipeline.close()


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"

"""A pipeline behind the gate for impact, with a real store in a folder, and a clock that a test moves."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Ticket, Who
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate, NeedsApproval
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.notices import Event
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import Report
from guideway.interpreter.risk import HARMLESS, Impact, Quota, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.weighing import Asked, Rules
from guideway.interpreter.windows import ALWAYS, Calendar

MONA = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), issuer="https://login.example", client="an-agent")
ADA = Who("https://login.example", "ada")

HARD = Risk(Impact.HIGH, Reversibility.HARD)
REVIEW = Risk(Impact.LOW, Reversibility.HARD)
EASY = Risk(Impact.HIGH, Reversibility.EASY)  # five an hour, a minute between two
HOURLY = Risk(Impact.HIGH, Reversibility.EASY, quota=Quota(per_hour=5))


class Clock:
    """The wall clock, moved by a test. The monotonic one is as it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + self.offset)

    def pass_(self, seconds: float) -> None:
        """Let time pass, or set the clock back."""
        self.offset += seconds


class Gated:
    """Services of each kind behind one gate: ``hard`` asks a person, ``review`` tells people, ``easy`` has a quota."""

    def __init__(self, store: Store, leases: Any, rules: dict[str, Any], calendar: Calendar, group: str | None) -> None:
        self.store = store
        self.drivers = {name: MemoryDriver() for name in ("hard", "review", "easy", "hourly", "harmless", "other")}
        risks = {"hard": HARD, "review": REVIEW, "easy": EASY, "hourly": HOURLY}
        self.inventory = Inventory(
            hosts=[Host("api.internal", MemoryProbe())],
            services=[
                Service(name, driver, settle=0.0, risk=risks.get(name, HARMLESS), calendar=calendar, group=group)
                for name, driver in self.drivers.items()
            ],
        )
        self.gate = ImpactGate(
            Rules(**({"can_ask": lambda _: True} | rules)), records=store, leases=leases, outbox=store.outbox
        )
        self.pipeline = Pipeline(
            self.inventory,
            tenants={"red": self.inventory},
            gate=self.gate,
            trail=store.trail,
            repeats=store.repeats,
        )

    def without_trail(self) -> None:
        """Keep no records from now on: for what is the gate's own."""
        self.pipeline.trail = None

    async def run(self, program: str, caller: Principal = MONA, **asked: Any) -> Report:
        return await self.pipeline.run(program, caller, asked=Asked(**asked))

    async def ask(self, program: str, caller: Principal = MONA, **asked: Any) -> Ticket:
        report = await self.run(program, caller, **asked)
        assert isinstance(report.refusal, NeedsApproval), report
        return report.refusal.ticket

    async def decide(self, ticket: Ticket, *, approve: bool = True, reason: str = "") -> None:
        await self.store.decide(ticket.id, approve=approve, by=ADA, reason=reason, now=time.time())

    async def approved(self, program: str, caller: Principal = MONA, **asked: Any) -> str:
        ticket = await self.ask(program, caller, **asked)
        await self.decide(ticket)
        return ticket.id

    @property
    def restarts(self) -> int:
        """How many restarts there were, of all services."""
        return sum(driver.calls.count("restart") for driver in self.drivers.values())


@asynccontextmanager
async def gated(
    folder: Path, *, calendar: Calendar = ALWAYS, group: str | None = None, **rules: Any
) -> AsyncIterator[Gated]:
    """Give a pipeline behind the gate, with a store in a folder."""
    store, leases = open_store(folder=folder, webhooks={"ops": set(Event)})
    world = Gated(store, leases, rules, calendar, group)
    try:
        yield world
    finally:
        await world.pipeline.close()


def code(report: Report) -> str:
    """Return the code of a refusal."""
    assert report.refusal is not None, report
    return report.refusal.diagnostics[0].code.value

"""An installation in memory in which a restart of the database needs a person, and tickets for it."""

import time
from dataclasses import replace
from typing import Any

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Question, Ticket, TicketState, Who
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate, NeedsApproval
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.records import Mutation
from guideway.interpreter.results import State
from guideway.interpreter.risk import HARMLESS, Impact, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.weighing import Asked, Rules
from tests.server.approvals.records import RecordsInMemory

ISSUER = "https://login.example"
PROGRAM = (
    'IF_RUNNING "cache" THEN { PING "api.internal" } ELSE { TRY { RESTART "database" } CATCH { RESTART "cache" } }'
)
ASKER = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), issuer=ISSUER, client="an-agent")
APPROVER = Principal("ada", frozenset({Scope.APPROVE}), issuer=ISSUER, client="the-page")


class World:
    """Two tenants, `red` and none, with the same services: `database` is critical, `cache` harmless."""

    def __init__(self, **rules: Any) -> None:
        self.records = RecordsInMemory()
        self.database = MemoryDriver(State.RUNNING)
        self.pipeline = Pipeline(
            self._inventory(),
            tenants={"red": self._inventory()},
            gate=ImpactGate(Rules(can_ask=lambda _: True, **rules), records=self.records),
        )

    def _inventory(self) -> Inventory:
        high = Risk(impact=Impact.HIGH, reversibility=Reversibility.HARD)
        return Inventory(
            hosts=[Host("api.internal", MemoryProbe())],
            services=[
                Service("database", self.database, settle=0.0, risk=high),
                Service("cache", MemoryDriver(State.STOPPED), settle=0.0, risk=HARMLESS),
            ],
        )

    async def ask(self, caller: Principal = ASKER, program: str = PROGRAM, **asked: Any) -> Ticket:
        """Return the ticket that a caller gets for a program."""
        report = await self.pipeline.run(program, caller, asked=Asked(**asked))
        assert isinstance(report.refusal, NeedsApproval), report.refusal
        return report.refusal.ticket

    def change(self, ticket: Ticket, **changed: Any) -> Ticket:
        """Keep a ticket otherwise than it was made, and return it."""
        self.records.kept[ticket.id] = replace(ticket, **changed)
        return self.records.kept[ticket.id]

    def change_question(self, ticket: Ticket, **changed: Any) -> Ticket:
        """Keep a ticket with another question, and return it."""
        question: Question = replace(ticket.question, **changed)
        return self.change(ticket, question=question)

    def expire(self, ticket: Ticket) -> Ticket:
        """Let a ticket's time be over."""
        return self.change(ticket, expires_at=time.time() - 1)

    def ran_before(
        self, message: str = "it came up healthy", *, outcome: str = "ok", tenant: str | None = None
    ) -> None:
        """Note an earlier restart of the database."""
        began = time.time() - 3_600
        who = Who(ISSUER, "olga", "an-agent")
        mutation = Mutation("run-before", "database", who, began, began + 2.5, outcome, message)
        self.records.mutations.append((tenant, mutation))


def states(world: World) -> list[TicketState]:
    """Return the states of all tickets, in the order in which they were made."""
    return [ticket.state for ticket in world.records.kept.values()]

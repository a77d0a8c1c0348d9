"""Records in memory, for tests of what stands above a store: the store has its own tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Binding, Question, Ticket, TicketState, Undecidable, Who, new_id, why_not
from guideway.interpreter.quotas import Allowance, Overrun
from guideway.interpreter.records import Mutation, StoreUnavailable

OPEN = (TicketState.PENDING, TicketState.APPROVED)


class RecordsInMemory:
    """Tickets and mutations of one process. With ``down`` nothing can be read or written."""

    def __init__(self) -> None:
        self.kept: dict[str, Ticket] = {}
        self.mutations: list[tuple[str | None, Mutation]] = []
        self.down = False
        self.sessions = SessionsInMemory()

    def _aged(self, now: float) -> dict[str, Ticket]:
        if self.down:
            raise StoreUnavailable("the disk is full")
        for ticket in list(self.kept.values()):
            if ticket.state in OPEN and ticket.expires_at <= now:
                self.kept[ticket.id] = replace(ticket, state=TicketState.EXPIRED)
        return self.kept

    async def ask(self, question: Question, now: float, *, lifetime: float, most_open: int) -> Ticket:  # noqa: ARG002
        for ticket in self._aged(now).values():
            if ticket.question.binding == question.binding and ticket.state in OPEN:
                return ticket
        ticket = Ticket(new_id(), question, now, now + lifetime, TicketState.PENDING)
        self.kept[ticket.id] = ticket
        return ticket

    async def ticket(self, ticket_id: str, now: float) -> Ticket | None:
        return self._aged(now).get(ticket_id)

    async def tickets(
        self, tenant: str | None, now: float, *, states: Collection[TicketState] = (), most: int = 50
    ) -> list[Ticket]:
        found = [ticket for ticket in self._aged(now).values() if ticket.question.binding.tenant == tenant]
        wanted = [ticket for ticket in found if not states or ticket.state in states]
        return sorted(wanted, key=lambda ticket: -ticket.created_at)[:most]

    async def decide(self, ticket_id: str, *, approve: bool, by: Who, reason: str, now: float) -> Ticket:
        ticket = self._aged(now).get(ticket_id)
        if ticket is None:
            raise Undecidable(Undecidable.Why.UNKNOWN, "there is no such ticket")
        if ticket.state is TicketState.EXPIRED:
            raise Undecidable(Undecidable.Why.EXPIRED, "this ticket has expired")
        if ticket.state is not TicketState.PENDING:
            raise Undecidable(Undecidable.Why.DECIDED, f"this ticket is {ticket.state} already")
        state = TicketState.APPROVED if approve else TicketState.DENIED
        self.kept[ticket_id] = replace(ticket, state=state, decided_at=now, decided_by=by, reason=reason)
        return self.kept[ticket_id]

    async def use(
        self, ticket_id: str, binding: Binding, run_id: str, allowances: Sequence[Allowance], now: float
    ) -> Ticket | tuple[Code, str]:
        del allowances
        ticket = self._aged(now).get(ticket_id)
        problem = why_not(ticket, binding)
        if problem is not None or ticket is None:
            return problem or (Code.APPROVAL_UNKNOWN, "there is no such ticket")
        self.kept[ticket_id] = replace(ticket, state=TicketState.USED, used_at=now, run_id=run_id)
        return self.kept[ticket_id]

    async def reserve(self, run_id: str, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        del run_id, allowances, now
        return []

    async def overruns(self, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        raise NotImplementedError

    async def uses(self, keys: Collection[str], now: float) -> Mapping[str, Sequence[float]]:
        raise NotImplementedError

    async def settle(self, run_id: str, used: Mapping[str, int], outcome: str, now: float) -> None:
        del used, now
        for ticket in list(self.kept.values()):
            if ticket.run_id == run_id:
                self.kept[ticket.id] = replace(ticket, outcome=outcome)

    def note(self, mutations: Sequence[tuple[str | None, Mutation]]) -> None:
        self.mutations[:0] = mutations

    async def history(self, tenant: str | None, services: Collection[str], *, most: int = 5) -> list[Mutation]:
        found: list[Mutation] = []
        for name in services:
            found += [each for whose, each in self.mutations if whose == tenant and each.service == name][:most]
        return sorted(found, key=lambda each: -each.started_at)

    async def sweep(self, now: float) -> None:
        """Nothing is ever lost."""

    async def check(self, now: float) -> None:
        """It can always be used."""

    async def close(self) -> None:
        """Nothing is held open."""


class SessionsInMemory:
    """Sessions of one process, by the digests of their cookies."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[dict[str, Any], float]] = {}

    async def put(self, id_hash: str, content: Mapping[str, Any], expires_at: float) -> None:
        self.kept[id_hash] = dict(content), expires_at

    async def get(self, id_hash: str, now: float) -> dict[str, Any] | None:
        content, expires_at = self.kept.get(id_hash, (None, 0.0))
        return content if now < expires_at else None

    async def take(self, id_hash: str, now: float) -> dict[str, Any] | None:
        content = await self.get(id_hash, now)
        self.kept.pop(id_hash, None)
        return content

    async def delete(self, id_hash: str) -> None:
        self.kept.pop(id_hash, None)

    async def prune(self, now: float) -> None:
        self.kept = {key: (content, ends) for key, (content, ends) in self.kept.items() if now < ends}

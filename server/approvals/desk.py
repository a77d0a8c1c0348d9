"""What somebody who approves can see and do, whichever door they come through. Each decision is logged."""

import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import (
    Ticket,
    TicketState,
    Undecidable,
    Who,
    may_see,
    require_may_decide,
)
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import Mutation, Records, StoreUnavailable
from guideway.server.approvals.view import facts, mutated, words
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.run_log import about_ticket, who
from guideway.server.run_log import reason as said

MOST_TICKETS: Final = 200
"""The most tickets that one answer has."""

_LAST: Final = 5
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what is not even that was never one
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A ticket as its reader sees it, with what earlier runs did to its targets, the newest first.

    ``own`` is whether the reader asked for it themselves, ``outdated`` whether it was made under another policy than is
    in force here, and ``may_approve`` whether they may approve it, if nothing happens in between.
    """

    ticket: Ticket
    history: tuple[Mutation, ...]
    facts: dict[str, Any]
    own: bool
    outdated: bool
    may_approve: bool


class Desk:
    """Tickets to decide on. ``now`` is in seconds since the epoch; ``refusals`` is where a door notes its own too."""

    def __init__(
        self, pipeline: Pipeline, now: Callable[[], float] = time.time, *, refusals: RefusalLog | None = None
    ) -> None:
        self._pipeline = pipeline
        self._now = now
        self.refusals = refusals or RefusalLog()

    @property
    def records(self) -> Records | None:
        """The store, None where there is none."""
        return self._pipeline.gate.records

    async def newest(self, reader: Principal, *, states: Collection[TicketState] = (), most: int = 50) -> list[Ticket]:
        """Return the tickets of the reader's tenant, in some states or in all, the newest first; no more of them.

        Raises ``Undecidable`` without the scope, and ``StoreUnavailable``.
        """
        now = self._now()
        self._require_scope(reader, now)
        found = await self._records().tickets(reader.tenant, now, states=states, most=min(most, MOST_TICKETS))
        return [ticket for ticket in found if may_see(reader, ticket, now)]

    async def seen(self, reader: Principal, tickets: Sequence[Ticket]) -> list[Seen]:
        """Return all that there is to see of tickets that ``newest`` gave. Raises ``StoreUnavailable``."""
        history = await self._history(reader, frozenset[str]().union(*map(mutated, tickets)))
        now = self._now()
        return [self._seen(reader, ticket, history, now) for ticket in tickets]

    async def tickets(self, reader: Principal, *, states: Collection[TicketState] = (), most: int = 50) -> list[Seen]:
        """Return ``newest``, and all that there is to see of them."""
        return await self.seen(reader, await self.newest(reader, states=states, most=most))

    async def found(self, reader: Principal, ticket_id: str) -> Ticket:
        """Return a ticket of the reader's tenant; no more of it. Raises ``Undecidable`` and ``StoreUnavailable``.

        One that is not there and one of another tenant are the same answer.
        """
        now = self._now()
        self._require_scope(reader, now)
        ticket = await self._records().ticket(ticket_id, now) if _ID.fullmatch(ticket_id) else None
        if ticket is None or not may_see(reader, ticket, now):
            raise Undecidable(Undecidable.Why.UNKNOWN, "there is no such ticket")
        return ticket

    async def ticket(self, reader: Principal, ticket_id: str) -> Seen:
        """Return a ticket of the reader's tenant, and all that there is to see of it, as ``found`` does."""
        ticket = await self.found(reader, ticket_id)
        return self._seen(reader, ticket, await self._history(reader, mutated(ticket)), self._now())

    async def decide(self, approver: Principal, ticket_id: str, *, approve: bool, reason: str) -> Seen:
        """Approve or refuse a ticket, and return what became of it. Raises ``Undecidable`` and ``StoreUnavailable``."""
        now, records = self._now(), self._records()
        reason = words(reason) or ""
        verb = "approve" if approve else "refuse"
        try:
            seen = await self.ticket(approver, ticket_id)
            own_requests, policy = self._pipeline.gate.rules.own_requests, self._policy(seen.ticket)
            require_may_decide(
                approver, seen.ticket, reason, now, approves=approve, own_requests=own_requests, policy=policy
            )
            ticket = await records.decide(ticket_id, approve=approve, by=Who.of(approver), reason=reason, now=now)
        except Undecidable as error:
            self.note(approver, ticket_id, error.code, str(error), approve=approve)
            known = words(ticket_id, 40) if error.code is not Undecidable.Why.UNKNOWN else "that is not known"
            _log.info("could not %s ticket %s: %s; %s", verb, known, error.code, who(approver))
            raise
        except StoreUnavailable as error:
            _log.error("could not %s a ticket: the store: %s; %s", verb, error, who(approver))
            self.note(approver, ticket_id, "store_unavailable", str(error), approve=approve)
            raise
        _log.info(
            "ticket %s: %s; %s; %s %s",
            *(ticket.id, ticket.state.value, about_ticket(ticket), said(ticket.reason), who(approver)),
        )
        return self._seen(approver, ticket, seen.history, now)

    def note(self, approver: Principal, ticket_id: str, code: str, why: str, *, approve: bool) -> None:
        """Record a decision that was not taken: who wanted which, on what, and why it was not."""
        facts = {"ticket": words(ticket_id, 64), "wanted": "approve" if approve else "refuse"}
        self.refusals.note_caller(approver, code, why, facts=facts)

    def _seen(self, reader: Principal, ticket: Ticket, history: Collection[Mutation], now: float) -> Seen:
        targets = mutated(ticket)
        mine = tuple(each for each in history if each.service in targets)
        rules = self._pipeline.gate.rules
        own = Who.of(reader).is_person(ticket.question.binding.who)
        outdated = ticket.question.binding.policy != self._policy(ticket)
        return Seen(
            ticket=ticket,
            history=mine,
            facts=facts(ticket, self._pipeline.inventory_of(reader), mine, now, rules.wait),
            own=own,
            outdated=outdated,
            may_approve=ticket.state is TicketState.PENDING and (rules.own_requests or not own) and not outdated,
        )

    def _policy(self, ticket: Ticket) -> str:
        return self._pipeline.gate.policy(ticket.question.binding.tenant)

    async def _history(self, reader: Principal, services: Collection[str]) -> tuple[Mutation, ...]:
        return tuple(await self._records().history(reader.tenant, services, most=_LAST)) if services else ()

    def _records(self) -> Records:
        if self._pipeline.gate.records is None:
            raise StoreUnavailable("none is configured")
        return self._pipeline.gate.records

    @staticmethod
    def _require_scope(reader: Principal, now: float) -> None:
        if not reader.holds(Scope.APPROVE, now):
            raise Undecidable(Undecidable.Why.NO_SCOPE, f"approving requires scope '{Scope.APPROVE}'")

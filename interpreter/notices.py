"""Notices: what people are told of, by webhooks. This says what a notice is and what an outbox does; it keeps none.

What happens to a ticket is written down with the ticket, in one transaction, so that no notice is lost and none is of
something that did not happen. Whoever delivers takes a notice for a time, so that of several replicas one does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from guideway.interpreter.approvals import Ticket, Who, needs
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import Tier

CLAIM_SECONDS: Final = 60.0
"""How long a notice that was claimed is nobody else's: longer than one attempt to deliver it takes."""


class Event(StrEnum):
    """What people can be told of."""

    PENDING = "pending"  # somebody has to decide on a ticket
    DECIDED = "decided"  # somebody did
    EXPIRED = "expired"  # a ticket was not decided on, or not used, in time
    REVIEW = "review"  # a program with commands of tier 2 runs
    BREAK_GLASS = "break_glass"  # a program runs in spite of a freeze


@dataclass(frozen=True, slots=True)
class Notice:
    """An event on its way to one webhook. ``attempts`` counts those before this one, this claim's not included."""

    id: str
    webhook: str
    event: dict[str, Any]
    attempts: int
    created_at: float


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A notice that did not arrive so far. ``due_at`` is when it is tried again, None where it was given up."""

    notice: Notice
    due_at: float | None
    error: str


class Outbox(Protocol):
    """Notices that wait to be delivered. What is awaited may raise ``StoreUnavailable``."""

    def enqueue(self, event: Mapping[str, Any]) -> None:
        """Keep an event for each webhook that wants its kind (``event["event"]``): soon, and nobody waits for it."""
        ...

    async def claim(self, now: float, most: int, webhook: str) -> list[Notice]:
        """Return a webhook's notices that are due, and nobody else's for ``CLAIM_SECONDS``.

        They are the oldest ones, of which questions to people are taken before all else.
        """
        ...

    async def done(self, notice_id: str) -> None:
        """Forget a notice that was delivered."""
        ...

    async def again(self, notice_id: str, at: float, error: str) -> None:
        """Give a notice back, to be tried again at a time; ``error`` says what went wrong."""
        ...

    async def give_up(self, notice_id: str, error: str) -> None:
        """Keep a notice that cannot be delivered as a record, and never claim it again."""
        ...

    async def undelivered(self, most: int) -> list[Undelivered]:
        """Return what could not be delivered, and what waits after a failure, the newest first."""
        ...


def of_ticket(kind: Event, ticket: Ticket, now: float) -> dict[str, Any]:
    """Return what is told of a ticket. Times are in seconds since the epoch.

    Words of the caller, the client and the approver are in it as they are kept: bounded, on one line, untrusted.
    """
    question = ticket.question
    return {
        "event": kind.value,
        "at": now,
        "ticket": ticket.id,
        "state": ticket.state.value,
        "tenant": question.binding.tenant,
        "digest": question.binding.digest,
        "tier": int(question.tier),
        "needs_person": needs(question.causes),
        "targets": _targets(question.worst_case),
        "causes": [cause.to_json() for cause in question.causes],
        "asked_by": _who(question.binding.who) | {"client_says": question.client_says},
        "break_glass": question.break_glass,
        "created_at": ticket.created_at,
        "expires_at": ticket.expires_at,
        "decided_at": ticket.decided_at,
        "decided_by": None if ticket.decided_by is None else _who(ticket.decided_by),
        "reason": ticket.reason,
    }


def of_run(
    kind: Event,
    now: float,
    *,
    run_id: str,
    digest: str,
    caller: Principal,
    tier: Tier,
    worst_case: Mapping[tuple[str, str], int],
    client_says: str | None,
    ticket: Ticket | None = None,
) -> dict[str, Any]:
    """Return what is told of a run that the gate has let through; ``now`` is in seconds since the epoch.

    ``ticket`` is the one that let it run, if one did: what was asked and who said yes, in their words, are told again.
    """
    return {
        "event": kind.value,
        "at": now,
        "run_id": run_id,
        "ticket": ticket and ticket.id,
        "tenant": caller.tenant,
        "digest": digest,
        "tier": int(tier),
        "targets": _targets(worst_case),
        "needs_person": needs(ticket.question.causes) if ticket else [],
        "asked_by": _who(Who.of(caller)) | {"client_says": client_says},
        "break_glass": ticket and ticket.question.break_glass,
        "decided_at": ticket and ticket.decided_at,
        "decided_by": _who(ticket.decided_by) if ticket and ticket.decided_by else None,
        "reason": ticket and ticket.reason,
    }


def _targets(worst_case: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [
        {"command": keyword, "target": name, "times": times} for (keyword, name), times in sorted(worst_case.items())
    ]


def _who(who: Who) -> dict[str, Any]:
    return {"issuer": who.issuer, "subject": who.subject, "client": who.client}

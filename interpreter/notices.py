"""Notices: what people are told of tickets and of runs, and what keeps each until it has reached whoever is told.

A notice is made where something happened and kept before anybody tries to deliver it, so that it survives whoever made
it. It is delivered at least once: receivers tell a second copy by its id. Delivering is not done here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from guideway.interpreter.approvals import Ticket, TicketState, Who
from guideway.interpreter.risk import Tier

#: Seconds after which a notice helps nobody any more, where it could not be delivered until then.
LIFETIME: Final = 86_400.0


class Occasion(StrEnum):
    """What people are told of. The first three are of a ticket, the others of a run."""

    PENDING = "pending"  # a person is asked
    DECIDED = "decided"  # a person has approved or refused
    EXPIRED = "expired"  # nobody decided in time, or what was approved was not used in time
    REVIEW = "review"  # a program of tier 2 runs
    BREAK_GLASS = "break_glass"  # a program runs in spite of a freeze


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened at ``at``, seconds since the epoch, and to which tenant's people it is told.

    ``id`` is the same whoever makes the notice, so that one which is made twice is kept once. ``facts`` are JSON; those
    that callers and clients wrote are untrusted.
    """

    id: str
    occasion: Occasion
    at: float
    tenant: str | None
    facts: Mapping[str, Any]


#: Says who is told of a notice: names of receivers, none where nobody is.
Addressees = Callable[[Notice], Collection[str]]


def nobody(_notice: Notice) -> Collection[str]:
    """Return that nobody is told."""
    return ()


class Delivery(StrEnum):
    """Where a notice is on its way to one receiver. The last two are ends."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    UNDELIVERABLE = "undeliverable"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A notice on its way to one receiver. ``attempts`` counts this one; ``error`` is why the last one failed."""

    notice: Notice
    receiver: str
    state: Delivery
    attempts: int
    due_at: float
    error: str | None = None


class Outbox(Protocol):
    """Keeps notices until they are delivered. Each call is one transaction; all may raise ``StoreUnavailable``.

    A store of tickets keeps the notice of a ticket in the transaction that makes or changes it (``of_ticket``). Times
    are in seconds since the epoch.
    """

    async def post(self, notices: Sequence[Notice], now: float) -> None:
        """Keep notices for all of their addressees, due at once. What is kept already stays as it is."""
        ...

    async def claim(self, receivers: Collection[str], now: float, *, seconds: float, most: int = 20) -> list[Parcel]:
        """Return notices that are due for some receivers, and give them to nobody else for ``seconds``.

        So one whose deliverer is lost is due again by then. Each claim is an attempt, and counted.
        """
        ...

    async def mark(self, parcel: Parcel, state: Delivery, now: float, *, due_at: float, error: str | None) -> None:
        """Keep what came of a claimed notice; waiting, it is due again at ``due_at``. An end never changes."""
        ...

    async def expire_tickets(self, now: float) -> None:
        """Let every ticket expire whose time is over, so that the notice of it is made although nobody looks."""
        ...

    async def undelivered(self, *, most: int = 50) -> list[Parcel]:
        """Return what could not be delivered, and what waits after a failure, the newest first."""
        ...


def of_ticket(ticket: Ticket, occasion: Occasion, at: float) -> Notice:
    """Return the notice of a ticket as it is now."""
    question = ticket.question
    binding = question.binding
    facts = {
        "ticket": ticket.id,
        "state": ticket.state.value,
        "expires_at": ticket.expires_at,
        "tier": int(Tier.APPROVAL_REQUIRED),
        "digest": binding.digest,
        "targets": _targets(question.worst_case),
        "causes": [cause.to_json() for cause in question.causes],
        "asked_by": who(binding.who, question.client_says),
        "break_glass": question.break_glass,
    }
    if ticket.state in (TicketState.APPROVED, TicketState.DENIED) and ticket.decided_by is not None:
        facts |= {"decided_by": who(ticket.decided_by), "reason": ticket.reason}
    return Notice(f"{occasion}_{ticket.id}", occasion, at, binding.tenant, facts)


def of_run(
    occasion: Occasion,
    at: float,
    *,
    run_id: str,
    caller: Who,
    tenant: str | None,
    digest: str,
    tier: Tier,
    worst_case: Mapping[tuple[str, str], int],
    client_says: str | None = None,
    ticket: str | None = None,
) -> Notice:
    """Return the notice of a run that the gate has just let through."""
    facts = {
        "run_id": run_id,
        "ticket": ticket,
        "tier": int(tier),
        "digest": digest,
        "targets": _targets(worst_case),
        "asked_by": who(caller, client_says),
    }
    return Notice(f"{occasion}_{run_id}", occasion, at, tenant, facts)


def who(person: Who, client_says: str | None = None) -> dict[str, Any]:
    """Return a person, and the program that they use, as facts of a notice."""
    return {
        "issuer": person.issuer,
        "subject": person.subject,
        "client": person.client,
        "client_says": client_says,
    }


def _targets(worst_case: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [
        {"command": keyword, "target": name, "times": times} for (keyword, name), times in sorted(worst_case.items())
    ]

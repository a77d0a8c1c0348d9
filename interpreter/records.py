"""What the gate for impact asks of a store, and how a store fails. No database is loaded here.

Every call is one transaction: it has happened whole and durably when it returns, or not at all. What depends on what
others do at the same time (one ticket, one use; no quota exceeded) is decided inside of it, on whichever replica.
Times are in seconds since the epoch, as the caller's clock has them; a store never lets a clock that was set back
revive what had expired.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Binding, Question, Ticket, TicketState, Who
from guideway.interpreter.quotas import Allowance, Overrun


class StoreUnavailable(Exception):  # noqa: N818  # it is an answer, not a fault
    """The store cannot be read or written now; the message says why, for operators, and holds no secret."""


class TooManyOpen(Exception):  # noqa: N818  # it is an answer, not a fault
    """A caller has as many open tickets as one may have; the message says how many."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """What one restart of a service did: for those who decide on the next one.

    ``outcome`` is ``ok``, a reason of failure, ``cancelled``, None while it is under way, or ``unknown`` where its
    process was lost. ``number`` counts a run's restarts from 1, ``key`` is what is really restarted (``Service.key``).
    One that has not ended by ``until`` never will.
    """

    run_id: str
    service: str
    who: Who
    started_at: float
    ended_at: float | None = None
    outcome: str | None = None
    message: str | None = None
    number: int = 1
    key: str = ""
    until: float | None = None


class Records(Protocol):
    """Tickets, uses of quotas, and the history of mutations. What is awaited may raise ``StoreUnavailable``."""

    async def ask(self, question: Question, now: float, *, lifetime: float, most_open: int) -> Ticket:
        """Return the open ticket for a question, pending or approved: that of the same binding, else a new one.

        One that breaks a freeze and one that does not are two, and so are two that break others. Raises
        ``TooManyOpen`` where the caller has ``most_open`` already.
        """
        ...

    async def ticket(self, ticket_id: str, now: float) -> Ticket | None:
        """Return a ticket as it is now: one whose time is over has expired, whoever looks."""
        ...

    async def tickets(
        self, tenant: str | None, now: float, *, states: Collection[TicketState] = (), most: int = 50
    ) -> list[Ticket]:
        """Return a tenant's tickets, in some states or in all, the newest first."""
        ...

    async def decide(self, ticket_id: str, *, approve: bool, by: Who, reason: str, now: float) -> Ticket:
        """Approve or refuse a pending ticket; of several at once exactly one succeeds.

        Raises ``Undecidable``: unknown, decided already, or expired. Who may decide is the caller's to check.
        """
        ...

    async def use(
        self, ticket_id: str, binding: Binding, run_id: str, allowances: Sequence[Allowance], now: float
    ) -> Ticket | tuple[Code, str]:
        """Use an approved ticket up for a run, once, and record what the run may do against its allowances.

        A person has said yes: allowances that do not suffice are recorded all the same. Returns the ticket, or why it
        does not let this run (``approvals.why_not``), which changes nothing.
        """
        ...

    async def reserve(self, run_id: str, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """Reserve what a run may do. Returns what would be gone beyond: then nothing was reserved."""
        ...

    async def overruns(self, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """Return what a run would go beyond now, and reserve nothing: for those who plan."""
        ...

    async def uses(self, keys: Collection[str], now: float) -> Mapping[str, Sequence[float]]:
        """Return, for each key of an allowance, when each use that counts was made: for those who look."""
        ...

    async def settle(self, run_id: str, used: Mapping[str, int], outcome: str, now: float) -> None:
        """Give back what a run reserved and did not do; ``used`` counts by the allowances' keys, as made now.

        Where a ticket let it run, ``outcome`` is noted there.
        """
        ...

    async def sweep(self, now: float) -> None:
        """Clear up what processes left that were lost, and records of the trail that are kept no longer."""
        ...

    async def history(self, tenant: str | None, services: Collection[str], *, most: int = 5) -> list[Mutation]:
        """Return the last mutations of each service, all that were put into the trail included, the newest first."""
        ...

    async def check(self, now: float) -> None:
        """Read and write something, so that it is known whether that can be done now."""
        ...

    async def close(self) -> None:
        """Give back what is held open."""
        ...


class Sessions(Protocol):
    """What the approval page keeps of its visitors. What is awaited may raise ``StoreUnavailable``.

    ``id_hash`` is a digest of what the visitor holds, so that the store gives nobody a session; ``content`` is JSON.
    """

    async def put(self, id_hash: str, content: Mapping[str, Any], expires_at: float) -> None:
        """Keep a session, or what is new of it."""
        ...

    async def get(self, id_hash: str, now: float) -> dict[str, Any] | None:
        """Return a session's content, None where there is none or its time is over."""
        ...

    async def take(self, id_hash: str, now: float) -> dict[str, Any] | None:
        """Return a session's content and forget it: of several at once, one gets it."""
        ...

    async def delete(self, id_hash: str) -> None:
        """Forget a session."""
        ...

    async def prune(self, now: float) -> None:
        """Forget each session whose time is over."""
        ...

"""What goes into the audit trail, and how it is given to it. No database is loaded here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from guideway.interpreter.records import Mutation


class Kind(StrEnum):
    """What a record tells of. The list is closed; a reader may rely on each kind's facts (docs/audit.md)."""

    CALL_REFUSED = "call.refused"  # at a door: no program was looked at, or none was there
    RUN_REFUSED = "run.refused"  # by a gate, before any effect
    RUN_REPEATED = "run.repeated"  # answered with what an earlier call with its idempotency key did: nothing ran
    RUN_BEGUN = "run.begun"
    RUN_ENDED = "run.ended"
    RESTART_BEGUN = "restart.begun"  # on disk before the service is touched
    RESTART_ENDED = "restart.ended"
    RESTART_UNKNOWN = "restart.unknown"  # its process was lost: what it did is not known
    TICKET_ASKED = "ticket.asked"
    TICKET_DECIDED = "ticket.decided"
    TICKET_USED = "ticket.used"
    TICKET_EXPIRED = "ticket.expired"
    SERVER_STARTED = "server.started"
    SERVER_STOPPED = "server.stopped"
    TRAIL_SIGNED = "trail.signed"  # from here on it is; what is before was not when it stood there
    TRAIL_GAP = "trail.gap"  # records were lost while the store was away, and so many
    TRAIL_PRUNED = "trail.pruned"  # records before one were removed, as the configuration says


@dataclass(frozen=True, slots=True)
class Entry:
    """One record before it has its place in a trail.

    ``tenant`` says which trail it goes into: each tenant has one, and None is that of the installation. ``at`` is in
    seconds since the epoch. ``facts`` is JSON, and has no key of ``chain.RESERVED``. ``mutation`` is what a restart's
    record says, for the history that is kept in the same transaction.
    """

    kind: Kind
    tenant: str | None
    at: float
    facts: Mapping[str, Any]
    mutation: Mutation | None = None


class Trail(Protocol):
    """Where entries become records: in the order in which they were given, each once, or none after it.

    One for a process; of one event loop.
    """

    @property
    def failing(self) -> str | None:
        """Why records cannot be kept now, as of the last try; None where they can. For operators."""
        ...

    def put(self, entries: Sequence[Entry]) -> None:
        """Let entries be kept, soon. Never raises: what waits while the store is away is bounded, and a gap is told."""
        ...

    async def written(self) -> None:
        """Return when all that this process has put until now is on disk. Raises ``StoreUnavailable``.

        After that error the entries go on waiting, and are kept once the store is there again.
        """
        ...


UNWRITTEN: Final = "the audit trail cannot be written now"
"""What a caller is told where a call may not go on without a record; why, the log says."""

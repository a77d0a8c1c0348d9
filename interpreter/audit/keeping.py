"""How a trail is kept, and how it is read again: what the store is told, and what it gives to those who verify."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from guideway.interpreter.audit.chain import Link
from guideway.interpreter.audit.sealed import Belief, Nobody, Seal

Private = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Takes an entry's facts and returns them without what is private: before they are hashed, and for good."""


Reached = Callable[[], Mapping[str, Seal]]
"""Returns how far trails had come, by what is kept outside of the store and believed. Raises ``OSError``."""


class Sealer(Protocol):
    """Signs where a trail has come to."""

    @property
    def kid(self) -> str:
        """The key's thumbprint (RFC 7638)."""
        ...

    def seal(self, trail: str, seq: int, digest: str, at: float) -> str:
        """Return a signed statement that a trail's record ``seq`` has the hash ``digest``: a compact JWS (RFC 7515)."""
        ...


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is configured of the trail. Without ``sealer`` nothing is signed.

    The head of a trail is sealed in each transaction that adds to it. After ``checkpoint_records`` records or
    ``checkpoint_seconds`` seconds, whichever comes first, and when the store is closed, that seal is kept for good as a
    checkpoint, and given to ``anchor``, which brings it out of the store's reach. Records older than ``keep_seconds``
    are removed up to a checkpoint that stays; None keeps all. ``belief`` is whose seals a trail is gone on with by, the
    sealer's own among them; ``reached`` what it is known to have had.
    """

    sealer: Sealer | None = None
    belief: Belief = field(default_factory=Nobody)
    reached: Reached | None = None
    private: Private | None = None
    checkpoint_records: int = 1_000
    checkpoint_seconds: float = 3_600.0
    anchor: Callable[[str], None] | None = None
    keep_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` where what is signed could not be gone on with."""
        if self.sealer is not None and self.sealer.kid not in self.belief.kids:
            raise ValueError("whoever signs a trail has to believe in its own seals")


PLAIN: Final = Keeping()


@dataclass(frozen=True, slots=True)
class Kept(Link):
    """A record as the store has it: with what it is found by, which a verifier holds against the body."""

    at: float
    kind: str
    run_id: str | None
    subject: str | None


@dataclass(frozen=True, slots=True)
class Head:
    """Where a trail has come to, as the store says: its last record's place and hash, and that sealed, or None.

    ``checkpoint`` is the place of the last checkpoint that was kept, 0 where none was. Where the store has no head, and
    the last record stands in for it, it is not ``stated``.
    """

    trail: str
    seq: int
    hash: str
    seal: str | None
    checkpoint: int = 0
    stated: bool = True


@dataclass(frozen=True, slots=True)
class Oddity:
    """A row whose values no program of this kind writes; ``seq`` is None where they name no place."""

    trail: str
    seq: int | None
    words: str


class TrailReader(Protocol):
    """Reads trails. What is awaited may raise ``StoreUnavailable``."""

    async def trails(self) -> list[Head]:
        """Return the head of every trail that has one, by name."""
        ...

    async def names(self) -> list[str]:
        """Return the names of all trails of which anything is there, be it a record or a checkpoint alone."""
        ...

    async def oddities(self, *, passed_over: bool = False) -> list[Oddity]:
        """Return the first odd row of each trail and table. What it has is read as what comes next to it.

        With ``passed_over`` only what nobody is shown: rows that are under no trail's name, or in no place of it.
        """
        ...

    async def records(
        self,
        trail: str,
        *,
        after: int = 0,
        most: int = 1_000,
        newest: bool = False,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Kept]:
        """Return records of a trail in their order: the first after a place, or the newest; of a time, if one is given.

        ``since`` is included, ``until`` is not.
        """
        ...

    async def checkpoints(self, trail: str) -> Sequence[str]:
        """Return the seals that are kept of a trail, in their order."""
        ...

"""Leases: what only so many runs may hold at once, whoever asks and wherever they run. All of a run's at once, or none.

A restart holds the service that it is of, and a place in each group and tenant that bounds restarts at once. It takes
them together and gives them back together, and waits with nothing in its hand: so two programs that touch the same
services in different order never wait for each other.
"""

import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio

_Taken = TypeVar("_Taken")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that ``at_once`` runs may hold at the same time; ``label`` says what, in messages."""

    key: str
    at_once: int
    label: str


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a run waited, in seconds, and for what: the label of the place, and who held it where that is known.

    ``orphan`` is the run whose process was lost while it held a place that was taken.
    """

    seconds: float
    label: str | None = None
    holder: str | None = None
    orphan: str | None = None


class Busy(Exception):  # noqa: N818  # it is an answer, not a fault
    """A place was not free in time."""

    def __init__(self, waited: Waited) -> None:
        super().__init__(waited)
        self.waited = waited


class Leases(Protocol):
    """Whoever gives places out."""

    def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AbstractAsyncContextManager[Waited]:
        """Hold every place, once all are free. Raises ``Busy`` after ``wait`` seconds, or ``StoreUnavailable``.

        A holder that dies frees its places. Places of one key always come with one ``at_once``.
        """
        ...

    async def close(self) -> None:
        """Give back what is held open."""
        ...


@dataclass(frozen=True, slots=True)
class Full:
    """A place that cannot be had now, and who holds it, where that is known; ``here`` if it is of this process."""

    label: str
    holder: str | None
    here: bool = False


class ProcessLeases:
    """Leases among the programs of one process. Of those that wait, whoever finds all its places free comes next."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._holders: dict[str, str] = {}
        self._freed: anyio.Event | None = None  # there while somebody waits

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place, once all are free. Raises ``Busy``."""
        full = self.take(places, run_id)
        waited = Waited(0.0)
        if full is not None:

            async def take() -> Full | None:
                return self.take(places, run_id)

            _, waited = await self.until_taken(take, full, wait, pause=math.inf, longest=math.inf)
        try:
            yield waited
        finally:
            self.give_back(places)

    async def until_taken(
        self, take: Callable[[], Awaitable[_Taken | Full]], full: Full, wait: float, *, pause: float, longest: float
    ) -> tuple[_Taken, Waited]:
        """Try again until every place is taken, and return what ``take`` gives then.

        Raises ``Busy`` after ``wait`` seconds.
        After a place of this process that was full it is tried when one is given back; after one of another process
        also after ``pause`` seconds, then after more and more of them up to ``longest``.
        """
        since = anyio.current_time()
        with anyio.CancelScope(deadline=since + wait):
            while True:
                if full.here:
                    await self.freed()
                else:
                    with anyio.move_on_after(pause):
                        await self.freed()
                    pause = min(pause * 1.5, longest)
                taken = await take()
                if not isinstance(taken, Full):
                    return taken, Waited(anyio.current_time() - since, full.label, full.holder)
                full = taken
        raise Busy(Waited(anyio.current_time() - since, full.label, full.holder))

    def take(self, places: Sequence[Place], run_id: str) -> Full | None:
        """Take every place, or say which one is full: then none was taken."""
        for place in places:
            if self._held[place.key] >= place.at_once:
                return Full(place.label, self._holders.get(place.key), here=True)
        for place in places:
            self._held[place.key] += 1
            self._holders[place.key] = run_id
        return None

    def give_back(self, places: Sequence[Place]) -> None:
        """Give back what was taken, and wake all that wait."""
        for place in places:
            self._held[place.key] -= 1
            if not self._held[place.key]:
                del self._held[place.key], self._holders[place.key]
        if self._freed is not None:
            self._freed.set()
            self._freed = None

    async def freed(self) -> None:
        """Wait until something is given back."""
        if self._freed is None:
            self._freed = anyio.Event()
        await self._freed.wait()

    async def close(self) -> None:
        """Nothing is held open."""

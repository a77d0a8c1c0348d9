"""Leases: what only so many runs may hold at once, whoever asks and wherever they run. All of a run's at once, or none.

A restart holds the service that it is of, and a place in each group and tenant that bounds restarts at once. It takes
them together and gives them back together, and waits with nothing in its hand: so two programs that touch the same
services in different order never wait for each other.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio


@dataclass(frozen=True, slots=True)
class Place:
    """Something that ``at_once`` runs may hold at the same time; ``label`` says what, in messages."""

    key: str
    at_once: int
    label: str


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a run waited, in seconds, and for what: the label of the place, and who held it where that is known."""

    seconds: float
    label: str | None = None
    holder: str | None = None


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


class ProcessLeases:
    """Leases among the programs of one process. Of those that wait, whoever finds all its places free comes next."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._holders: dict[str, str] = {}
        self._freed = anyio.Event()

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place, once all are free. Raises ``Busy``."""
        since = anyio.current_time()
        waited_for = await self._wait(places, since, wait)
        self._held.update(place.key for place in places)
        self._holders.update((place.key, run_id) for place in places)
        try:
            yield Waited(anyio.current_time() - since if waited_for else 0.0, *(waited_for or (None, None)))
        finally:
            self._held.subtract(place.key for place in places)
            self._held = +self._held
            freed, self._freed = self._freed, anyio.Event()
            freed.set()

    async def _wait(self, places: Sequence[Place], since: float, wait: float) -> tuple[str, str | None] | None:
        waited_for: tuple[str, str | None] | None = None
        with anyio.CancelScope(deadline=since + wait):
            while (full := self._full(places)) is not None:
                waited_for = full.label, self._holders.get(full.key)
                await self._freed.wait()
            return waited_for
        raise Busy(Waited(anyio.current_time() - since, *(waited_for or (None, None))))

    def _full(self, places: Iterable[Place]) -> Place | None:
        return next((place for place in places if self._held[place.key] >= place.at_once), None)

    async def close(self) -> None:
        """Nothing is held open."""

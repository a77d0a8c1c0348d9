"""Whose turn it is to be asked about: few questions at once, few more that wait, and the others are told so at once.

Owns the order, and no time: whoever waits bounds that.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class Crowded(Exception):  # noqa: N818  # it is an answer, not a fault
    """As many wait as may."""


class Turns:
    """``at_once`` have their turn together, ``waiting`` more may wait for theirs, first come, first served."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = anyio.Semaphore(at_once)
        self._waiting = waiting

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Raises ``Crowded`` at once where too many wait."""
        if self._free.statistics().tasks_waiting >= self._waiting:
            raise Crowded
        async with self._free:
            yield

"""One piece of work that several callers wait for."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from guideway.server.oauth.verified import IssuerUnavailable

T = TypeVar("T")


class Flight(Generic[T]):
    """Work that has begun, in a task of its own: it goes on when a caller gives up. It must not raise."""

    def __init__(self, tasks: TaskGroup, work: Callable[[], Awaitable[T]]) -> None:
        self._done = anyio.Event()
        self._result: list[T] = []
        tasks.start_soon(self._run, work)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    async def result(self) -> T:
        """Wait for what comes of it. Raises ``IssuerUnavailable`` where the server is stopped before that."""
        await self._done.wait()
        if not self._result:
            raise IssuerUnavailable("the server is stopping", 1)
        return self._result[0]

    async def _run(self, work: Callable[[], Awaitable[T]]) -> None:
        try:
            self._result.append(await work())
        finally:
            self._done.set()

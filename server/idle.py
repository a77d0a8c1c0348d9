"""Waiting until nothing goes on any more: for some seconds at most, or until somebody is in a hurry."""

from collections.abc import Awaitable, Callable

import anyio


class Idle:
    """Whether nothing goes on. Whoever counts says ``busy`` and ``rest``."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._event.set()

    def busy(self) -> None:
        """Note that something goes on."""
        if self._event.is_set():
            self._event = anyio.Event()

    def rest(self) -> None:
        """Note that nothing does."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until nothing goes on."""
        while not self._event.is_set():
            await self._event.wait()


async def drain(until: Callable[[], Awaitable[None]], seconds: float, hurry: anyio.Event) -> None:
    """Return when ``until`` does; at the latest after some seconds, or at an event."""
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:

            async def cut_short() -> None:
                await hurry.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(cut_short)
            await until()
            tasks.cancel_scope.cancel()

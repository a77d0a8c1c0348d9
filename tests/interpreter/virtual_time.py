"""An event loop whose clock jumps to the next timer, so that minutes of waiting are tested in microseconds."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


class _Jump(selectors.DefaultSelector):
    """Never sleeps: where nothing is ready, the clock moves on by what would have been slept."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for something that will never happen")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Counts its own seconds."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._jump.now


#: What the fixture ``anyio_backend`` has to return for tests in virtual time.
BACKEND: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": VirtualLoop})


def run(main: Callable[[], Awaitable[Result]]) -> Result:
    """Run a coroutine function in a virtual time of its own."""
    return anyio.run(main, backend=BACKEND[0], backend_options=BACKEND[1])

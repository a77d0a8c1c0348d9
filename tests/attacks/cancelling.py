"""A cancellation at one chosen point: at the n-th time that a task waits, and at no other."""

from collections.abc import Coroutine, Generator
from typing import Any

import anyio


class _Steps:
    """Runs a coroutine, and calls a cancel scope's ``cancel`` when it waits for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, Any], scope: anyio.CancelScope, at: int) -> None:
        self._work = work
        self._scope = scope
        self._left = at

    def __await__(self) -> Generator[Any, Any, Any]:
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waits_for = self._work.throw(thrown) if thrown is not None else self._work.send(sent)
            except StopIteration as end:
                return end.value
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()
            thrown = None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # also a cancellation is the coroutine's to handle
                thrown = error


async def cancelled_at(at: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Run a coroutine and cancel it where it waits for the n-th time; return whether that cut it short."""
    with anyio.CancelScope() as scope:
        await _Steps(work, scope, at)
        return False
    return True

"""Standard input as lines that a signal can end.

The SDK reads standard input in a thread, and a thread that waits for input cannot be stopped: a server told to end
would hang until its client spoke once more. This one waits in the event loop.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.lowlevel
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

MOST_BYTES: Final = DEFAULT_MAX_REQUEST_BODY_SIZE
"""The longest line that is read: as over HTTP."""

_CHUNK: Final = 65_536
_log = logging.getLogger(__name__)


class Input:
    """The lines of a file descriptor, decoded as UTF-8, until it ends or ``end`` is called.

    ``too_long`` is called for each that is not read for its length.
    """

    def __init__(self, descriptor: int, too_long: Callable[[], None] = lambda: None) -> None:
        self._descriptor = descriptor
        self._too_long = too_long
        self._ended = False
        self._reading = anyio.CancelScope()

    def end(self) -> None:
        """Let the lines end here."""
        self._ended = True
        self._reading.cancel()

    async def __aiter__(self) -> AsyncIterator[str]:
        pending = bytearray()
        while chunk := await self._read():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                pending += end
                if len(pending) <= MOST_BYTES:
                    yield pending.decode("utf-8", "replace")
                else:
                    self._tell_too_long()
                pending.clear()
            pending += rest[: MOST_BYTES + 1 - len(pending)]  # of a longer line only that it is too long is kept
        if len(pending) > MOST_BYTES:
            self._tell_too_long()
        elif pending:
            yield pending.decode("utf-8", "replace")

    def _tell_too_long(self) -> None:
        _log.warning("a message of more than %d bytes was not read", MOST_BYTES)
        self._too_long()

    async def _read(self) -> bytes:
        if self._ended:
            return b""
        with anyio.CancelScope() as self._reading:
            try:
                await anyio.wait_readable(self._descriptor)
            except PermissionError:  # a plain file, which never lets anybody wait (epoll_ctl(2), EPERM)
                await anyio.lowlevel.checkpoint()
            return os.read(self._descriptor, _CHUNK)
        return b""


@contextmanager
def standard_input(too_long: Callable[[], None] = lambda: None) -> Iterator[Input]:
    """Give standard input, and meanwhile let descriptor 0 be empty: what a driver starts must not read the protocol."""
    ours = os.dup(0)
    os.set_inheritable(ours, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield Input(ours, too_long)
    finally:
        os.dup2(ours, 0)
        os.close(ours)

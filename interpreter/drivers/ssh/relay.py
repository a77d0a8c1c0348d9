"""One connection from a socket of this machine through a channel to a socket of another.

Owns the socket, in a folder that nobody else can enter; as soon as the one connection to it is made, both are gone
again. Never looks at what passes.
"""

import asyncio
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import asyncssh

from guideway.interpreter.drivers.ssh.connection import Connection
from guideway.interpreter.drivers.ways import WayLost

_PART_BYTES: Final = 64 * 1024

#: The two directions of a channel.
Far = tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]


class Relay:
    """A passage through a channel, whose ends are ``far``. ``place`` is given back when it rests or is closed.

    Raises ``OSError`` where no socket can be made.
    """

    def __init__(self, connection: Connection, far: Far, place: anyio.Semaphore | None) -> None:
        self._connection = connection
        self._from_far, self._to_far = far
        self._place = place
        self._holds = place is not None
        self._near: asyncio.StreamWriter | None = None
        self._folder = Path(tempfile.mkdtemp(prefix=f"guideway-{os.getpid()}-"))  # whose it is, where one is left
        self.path = self._folder / "s"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.setblocking(False)
            self._listener.bind(str(self.path))
            self._listener.listen(1)
        except BaseException:
            self._unlist()
            raise
        self._work = asyncio.create_task(self._carry())

    @property
    def lost(self) -> WayLost | None:
        """That the connection to the host ended, None where it did not."""
        return self._connection.lost

    def rest(self) -> None:
        """Give its place among the calls to others."""
        if self._place is not None and self._holds:
            self._holds = False
            self._place.release()

    async def wake(self) -> None:
        """Take a place among the calls again."""
        if self._place is not None:
            await self._place.acquire()
            self._holds = True

    async def close(self) -> None:
        """End both connections."""
        self._work.cancel()
        await asyncio.wait([self._work])
        if self._near is not None:
            self._near.transport.abort()
        self._unlist()  # a task that was cancelled before it began has not done that
        self._to_far.channel.abort()
        self.rest()

    async def _carry(self) -> None:
        """Accept one connection, and carry both ways until the far end has ended its own."""
        near = await self._accepted()
        self._unlist()
        reader, self._near = await asyncio.open_unix_connection(sock=near)
        sending = asyncio.create_task(_pump(reader, self._to_far))
        try:
            await _pump(self._from_far, self._near)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            self._near.close()

    async def _accepted(self) -> socket.socket:
        """Wait for the connection. Not by ``sock_accept``: that loses what it accepted where it is cancelled late."""
        loop = asyncio.get_running_loop()
        while True:
            waiting = asyncio.Event()
            loop.add_reader(self._listener, waiting.set)
            try:
                await waiting.wait()
            finally:
                loop.remove_reader(self._listener)
            with suppress(BlockingIOError):  # who connected has gone again
                near, _ = self._listener.accept()
                near.setblocking(False)
                return near

    def _unlist(self) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self._folder.rmdir()


async def _pump(
    source: asyncio.StreamReader | asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter | asyncssh.SSHWriter[bytes]
) -> None:
    """Carry one way until that ends, in whichever way: all that the reader at the other end can know is that it did."""
    with suppress(OSError, asyncssh.Error):
        while part := await source.read(_PART_BYTES):
            sink.write(part)
            await sink.drain()
    with suppress(OSError, asyncssh.Error):
        sink.write_eof()

"""A machine that is reached over SSH: one connection for all services on it, made anew after it ended.

Owns who uses the connection, and when it is made and closed. Never knows what is spoken at a socket.
"""

import asyncio
from pathlib import Path
from typing import Final

import anyio

from guideway.interpreter.drivers.base import Fault, only_faults
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ssh.connection import Connection, connect
from guideway.interpreter.drivers.ssh.relay import Relay
from guideway.interpreter.drivers.ways import Passage, WayLost
from guideway.interpreter.results import Reason

#: For so long a failure to connect is the answer to everybody who asks: many calls are no storm of attempts.
PAUSE_SECONDS: Final = 1.0


class _Attempt:
    """A connection that is made, or was: by a task of its own, which lives as long as the connection does.

    So who waits for it and is cancelled stops nobody else, and where the event loop ends, nothing stays open.
    """

    def __init__(self, options: SshOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._made: Connection | Fault | None = None
        self._news = asyncio.Event()
        self._over = 0.0
        self._life = asyncio.create_task(self._live(options))

    @property
    def holds(self) -> bool:
        """Whether there is no reason yet for another."""
        if self._loop is not asyncio.get_running_loop():
            return False
        match self._made:
            case Connection() as made:
                return made.lives
            case Fault():
                return self._loop.time() < self._over + PAUSE_SECONDS
            case None:
                return not self._life.done()

    async def result(self) -> Connection:
        """Return the connection. Raises ``Fault``."""
        await self._news.wait()
        match self._made:
            case Connection() as made:
                return made
            case WayLost() as fault:  # a fault is raised once, and many may wait for this one
                raise WayLost(fault.message, fault.output, fault.mend)
            case Fault() as fault:
                raise Fault(fault.reason, fault.message, fault.output, fault.mend)
            case None:
                raise WayLost("its SSH host is used no more")

    async def close(self) -> None:
        """Stop it, or close what came of it."""
        if self._loop is not asyncio.get_running_loop():
            return  # it ended with its loop
        self._life.cancel()
        await asyncio.wait([self._life])

    async def _live(self, options: SshOptions) -> None:
        try:
            with only_faults("ssh"):
                self._made = connection = await connect(options)
        except Fault as fault:
            self._made, self._over = fault, self._loop.time()
            return
        finally:
            self._news.set()
        try:
            await connection.ended()
        finally:
            connection.close()


class SshHost:
    """A machine by its SSH server: a ``Way``."""

    def __init__(self, options: SshOptions) -> None:
        self._options = options
        self._members: set[object] = set()
        self._attempt: _Attempt | None = None

    @property
    def user(self) -> str:
        """As whom it comes there."""
        return self._options.user

    async def open(self, socket: Path, member: object, *, lasting: bool = False) -> Passage:
        """Open a channel to a socket, over the connection that all share. Raises ``Fault``.

        A call waits for its place; what is ``lasting`` takes none, or it could keep all of them.
        """
        self._members.add(member)
        if self._attempt is None or not self._attempt.holds:
            self._attempt = _Attempt(self._options)
        connection = await self._attempt.result()
        place = None if lasting else connection.calls
        if place is not None:
            await place.acquire()
        try:
            far = await connection.channel(socket)
            try:
                return Relay(connection, far, place)
            except BaseException:
                far[1].channel.abort()
                raise
        except BaseException as error:
            if place is not None:
                place.release()
            if isinstance(error, OSError):
                raise Fault(Reason.UNKNOWN, "no socket can be made here that leads to its SSH host") from error
            raise

    async def leave(self, member: object) -> None:
        """Be a member no more; with the last one the connection ends."""
        self._members.discard(member)
        if not self._members and self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            with anyio.CancelScope(shield=True):
                await attempt.close()

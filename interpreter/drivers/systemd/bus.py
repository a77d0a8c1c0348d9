"""The message bus that systemd is asked over: one connection for all units behind it, made anew after it died.

Owns connections, calls and the news of ended jobs. Never knows what a unit is, or what an answer means.
"""

import asyncio
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import anyio.lowlevel
from dbus_fast import AuthError, Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.auth import UID_NOT_SPECIFIED, AuthExternal

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import unreachable
from guideway.interpreter.drivers.ways import HERE, Passage, Way, WayLost
from guideway.interpreter.results import Reason

SYSTEMD: Final = "org.freedesktop.systemd1"
MANAGER: Final = "org.freedesktop.systemd1.Manager"
MANAGER_PATH: Final = "/org/freedesktop/systemd1"
PROPERTIES: Final = "org.freedesktop.DBus.Properties"

#: How long a connection may take to be made, handshake included.
CONNECT_SECONDS: Final = 5.0

# systemd tells the end of a job to whoever asked for it, without a Subscribe, which would make it tell everything.
_JOB_REMOVED: Final = (
    f"type='signal',sender='{SYSTEMD}',path='{MANAGER_PATH}',interface='{MANAGER}',member='JobRemoved'"
)


class Lost(Fault):
    """The bus cannot be reached, or its connection ended: what was asked may have been done or not."""

    def __init__(self, message: str, output: str = "", mend: str = "") -> None:
        super().__init__(Reason.UNREACHABLE, message, output, mend)


class Refusal(Exception):  # noqa: N818  # the driver makes a ``Fault`` of it
    """An error instead of an answer: its name on the bus, and its text, which is untrusted."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.name = name
        self.text = text


class Jobs:
    """The jobs that ended while somebody listens. A job is known by who runs it and its path."""

    def __init__(self) -> None:
        self._results: dict[tuple[str | None, str], str] = {}
        self._news = anyio.Event()

    def result(self, owner: str | None, job: str) -> str | None:
        """Return how a job ended, in systemd's word, None while no end of it is known."""
        return self._results.get((owner, job))

    async def news(self) -> None:
        """Wait until another job ended: for ever, where the connection ended meanwhile."""
        await self._news.wait()

    def ended(self, owner: str | None, job: str, result: str) -> None:
        """Note the end of a job."""
        self._results[owner, job] = result
        self._news.set()
        self._news = anyio.Event()


class Link:
    """A connection that lives until it is closed or the bus ends it, and then closes the passage that it came by."""

    def __init__(self, bus: MessageBus, passage: Passage) -> None:
        self._bus = bus
        self._passage = passage
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._listening: set[Jobs] = set()
        bus.add_message_handler(self._heard)
        # A task of its own: who awaits the library's future and is cancelled would cancel that for everybody.
        self._end = asyncio.create_task(self._watch())

    @property
    def lives(self) -> bool:
        """Whether it can be used."""
        return bool(self._bus.connected)

    async def call(
        self, member: str, signature: str, *arguments: Any, path: str, interface: str, returns: str, to: str = SYSTEMD
    ) -> Message:
        """Call a method and return the answer. Raises ``Refusal`` for an error and ``Fault``."""
        # What has arrived is read first, the end of the connection above all: it takes the loop two turns to see it.
        for _ in range(2):
            await anyio.lowlevel.checkpoint()
        if not self._bus.connected:  # the library would write to a file descriptor that may be another's by now
            raise self._gone()
        message = Message(
            destination=to,
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=list(arguments),
            serial=self._bus.next_serial(),
        )
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._answers[message.serial] = answer
        try:
            # What goes wrong with the writing ends the connection, and that ends each call.
            self._bus.send(message).add_done_callback(lambda sent: sent.cancelled() or sent.exception())
            reply = await answer
        except OSError as error:
            raise self._gone() from error
        finally:
            del self._answers[message.serial]
        if reply.message_type is MessageType.ERROR:
            text = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
            raise Refusal(reply.error_name or "", text)
        if reply.signature != returns:
            raise Fault(Reason.UNKNOWN, "what answers on the bus does not speak as systemd does")
        return reply

    @contextmanager
    def jobs(self) -> Iterator[Jobs]:
        """Listen for the ends of jobs. Begins before a job is asked for: its end can be told before its path is."""
        jobs = Jobs()
        self._listening.add(jobs)
        try:
            yield jobs
        finally:
            self._listening.discard(jobs)

    async def close(self) -> None:
        """End the connection, and wait until it has."""
        if self._bus.connected:
            self._bus.disconnect()
        if not self._end.done():
            await asyncio.wait([self._end])  # which cancels nothing when it is cancelled

    async def _watch(self) -> None:
        try:
            with suppress(Exception):
                await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(self._gone())
            if self._bus.connected:  # the event loop ends, and nobody closed us: no socket is left open
                self._bus.disconnect()
                for _ in range(2):
                    await asyncio.sleep(0)
            await self._passage.close()

    def _gone(self) -> Lost:
        lost = self._passage.lost
        return Lost(lost.message if lost else "the message bus ended the connection")

    def _heard(self, message: Message) -> None:
        match message.message_type:
            case MessageType.METHOD_RETURN | MessageType.ERROR:
                answer = self._answers.get(message.reply_serial or 0)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case MessageType.SIGNAL if (message.interface, message.member) == (MANAGER, "JobRemoved"):
                if message.signature == "uoss":
                    _, job, _, result = message.body
                    for jobs in self._listening:
                        jobs.ended(message.sender, job, result)
            case _:
                pass


class Bus:
    """A bus by the path of its socket on a machine. ``uid`` is whom we are to its authentication.

    None is this process's user; on another machine it is whom the bus sees there, whatever number that has.

    Whoever asks over it is a member from then on, until they leave; the last one to leave closes the connection.
    """

    def __init__(self, socket: Path, uid: int | None = None, way: Way = HERE) -> None:
        self.socket = socket
        self.uid = uid
        self.way = way
        self._members: set[object] = set()
        self._link: Link | None = None
        self._changing = anyio.Lock()

    async def link(self, member: object) -> Link:
        """Return the connection, made where none lives: one attempt a call. Raises ``Fault``."""
        self._members.add(member)
        if self._link is not None and self._link.lives:
            return self._link
        async with self._changing:
            if self._link is None or not self._link.lives:
                self._link = await self._connect()
            return self._link

    async def leave(self, member: object) -> None:
        """Be a member no more."""
        self._members.discard(member)
        async with self._changing:
            if not self._members and self._link is not None:
                link, self._link = self._link, None
                await link.close()
            if not self._members:
                await self.way.leave(self)

    async def _connect(self) -> Link:
        try:
            passage = await self.way.open(self.socket, self, lasting=True)
        except WayLost as fault:
            raise Lost(fault.message, fault.output, fault.mend) from fault
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                link = await self._linked(passage)
                try:
                    await link.call(
                        "AddMatch",
                        "s",
                        _JOB_REMOVED,
                        path="/org/freedesktop/DBus",
                        interface="org.freedesktop.DBus",
                        returns="",
                        to="org.freedesktop.DBus",
                    )
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await link.close()
                    raise
        except TimeoutError:
            raise Lost(f"the message bus did not answer within {CONNECT_SECONDS:g} s") from None
        except Refusal as refusal:
            raise Fault(Reason.NO_PERMISSION, "the message bus does not let this user listen", refusal.text) from None
        return link

    async def _linked(self, passage: Passage) -> Link:
        try:
            return Link(await self._authenticated(passage.path), passage)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await passage.close()
            raise

    async def _authenticated(self, socket: Path) -> MessageBus:
        uid = (os.geteuid() if self.way is HERE else UID_NOT_SPECIFIED) if self.uid is None else self.uid
        address = f"unix:path={quote(str(socket)).replace('~', '%7E')}"
        try:
            return await MessageBus(address, auth=AuthExternal(uid)).connect()
        except (OSError, EOFError) as error:
            fault = unreachable(error, "the message bus", self.socket if self.way is HERE else None)
            raise (Lost(fault.message, mend=fault.mend) if fault.reason is Reason.UNREACHABLE else fault) from error
        except Exception as error:  # whatever the library makes of what it read
            if isinstance(error, AuthError) and "REJECTED" in str(error):
                raise Fault(Reason.NO_PERMISSION, "the message bus does not let this user in") from error
            raise Lost("what answers at the socket is not a message bus") from error


_BUSES: weakref.WeakValueDictionary[tuple[Way, Path], Bus] = weakref.WeakValueDictionary()


def bus_at(socket: Path, way: Way = HERE) -> Bus:
    """Return the bus at a socket of a machine, the same one for everybody."""
    bus = _BUSES.get((way, socket))
    if bus is None:
        bus = _BUSES[way, socket] = Bus(socket, way=way)
    return bus

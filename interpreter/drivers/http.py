"""HTTP to a service manager at one place: a unix socket of some machine, or a TCP port of this one.

Owns connections: a question takes one that is kept, what changes something one of its own. Never knows what is asked,
or what an answer means. HTTP is h11's, over sockets of our own: a client that takes a URL takes longer for itself than
a service manager does for its answer.

Nothing is sent twice that may change something. A kept connection may have been ended by the other side, as when the
service manager was started anew: that is looked for before each use and, where it crosses with a question, the question
is asked once more, on a new connection. One on which more came than the answer is not used again: what is left of it
would be taken for the answer to the next question.

Nor does a question overtake what may have changed something: where that was broken off, whoever is at the other end may
not have read it yet, and would first read from a connection that stands. So no older one is used afterwards.
"""

import asyncio
import socket
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import h11

from guideway.interpreter.drivers.ways import HERE, Passage, Way

#: Questions that may be under way at one place; others wait for their turn within their own deadline.
MOST_QUESTIONS: Final = 16
#: Connections that are kept for a place while nothing is asked there, and for how many seconds.
MOST_KEPT: Final = 4
KEPT_SECONDS: Final = 5.0

_PART_BYTES: Final = 64 * 1024
# What may be read of one answer, beside its body: its head, informational answers, and what frames each chunk.
_FRAME_BYTES: Final = 64 * 1024
_FRAME_TIMES: Final = 8  # a byte in a chunk of its own takes six
_FULL_SECONDS: Final = 0.01  # until it is tried again where too many wait to be let in


class NotConnectedError(Exception):
    """There was no connection, so that nothing was sent. Its cause is the system's error."""


class CutOffError(Exception):
    """The connection ended before the answer had, or that was no HTTP: what was asked may have been done or not."""


class TooLongError(Exception):
    """The answer is longer than it may be, or what stands around its body is."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. ``most`` is how many bytes the answer's body may have."""

    method: str
    target: str
    headers: Mapping[str, str]
    most: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Connection:
    """A connection that stands, with the passage that it came by. It belongs to the event loop that made it.

    ``era`` is how many acts had been broken off when it was made.
    """

    def __init__(self, end: socket.socket, passage: Passage | None, era: int) -> None:
        self.passage = passage
        self.era = era
        self.loop = asyncio.get_running_loop()
        self._end = end
        self._http = h11.Connection(h11.CLIENT)

    @property
    def is_quiet(self) -> bool:
        """Whether the other side has said nothing since the last answer: not that it ended the connection either.

        What came with the last answer was read by then, and is for ``renew`` to look at.
        """
        try:
            self._end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def exchange(self, request: Request, sent: Callable[[], None]) -> Answer:
        """Return the answer. ``sent`` is called right before. Raises ``CutOffError`` and ``TooLongError``."""
        headers = [("Host", "localhost"), *request.headers.items()]
        if request.body or request.method == "POST":
            headers.append(("Content-Length", str(len(request.body))))
        http = self._http
        try:
            written = http.send(h11.Request(method=request.method, target=request.target, headers=headers)) or b""
            if request.body:
                written += http.send(h11.Data(data=request.body)) or b""
            written += http.send(h11.EndOfMessage()) or b""
            sent()
            await self._write(written)
            return await self._read(request.most)
        except (h11.RemoteProtocolError, OSError) as error:
            raise CutOffError from error

    def renew(self) -> bool:
        """Make ready for another request; return whether it can be."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        if self._http.trailing_data != (b"", False):  # who answers twice would answer the next question with that
            return False
        self._http.start_next_cycle()
        return True

    async def close(self) -> None:
        """End it. Waits for nobody on another machine."""
        self._end.close()
        if self.passage is not None and self.loop is asyncio.get_running_loop():  # else the passage ended with its loop
            with anyio.CancelScope(shield=True):
                await self.passage.close()

    async def _write(self, written: bytes) -> None:
        rest = memoryview(written)
        while rest:
            try:
                rest = rest[self._end.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._end)

    async def _read(self, most: int) -> Answer:
        status, headers, body = 0, {}, bytearray()
        left = _FRAME_BYTES + _FRAME_TIMES * most
        while True:
            match self._http.next_event():
                case h11.Response() as head:
                    status = head.status_code
                    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
                case h11.Data() as part:
                    body += part.data
                    if len(body) > most:
                        raise TooLongError
                case h11.EndOfMessage():
                    return Answer(status, headers, bytes(body))
                case h11.NEED_DATA:
                    came = await self._receive()
                    left -= len(came)
                    if left < 0:
                        raise TooLongError
                    self._http.receive_data(came)
                case _:  # an informational answer, before the one that counts
                    continue

    async def _receive(self) -> bytes:
        """Return what came next. The loop has its turn each time, also where the other side is always quicker."""
        while True:
            await anyio.wait_readable(self._end)
            with suppress(BlockingIOError):
                return self._end.recv(_PART_BYTES)


class Place:
    """Where a service manager listens: a socket of the machine that ``way`` leads to, or a host and port.

    Whoever asks is a member from then on, until they leave; the last one to leave ends the kept connections.
    """

    def __init__(self, at: Path | tuple[str, int], way: Way = HERE) -> None:
        self.way = way
        self._at = at
        self._members: set[object] = set()
        self._kept: list[tuple[float, _Connection]] = []  # with the time until which it is, the oldest first
        self._era = 0
        self._turns = anyio.Semaphore(MOST_QUESTIONS, fast_acquire=True)
        self._keeper: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def socket(self) -> Path | None:
        """The socket's path, None where it is a port."""
        return self._at if isinstance(self._at, Path) else None

    async def ask(self, request: Request, member: object) -> Answer:
        """Return the answer to what changes nothing, and may be asked twice.

        Raises ``NotConnectedError``, ``CutOffError``, ``TooLongError``, and ``Fault`` from the way.
        """
        self._members.add(member)
        async with self._turns:
            while (connection := await self._taken()) is not None:
                with suppress(CutOffError):
                    return await self._exchange(connection, request, _nothing)
            return await self._exchange(await self._connected(), request, _nothing)

    async def act(self, request: Request, member: object, sent: Callable[[], None] | None = None) -> Answer:
        """Return the answer to what may change something: it is sent once at most. Raises as ``ask`` does.

        ``sent`` is called when the other side may begin to hear it.
        """
        self._members.add(member)
        await anyio.lowlevel.checkpoint()  # who was cancelled by now has asked for nothing
        connection = await self._connected()
        try:
            return await self._exchange(connection, request, sent or _nothing)
        except BaseException:
            self._era += 1
            with anyio.CancelScope(shield=True):
                await self._end_kept(len(self._kept))
            raise

    async def leave(self, member: object) -> None:
        """Be a member no more."""
        self._members.discard(member)
        if self._members:
            return
        keeper, stop, self._keeper = self._keeper, self._stop, None  # who comes meanwhile has another one
        with anyio.CancelScope(shield=True):
            await self._end_kept(len(self._kept))
            if keeper is not None and keeper.get_loop() is asyncio.get_running_loop():
                stop.set()  # it is not cancelled: it may be just about to end connections
                await asyncio.wait([keeper])
            if not self._members:  # else somebody came meanwhile, whose connections take this way
                await self.way.leave(self)

    async def _exchange(self, connection: _Connection, request: Request, sent: Callable[[], None]) -> Answer:
        """Return the answer over a connection, which is kept then, or ended."""
        keeps = False
        try:
            answer = await connection.exchange(request, sent)
            keeps = bool(self._members) and len(self._kept) < MOST_KEPT and connection.renew()
            keeps = keeps and connection.era == self._era
        except CutOffError as error:
            if connection.passage is not None and (lost := connection.passage.lost) is not None:
                raise lost from error
            raise
        finally:
            if not keeps:
                await connection.close()
        if connection.passage is not None:
            connection.passage.rest()
        self._kept.append((asyncio.get_running_loop().time() + KEPT_SECONDS, connection))
        self._keep()
        return answer

    async def _taken(self) -> _Connection | None:
        """Take a kept connection that can be used; None where there is none."""
        loop = asyncio.get_running_loop()
        while self._kept:
            _, connection = self._kept.pop()
            try:
                if connection.loop is loop and connection.era == self._era and connection.is_quiet:
                    if connection.passage is None:
                        return connection
                    await connection.passage.wake()
                    if connection.era == self._era and connection.is_quiet:  # that may have taken a while
                        return connection
            except BaseException:
                await connection.close()
                raise
            await connection.close()
        return None

    async def _connected(self) -> _Connection:
        """Return a new connection. Raises ``NotConnectedError``, and ``Fault`` from the way."""
        era = self._era  # what is broken off from now on may come to the other end after this connection
        if not isinstance(self._at, Path):
            return _Connection(await _connected_to_port(*self._at), None, era)
        passage = await self.way.open(self._at, self)
        try:
            return _Connection(await _connected_to_socket(passage.path), passage, era)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await passage.close()
            raise

    def _keep(self) -> None:
        """See that kept connections are ended in time, or with the event loop."""
        if self._keeper is None or self._keeper.done() or self._keeper.get_loop() is not asyncio.get_running_loop():
            self._stop = asyncio.Event()
            self._keeper = asyncio.create_task(self._end_in_time(self._stop))

    async def _end_in_time(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._kept and not stop.is_set():
                until, _ = self._kept[0]
                with anyio.move_on_after(until - loop.time()):
                    await stop.wait()
                if not stop.is_set():
                    await self._end_kept(sum(until <= loop.time() for until, _ in self._kept))
        finally:
            if self._keeper is asyncio.current_task():  # the loop ends, and nobody left: no socket stays open
                await self._end_kept(len(self._kept))

    async def _end_kept(self, number: int) -> None:
        """End the oldest kept connections."""
        ended, self._kept = self._kept[:number], self._kept[number:]
        for _, connection in ended:
            await connection.close()


_PLACES: weakref.WeakValueDictionary[tuple[Way, Path | tuple[str, int]], Place] = weakref.WeakValueDictionary()


def place_at(at: Path | tuple[str, int], way: Way = HERE) -> Place:
    """Return the place at a socket of a machine, or at a host and port of this one; the same one for everybody."""
    place = _PLACES.get((way, at))
    if place is None:
        place = _PLACES[way, at] = Place(at, way)
    return place


async def _connected_to_socket(path: Path) -> socket.socket:
    """Return a connection to a unix socket. Raises ``NotConnectedError``."""
    async with _made(socket.AF_UNIX) as end:
        while True:
            try:
                end.connect(str(path))
            except BlockingIOError:  # of those who wait to be let in there are too many
                await anyio.sleep(_FULL_SECONDS)
            else:
                return end


async def _connected_to_port(host: str, port: int) -> socket.socket:
    """Return a connection to the first address of a host that accepts one. Raises ``NotConnectedError``."""
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotConnectedError from error
    for at, (family, *_, address) in enumerate(found, 1):
        try:
            async with _made(family) as end:
                with suppress(BlockingIOError):
                    end.connect(address)
                await anyio.wait_writable(end)
                if number := end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(number, "")
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
                return end
        except NotConnectedError:
            if at == len(found):
                raise
    raise NotConnectedError from OSError(0, "")


@asynccontextmanager
async def _made(family: int) -> AsyncIterator[socket.socket]:
    """Make a socket, which is closed where it could not be connected. Raises ``NotConnectedError`` then."""
    end: socket.socket | None = None
    try:
        end = socket.socket(family, socket.SOCK_STREAM)
        end.setblocking(False)
        yield end
    except BaseException as error:
        if end is not None:
            end.close()
        if isinstance(error, OSError):
            raise NotConnectedError from error
        raise


def _nothing() -> None:
    """Be told, and do nothing."""

"""HTTP to a service manager: what is kept, how a connection that ended is noticed, and what is never sent twice."""

import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tests.attacks.cancelling import cancelled_at
from tests.system.remains import in_quiet, leaving_nothing, nothing_more_than

from guideway.interpreter.drivers import http as http_module
from guideway.interpreter.drivers.http import (
    MOST_KEPT,
    MOST_QUESTIONS,
    CutOffError,
    NotConnectedError,
    Place,
    Request,
    TooLongError,
    place_at,
)
from guideway.interpreter.drivers.ways import Passage, Way

pytestmark = pytest.mark.anyio

GET = Request("GET", "/one", {}, 100)
POST = Request("POST", "/two", {}, 100, b"body")
SOMEBODY = object()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as folder:  # a unix socket's path has at most 107 bytes
        yield Path(folder, "s")


class Server:
    """Answers each request with the next of some answers, and with ``OK`` after them; ``b""`` ends the connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heard: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.hold: anyio.Event | None = None
        self._ends: list[socket.socket] = []

    def say(self, said: bytes) -> None:
        """Say something that nobody asked for, to whoever is connected."""
        for end in self._ends:
            end.send(said)

    @asynccontextmanager
    async def at(self, path: Path) -> AsyncIterator["Server"]:
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield self
            tasks.cancel_scope.cancel()

    async def is_left(self) -> None:
        """Wait until nobody is connected."""
        with anyio.fail_after(5):
            while self.open:
                await anyio.sleep(0.001)

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        self.open += 1
        self._ends.append(stream.extra(SocketAttribute.raw_socket))  # noqa: S610
        try:
            async with stream:
                with suppress(anyio.BrokenResourceError):
                    await self._answer(stream)
        finally:
            self.open -= 1

    async def _answer(self, stream: SocketStream) -> None:
        async for request in stream:
            self.heard.append(request)
            if self.hold is not None:
                await self.hold.wait()
            answer = self.answers.pop(0) if self.answers else OK
            if not answer:
                return
            await stream.send(answer)
            if b"\r\n\r\n" not in answer or answer == OK[:-1]:
                return


async def test_a_question_takes_the_connection_of_the_one_before(path: Path) -> None:
    place = Place(path)
    async with leaving_nothing(), Server().at(path) as server:
        for _ in range(3):
            answer = await place.ask(GET, SOMEBODY)
            assert (answer.status, answer.headers, answer.body) == (200, {"content-length": "2"}, b"ok")
        assert server.connections == 1
        await place.leave(SOMEBODY)
        await server.is_left()


async def test_what_changes_something_has_a_connection_of_its_own(path: Path) -> None:
    place = Place(path)
    async with Server().at(path) as server:
        for _ in range(3):
            await place.ask(GET, SOMEBODY)
            assert (await place.act(POST, SOMEBODY)).status == 200
        assert [request.partition(b" ")[0] for request in server.heard] == [b"GET", b"POST"] * 3
        assert server.heard[1].endswith(b"\r\n\r\nbody")
        assert server.connections >= 4
        await place.leave(SOMEBODY)


async def test_a_service_manager_that_was_started_anew_is_asked_again(path: Path) -> None:
    place = Place(path)
    for _ in range(3):
        async with Server().at(path) as server:
            assert (await place.ask(GET, SOMEBODY)).status == 200
            assert len(server.heard) == 1
    await place.leave(SOMEBODY)


async def test_a_kept_connection_that_ends_as_it_is_asked_costs_nobody_the_answer(path: Path) -> None:
    place = Place(path)
    async with Server(OK, b"", OK).at(path) as server:
        await place.ask(GET, SOMEBODY)
        assert (await place.ask(GET, SOMEBODY)).status == 200
        assert (len(server.heard), server.connections) == (3, 2)
        await place.leave(SOMEBODY)


@pytest.mark.parametrize("answer", [b"", OK[:10], OK[:-1], b"\0" * 99, b"HTTP/1.1 999999 x\r\n\r\n"])
async def test_what_changes_something_is_never_sent_twice(path: Path, answer: bytes) -> None:
    place = Place(path)
    async with Server(OK, answer, b"", b"").at(path) as server:
        await place.ask(GET, SOMEBODY)
        told: list[bool] = []
        with pytest.raises(CutOffError), anyio.fail_after(5):
            await place.act(POST, SOMEBODY, lambda: told.append(True))
        assert told == [True]
        assert sum(request.startswith(b"POST") for request in server.heard) == 1
        await place.leave(SOMEBODY)


async def test_no_question_overtakes_what_was_broken_off(path: Path) -> None:
    """The other end may read from the connection that stands first, and tell of a time before."""
    place = Place(path)
    async with Server().at(path) as server:
        await place.ask(GET, SOMEBODY)
        server.hold = anyio.Event()
        with anyio.move_on_after(0.05):
            await place.act(POST, SOMEBODY)
        server.hold.set()
        await place.ask(GET, SOMEBODY)
        assert server.connections == 3
        await place.leave(SOMEBODY)


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(path: Path) -> None:
    place = Place(path)
    long = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"40\r\n" + b"x" * 64 + b"\r\n"
    async with leaving_nothing(), Server(long + b"40\r\n" + b"x" * 64 + b"\r\n").at(path) as server:
        with pytest.raises(TooLongError):
            await place.ask(GET, SOMEBODY)
        await server.is_left()


async def test_connections_are_bounded_open_and_kept(path: Path) -> None:
    place = Place(path)
    async with Server().at(path) as server, anyio.create_task_group() as tasks:
        server.hold = anyio.Event()
        for _ in range(3 * MOST_QUESTIONS):
            tasks.start_soon(place.ask, GET, SOMEBODY)
        while len(server.heard) < MOST_QUESTIONS:
            await anyio.sleep(0.001)
        await anyio.wait_all_tasks_blocked()
        assert server.open == MOST_QUESTIONS
        server.hold.set()
        while len(server.heard) < 3 * MOST_QUESTIONS or server.open > MOST_KEPT:
            await anyio.sleep(0.001)
        await place.leave(SOMEBODY)


async def test_who_leaves_last_ends_the_connections(path: Path) -> None:
    place, other = place_at(path), object()
    assert place_at(path) is place
    async with Server().at(path) as server:
        await place.ask(GET, SOMEBODY)
        await place.ask(GET, other)
        await place.leave(SOMEBODY)
        await place.ask(GET, other)
        assert (server.connections, server.open) == (1, 1)
        await place.leave(other)
        await server.is_left()


class Counted(Way):
    """A way whose passages take a while to be closed, and which ends under whoever still uses it when all left."""

    user = None

    def __init__(self) -> None:
        self.members: set[object] = set()
        self.closing = anyio.Event()
        self.close = anyio.Event()
        self.ended = 0
        self.awake: Callable[[], None] = lambda: None

    async def open(self, socket: Path, member: object, *, lasting: bool = False) -> Passage:  # noqa: ARG002
        self.members.add(member)
        return Slow(socket, self)

    async def leave(self, member: object) -> None:
        self.members.discard(member)
        self.ended += not self.members


class Slow(Passage):
    lost = None

    def __init__(self, path: Path, way: Counted) -> None:
        self._path, self._way = path, way

    @property
    def path(self) -> Path:
        return self._path

    def rest(self) -> None:
        pass

    async def wake(self) -> None:
        self._way.awake()

    async def close(self) -> None:
        self._way.closing.set()
        await self._way.close.wait()


async def test_who_comes_while_the_last_one_leaves_keeps_the_way(path: Path) -> None:
    """An idle service is given up, and another one on that machine is named just then."""
    way = Counted()
    place, other = Place(path, way), object()
    async with leaving_nothing(), Server().at(path) as server, anyio.create_task_group() as tasks:
        await place.ask(GET, SOMEBODY)
        tasks.start_soon(place.leave, SOMEBODY)
        await way.closing.wait()
        await place.ask(GET, other)
        way.close.set()
        await anyio.wait_all_tasks_blocked()
        assert (way.ended, way.members) == (0, {place})
        await place.ask(GET, other)
        assert server.connections == 2  # and its connection is kept
        await place.leave(other)
        assert way.ended == 1


async def test_who_leaves_while_connections_are_ended_in_time_breaks_nothing_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "KEPT_SECONDS", 0.01)
    way = Counted()
    place = Place(path, way)
    async with leaving_nothing(), Server().at(path), anyio.create_task_group() as tasks:
        await place.ask(GET, SOMEBODY)
        await way.closing.wait()
        tasks.start_soon(place.leave, SOMEBODY)
        await anyio.wait_all_tasks_blocked()
        assert way.ended == 0
        way.close.set()
    assert way.ended == 1


async def test_what_is_said_while_its_way_wakes_is_no_answer(path: Path) -> None:
    """A connection waits for its place among the calls of a machine, and the other end says something meanwhile."""
    way = Counted()
    way.close.set()
    place = Place(path, way)
    async with Server().at(path) as server:
        await place.ask(GET, SOMEBODY)
        way.awake = lambda: server.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale")
        assert (await place.ask(GET, SOMEBODY)).body == b"ok"
        assert (len(server.heard), server.connections) == (2, 2)
        await place.leave(SOMEBODY)


async def test_a_connection_is_not_kept_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "KEPT_SECONDS", 0.05)
    place = Place(path)
    async with leaving_nothing(), Server().at(path) as server:
        await place.ask(GET, SOMEBODY)
        await server.is_left()


def test_where_the_event_loop_ends_no_connection_stays_open(path: Path) -> None:
    place = Place(path)

    async def ask() -> None:
        async with Server().at(path):
            await place.ask(GET, SOMEBODY)

    async def count() -> int:
        return (await in_quiet()).sockets

    before = anyio.run(count)
    for _ in range(2):
        anyio.run(ask)
    assert anyio.run(count) == before


async def test_nobody_listens(path: Path) -> None:
    with pytest.raises(NotConnectedError) as caught:
        await Place(path).ask(GET, SOMEBODY)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_a_queue_that_is_full_is_waited_at(path: Path) -> None:
    place = Place(path)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        with anyio.move_on_after(0.1) as scope:
            await place.ask(GET, SOMEBODY)
        assert scope.cancelled_caught
    await place.leave(SOMEBODY)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_of_this_machine(host: str) -> None:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            async for _ in stream:
                await stream.send(OK)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        place = Place((host, listener.extra(anyio.abc.SocketAttribute.local_port)))  # noqa: S610
        for _ in range(2):
            assert (await place.ask(GET, SOMEBODY)).body == b"ok"
        await place.leave(SOMEBODY)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["ask", "act"])
@pytest.mark.parametrize("kept", [False, True])
async def test_cancelled_at_every_await_nothing_is_left(path: Path, kind: str, kept: bool) -> None:
    async with Server().at(path) as server:
        at, cut = 0, True
        before = await in_quiet()
        while cut:
            at += 1
            place = Place(path)
            if kept:
                await place.ask(GET, SOMEBODY)
            cut = await cancelled_at(at, place.ask(GET, SOMEBODY) if kind == "ask" else place.act(POST, SOMEBODY))
            await place.leave(SOMEBODY)
            await server.is_left()
            await nothing_more_than(before)
        assert at > 1

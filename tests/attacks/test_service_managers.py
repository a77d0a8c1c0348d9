"""Mallory is the service manager, or stands in its place: what it answers over a kept connection is hers to choose.

The story: behind an answer comes one more, which the next question would take for its own; an answer never comes, only
what may stand before it, so quickly that nobody else has a turn; a head, or what frames a body, has no end.
"""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from guideway.interpreter.drivers.http import CutOffError, Place, Request, TooLongError

pytestmark = pytest.mark.anyio

MEMBER = object()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def hers(*first: bytes, then: bytes = b"", seconds: float = 3.0) -> Iterator[Place]:
    """Answer each request on a connection with the next of ``first``, then say ``then`` over and over."""
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder, "s")
        listener.bind(str(path))
        listener.listen()

        def answer(stream: socket.socket) -> None:
            with stream, suppress(OSError):
                for said in first:
                    if not stream.recv(65_536):
                        return
                    stream.sendall(said)
                end = time.monotonic() + seconds
                while then and time.monotonic() < end:
                    stream.sendall(then)
                stream.recv(65_536)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        try:
            yield Place(path)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


@pytest.mark.parametrize(
    "first",
    [
        OK + EVIL,
        OK + EVIL[:20],
        b"HTTP/1.1 204 No Content\r\n\r\n" + EVIL,
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 42\r\n\r\n" + EVIL,
        CHUNKED + b"2\r\nok\r\n0\r\n\r\n" + EVIL,
        CHUNKED + b"2\r\nok\r\n0\r\nTrailer: x\r\n\r\n" + EVIL,
        CONTINUE + OK + CONTINUE + EVIL,
        OK + b"\r\n" + EVIL,
    ],
)
async def test_no_answer_is_that_to_the_next_question(first: bytes) -> None:
    """She answers twice at once: what is asked next, of another service perhaps, gets an answer of its own."""
    with hers(first, OK, OK) as place:
        await place.ask(Request("GET", "/one", {}, 100), MEMBER)
        for _ in range(3):
            assert b"evil" not in (await place.ask(Request("GET", "/two", {}, 100), MEMBER)).body
        await place.leave(MEMBER)


@pytest.mark.parametrize("kind", ["ask", "act"])
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", CONTINUE * 500),
        (b"", b"HTTP/1.1 102 Processing\r\nA: b\r\n\r\n" * 500),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 500),
        (CHUNKED, (b"1;" + b"x" * 15_000 + b"\r\nx\r\n")),
        (CHUNKED + b"0\r\n", b"A: b\r\n" * 500),
        (CHUNKED, b"1\r\nx\r\n" * 500),
    ],
    ids=["100", "102", "head", "chunk extensions", "trailers", "chunks of a byte"],
)
async def test_what_has_no_end_is_not_read_to_it_and_leaves_others_their_turn(
    kind: str, first: bytes, then: bytes
) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    request = Request("GET" if kind == "ask" else "POST", "/", {}, 50_000)
    with hers(first, then=then) as place:
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            with anyio.fail_after(2), pytest.raises((TooLongError, CutOffError)):
                await getattr(place, kind)(request, MEMBER)
            tasks.cancel_scope.cancel()
        assert time.monotonic() - began < 2
        assert turns > 0
        await place.leave(MEMBER)


async def test_an_answer_that_drips_ends_with_the_time_of_who_waits() -> None:
    with hers(OK[:5], then=b"") as place:
        began = time.monotonic()
        with anyio.move_on_after(0.2) as scope:
            await place.ask(Request("GET", "/", {}, 100), MEMBER)
        assert scope.cancelled_caught
        assert time.monotonic() - began < 2
        await place.leave(MEMBER)

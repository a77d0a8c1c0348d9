"""uvicorn as a part of a program: it trusts no header, leaves signals alone, and says when it listens.

It bounds what a connection may hold before it has asked for anything, how many there are, and how long an answer waits
to be read. What peers send wrong it answers and does not log: whoever reaches the port would write the log.
"""

import asyncio
import logging
import resource
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal, cast

import anyio
import h11
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from guideway.server.waiting_connections import Handshake, Waiting, make_room

HEAD_SECONDS: Final = 10.0
"""Seconds that a connection has to bring the head of a request, and what is left of the one that was answered."""

IDLE_SECONDS: Final = 5
"""Seconds that a connection may ask for nothing after an answer."""

WRITE_SECONDS: Final = 30.0
"""Seconds in which a client takes all of an answer that waits to be read, or ``LEAST_READ`` of it."""

LEAST_READ: Final = 65_536

MOST_CONNECTIONS: Final = 4_000
"""Connections at a time, TLS agreed on or not; fewer where the process may not open so many files."""

_MOST_FILES: Final = 65_536


class HttpServer(uvicorn.Server):
    """One server, on a socket that is bound already; ``should_exit`` ends it, ``force_exit`` without any wait.

    ``tls`` None is plain HTTP.
    """

    def __init__(self, app: ASGIApp, *, lifespan: Literal["on", "off"], tls: ssl.SSLContext | None = None) -> None:
        logging.getLogger("uvicorn.error").addFilter(_of_peers)  # the same one is added once
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(
                    "type[asyncio.Protocol]", partial(_begin, tls)
                ),  # httptools keeps white space at the end of header values (RFC 9110, section 5.5)
                ws="none",
                lifespan=lifespan,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=1,  # who waits for calls has done so by then
            )
        )
        self._listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def tell_when_listening(self, url: str, task_status: TaskStatus[str]) -> None:
        """Give a task status the URL once it is listened on."""
        await self._listening.wait()
        task_status.started(url)


class Http(H11Protocol):
    """One connection. It is closed where no request is being answered on it and none becomes whole in time, and where
    an answer is not read.

    uvicorn itself waits for a head without end, for the rest of a body whose request was answered before it came, and
    for an answer to be read. Where there are too many connections, one that waits for a head makes room for a new one.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.overdue: asyncio.TimerHandle | None = None
        self.address = ""
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        """Wait for a request; turn the connection away where there are too many."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # to be told of whatever is not read at once
        self.address = self.client[0] if self.client else ""
        self.overdue = self.loop.call_later(HEAD_SECONDS, transport.abort)
        if len(self.connections) > most_connections():
            make_room(cast("set[Waiting]", self.connections), self)

    def data_received(self, data: bytes) -> None:
        """Read on, and wait for the rest where this was not a whole head."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]  # None at first
            self._stop_waiting()
        elif self.overdue is None and not self.transport.is_closing():
            self.overdue = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on: it has read all there was."""
        self._stop_watching()
        super().resume_writing()

    def cut(self) -> None:
        """End the connection without a word."""
        self._stop_waiting()  # or it would be chosen again before it is gone
        self.transport.abort()

    def _watch(self) -> None:
        self._stop_watching()
        self._unread = self.loop.call_later(WRITE_SECONDS, self._is_read, self.transport.get_write_buffer_size())

    def _is_read(self, before: int) -> None:
        """Reset the connection where its client has read next to nothing of what was left before.

        Closed in any other way, the system would go on offering what it has of the answer, for minutes.
        """
        if before - self.transport.get_write_buffer_size() >= LEAST_READ:
            self._watch()
            return
        ours = self.transport.get_extra_info("socket")
        if ours is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.cut()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; where another answer has begun already, only close. Its own request is over."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True  # or it would be answered where no answer can be sent
            self.cycle.message_event.set()

    def _stop_waiting(self) -> None:
        if self.overdue is not None:
            self.overdue.cancel()
            self.overdue = None


def _begin(tls: ssl.SSLContext | None, *, server_state: ServerState, **more: Any) -> Http | Handshake:
    """Return what speaks first on a new connection."""
    http = Http(server_state=server_state, **more)
    if tls is None:
        return http
    connections = cast("set[Waiting]", server_state.connections)
    return Handshake(tls, http, connections=connections, most=most_connections(), seconds=HEAD_SECONDS)


def raise_files() -> None:
    """Let this process open as many files as it may, within reason: systems begin with few, for programs of old."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if most == resource.RLIM_INFINITY else min(_MOST_FILES, most)
    if files != resource.RLIM_INFINITY and files < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def most_connections() -> int:
    """Return how many connections there may be: some files are needed for the work itself."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files * 3 // 4)


def _of_peers(record: logging.LogRecord) -> bool:
    """Return whether a record may be logged: uvicorn's warnings about a connection are about what a peer sent."""
    return not (record.module == "h11_impl" and record.levelno == logging.WARNING)

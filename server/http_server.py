"""uvicorn as a part of a program: it trusts no header, leaves signals alone, and says when it listens.

It bounds what a connection may hold before it has asked for anything, and how many there are. What peers send wrong it
answers and does not log: whoever reaches the port would write the log.
"""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

import anyio
import h11
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_SECONDS: Final = 10.0
"""Seconds that a connection has to bring the head of a request, and what is left of the one that was answered."""

MOST_CONNECTIONS: Final = 2_000
"""Connections at a time; fewer where the process may not open so many files."""


class HttpServer(uvicorn.Server):
    """One server, on a socket that is bound already; ``should_exit`` ends it, ``force_exit`` without any wait.

    ``tls`` None is plain HTTP.
    """

    def __init__(self, app: ASGIApp, *, lifespan: Literal["on", "off"], tls: ssl.SSLContext | None = None) -> None:
        logging.getLogger("uvicorn.error").addFilter(_of_peers)  # the same one is added once
        super().__init__(
            uvicorn.Config(
                app,
                http=Http,  # httptools keeps white space at the end of header values (RFC 9110, section 5.5)
                ws="none",
                lifespan=lifespan,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_context_factory=(lambda *_: tls) if tls else None,
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
    """One connection. It is closed where no request is being answered on it and none becomes whole in time.

    uvicorn itself waits for a head without end, and for the rest of a body whose request was answered before it came.
    Where there are too many connections, the one that has waited longest for a head makes room for a new one.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        """Wait for a request; turn the connection away where there are too many."""
        super().connection_made(transport)
        self._overdue = self.loop.call_later(HEAD_SECONDS, transport.abort)
        if len(self.connections) > most_connections():
            self._longest_waiting().transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, and wait for the rest where this was not a whole head."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]  # None at first
            self._stop_waiting()
        elif self._overdue is None and not self.transport.is_closing():
            self._overdue = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

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
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _longest_waiting(self) -> "Http":
        waiting = [each for each in self.connections if isinstance(each, Http) and each._overdue]  # noqa: SLF001
        return min(waiting, key=Http._due, default=self)

    def _due(self) -> float:
        return self._overdue.when() if self._overdue else float("inf")


def most_connections() -> int:
    """Return how many connections there may be: some files are needed for the work itself."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files * 3 // 4)


def _of_peers(record: logging.LogRecord) -> bool:
    """Return whether a record may be logged: uvicorn's warnings about a connection are about what a peer sent."""
    return not (record.module == "h11_impl" and record.levelno == logging.WARNING)

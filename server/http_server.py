"""uvicorn as a part of a program: it logs nothing, trusts no header, leaves signals alone, and says when it listens."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp


class HttpServer(uvicorn.Server):
    """One server, on a socket that is bound already; ``should_exit`` ends it. ``tls`` None is plain HTTP."""

    def __init__(self, app: ASGIApp, *, lifespan: Literal["on", "off"], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",  # httptools keeps white space at the end of header values (RFC 9110, section 5.5)
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

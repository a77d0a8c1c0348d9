"""Where metrics are served: on a listener of their own, which is never the port that callers reach."""

import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio import to_thread
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from guideway.interpreter.records import Records, StoreUnavailable
from guideway.interpreter.store import Store
from guideway.server.host_guard import HostGuard
from guideway.server.http_server import HttpServer
from guideway.server.listen import authorities, listen
from guideway.server.section import is_loopback
from guideway.server.telemetry.metrics import Metrics
from guideway.server.telemetry_sections import MetricsSection

PATH: Final = "/metrics"

_SAMPLE_SECONDS: Final = 15.0
"""Seconds between two looks for what only the store knows: scrapes cost it nothing, however many there are."""

_log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def serving(metrics: Metrics, section: MetricsSection, records: Records | None) -> AsyncIterator[str]:
    """Serve metrics, and give their URL. Raises ``OSError`` where the address cannot be bound."""
    with listen(section.host, section.port) as listener:
        server = HttpServer(metrics_app(metrics, listener), lifespan="off")
        tasks = await anyio.create_task_group().__aenter__()

        async def serve() -> None:
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])

        try:
            tasks.start_soon(serve)
            url = await tasks.start(server.tell_when_listening, _url(listener))
            if isinstance(records, Store):
                tasks.start_soon(_sample, metrics, records)
            yield url
        finally:
            server.should_exit = True
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)  # what went wrong meanwhile it would wrap


def metrics_app(metrics: Metrics, listener: socket.socket) -> HostGuard | Starlette:
    """Return the application. On loopback it answers no other name: a page in a browser here could ask by its own."""

    async def expose(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        text = await to_thread.run_sync(encode, metrics.registry)  # milliseconds, for which no call should wait
        return Response(text, headers={"Content-Type": kind, "Cache-Control": "no-store"})

    app = Starlette(routes=[Route(PATH, expose, methods=["GET"])])
    host, port = listener.getsockname()[:2]
    return HostGuard(app, hosts=list(authorities(host, port)), origins=[]) if is_loopback(host) else app


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{next(authorities(host, port))}{PATH}"


async def _sample(metrics: Metrics, records: Store) -> None:
    while True:
        try:
            metrics.open_tickets(await records.open_tickets(time.time()))
        except StoreUnavailable as error:
            metrics.open_tickets(None)
            _log.debug("open tickets cannot be counted: %s", error)
        await anyio.sleep(_SAMPLE_SECONDS)

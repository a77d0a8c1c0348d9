"""The transports: Streamable HTTP and stdio. Who is asking is settled elsewhere; nothing here decides it.

HTTP serves both protocol eras at one path, and each caller's grammar at another. A request goes through ``HostGuard``,
then, where tokens are asked for, through ``oauth.gate``; without them HTTP is for loopback and nothing else.
"""

import logging
import signal
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskStatus
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.interpreter.drivers.base import BRING_BACK_SECONDS
from guideway.server.admission import Admission
from guideway.server.approvals.paths import API, PAGE
from guideway.server.approvals.routes import approval_routes
from guideway.server.calls import Calls
from guideway.server.grammar_route import PATH as GRAMMAR
from guideway.server.grammar_route import grammar_route
from guideway.server.health import PATHS as HEALTH
from guideway.server.health import Health, Probes
from guideway.server.host_guard import HostGuard
from guideway.server.http_server import HttpServer
from guideway.server.last_signal import end_at_next_signal
from guideway.server.listen import Scheme, authorities, listen, spellings
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller
from guideway.server.oauth.dpop import shared_by
from guideway.server.oauth.gate import Gate
from guideway.server.oauth.metadata import metadata_paths, metadata_routes
from guideway.server.proxies import Peers
from guideway.server.recorded import Recorded, recording_answers
from guideway.server.request_body import RequestBodies, most_bytes
from guideway.server.section import is_loopback
from guideway.server.sections import ENDPOINT, Network
from guideway.server.sessions import IDLE_SECONDS, Sessions
from guideway.server.stdio import MOST_BYTES, Input, standard_input
from guideway.server.strangers import Strangers
from guideway.server.tls import Tls, TlsError
from guideway.server.tool import ToolServer
from guideway.server.unanswered import Unanswered

_log: Final = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""Seconds that calls have to end when the server stops, where nothing else is said."""

#: Seconds that a cancelled call has to end and to be answered: the drivers' own bound, and a little.
_AFTER_CANCELLATION: Final = BRING_BACK_SECONDS + 3


def http_app(
    server: ToolServer,
    *,
    host: str,
    port: int,
    scheme: Scheme = "http",
    url: str | None = None,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    access: Access | None = None,
    health: Health | None = None,
) -> Starlette:
    """Return the HTTP application of a server that is reached at ``host`` and ``port``, and by clients at ``url``.

    A request whose Host header is not one of these, or of ``allowed_hosts``, is answered 421. A request with an Origin
    header is answered 403 unless it is of the same address or one of ``allowed_origins``. Then, with ``access``, a
    request without a good token is answered 401; the caller whom ``server`` asks for is then ``oauth.caller``'s.
    ``health`` is asked by anybody, by any address.
    """
    hosts = list(authorities(host, port, scheme))
    origins = [f"{scheme}://{authority}" for authority in hosts]
    if url is not None:
        known = list(spellings(url))
        hosts += known
        origins += [f"{urlsplit(url).scheme}://{authority}" for authority in known]
    routes, public = [grammar_route(server.publisher)], frozenset[str]()
    routes += approval_routes(server.desk, access, caller)
    if access is not None:
        routes += metadata_routes(access)
        public = metadata_paths(access)
        if access.page is not None:
            server.show_tickets_at(access.url(PAGE))
    most = most_bytes(server.limits.bytes)
    app = server.streamable_http_app(
        streamable_http_path=ENDPOINT,
        max_request_body_size=most,  # its own is as much for any program
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=None,  # ``Sessions`` counts them, by caller
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # ``HostGuard`` does it
        custom_starlette_routes=routes,
    )
    app.router.redirect_slashes = False  # to where a proxy in front is not, and over plain HTTP
    app.add_middleware(Sessions, watch=server.doors)
    app.add_middleware(Admission, load=server.load, tokens=access is not None, refusals=server.refusals)
    if access is not None:
        unguarded = frozenset({*public, PAGE, f"{PAGE}/"})  # the page has sessions of its own
        app.add_middleware(
            Gate,
            access=access,
            public=unguarded,
            guarded={
                ENDPOINT: PROGRAM_SCOPES,
                GRAMMAR: PROGRAM_SCOPES,
                API: frozenset({Scope.APPROVE}),
                f"{API}/": frozenset({Scope.APPROVE}),
            },
            required_scopes=server.required_scopes,
            refusals=server.refusals,
            record_challenged=server.record_challenged,
            watch=server.doors,
            proofs=shared_by(server.records),
        )
        app.add_middleware(Strangers, load=server.load, public=unguarded, refusals=server.refusals)
    # What is added last is asked first.
    app.add_middleware(RequestBodies, most=most)
    if health is not None:
        app.add_middleware(Probes, health=health)
    app.add_middleware(
        HostGuard,
        hosts=[*hosts, *allowed_hosts],
        origins=[*origins, *allowed_origins],
        public=public | HEALTH,
        refusals=server.refusals,
    )
    return app


async def serve_http(
    server: ToolServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    access: Callable[[str], AbstractAsyncContextManager[Access]] | None = None,
    tls: Tls | None = None,
    proxies: Iterable[Network] = (),
    grace: float = GRACE_SECONDS,
    drain: float = 0.0,
    signals: bool = True,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until SIGINT or SIGTERM comes, or this task is cancelled; then stop in good order.

    ``port`` 0 takes a free one. The task status is given the URL that is listened on. ``url`` is the endpoint's as
    clients know it, where that is another. ``access`` opens the way in for tokens for that resource. When it is told
    to stop it goes on for ``drain`` seconds, in which it is not ready, so that nobody is sent here any more. Then new
    calls are turned away; those that are running have ``grace`` seconds to end, then they are cancelled, and their
    clients are given what they did until then. A second signal cancels them at once. A cancelled restart is
    waited for while it brings back what it stopped; a third signal ends the process at once. ``signals`` False
    leaves signals alone, for a server inside another program. With ``tls`` it speaks nothing else, and SIGHUP has the
    certificate read again. ``proxies`` are whose forwarded headers are believed.

    Raises ``ValueError`` for an address beyond loopback without ``access``, ``OSError`` where it cannot be bound.
    """
    if access is None and not is_loopback(host):
        raise ValueError(f"`{host}` is not loopback, and nobody is asked for a token")
    with listen(host, port) as listener:
        port = listener.getsockname()[1]
        scheme: Scheme = "https" if tls else "http"
        bound = f"{scheme}://{next(authorities(host, port, scheme))}{ENDPOINT}"
        known = url or bound
        async with Health(server.records) as health, access(known) if access else nullcontext() as let_in:
            app = http_app(
                server,
                host=host,
                port=port,
                scheme=scheme,
                url=url,
                allowed_hosts=allowed_hosts,
                allowed_origins=allowed_origins,
                access=let_in,
                health=health,
            )
            asked: Scheme = "https" if urlsplit(known).scheme == "https" else "http"
            calls = Calls(Peers(app, proxies=proxies, listens=scheme, asked=asked, public=HEALTH))
            recorded = Recorded(calls, refusals=server.refusals, public=HEALTH)
            health.stopping = lambda: server.stopping
            http = HttpServer(recorded, lifespan="on", tls=tls.context if tls else None)
            server.begin()
            stop = _Stop(grace, drain)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end, http, server, calls, stop)
                tasks.start_soon(http.tell_when_listening, bound, task_status)
                if signals:
                    tasks.start_soon(_stop_at_signals, stop)
                    if tls:
                        tasks.start_soon(_reload_at_sighup, tls)
                with anyio.CancelScope(shield=True):
                    await http.serve(sockets=[listener])
                tasks.cancel_scope.cancel()


class _Stop:
    """What the signals ask for, more of it with the second one: to stop, and not to wait for calls.

    ``drain`` and ``grace`` are what is waited for in between, in seconds.
    """

    def __init__(self, grace: float, drain: float = 0.0) -> None:
        self.grace, self.drain = grace, drain
        self.asked = anyio.Event()
        self.at_once = anyio.Event()


async def _end(http: HttpServer, server: ToolServer, calls: Calls, stop: "_Stop") -> None:
    """End the server when it is told to stop, or when this task is cancelled."""
    try:
        await stop.asked.wait()
    finally:
        with anyio.CancelScope(shield=True):
            server.stop()
            with anyio.move_on_after(stop.drain):
                await stop.at_once.wait()
            calls.turn_away()
            server.turn_away()
            server.end_waits()  # each has its answer at once, and its ticket lives on
            with anyio.move_on_after(stop.grace):
                await calls.drain(stop.grace, stop.at_once)
                await server.runs.drain(stop.grace, stop.at_once)  # also those whose clients have gone
            with anyio.move_on_after(_AFTER_CANCELLATION):
                while calls.running or len(server.runs):
                    server.cancel_calls()  # again: a request that was let in may only now have become a call
                    await (calls if calls.running else server.runs).drain(0.1, anyio.Event())
            calls.cut()
            server.runs.tell()
            server.load.tell()
        http.should_exit = True


async def _stop_at_signals(stop: _Stop) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        await anext(received)
        stop.asked.set()
        await anext(received)
        stop.at_once.set()
    end_at_next_signal()


async def _reload_at_sighup(tls: Tls) -> None:
    with anyio.open_signal_receiver(signal.SIGHUP) as received:
        async for _ in received:
            try:
                tls.reload()
            except TlsError as error:
                _log.error("the certificate is still the old one: %s", error)


async def serve_stdio(server: ToolServer, *, grace: float = GRACE_SECONDS) -> None:
    """Serve standard input and output until the input ends, or SIGINT or SIGTERM comes.

    Where the input ends, calls that are running are cancelled: nobody is left to read their results. Where a signal
    comes, they have ``grace`` seconds, then they are cancelled and answered, as over HTTP.
    """
    stop, unanswered = _Stop(grace), Unanswered(recording_answers(server.refusals, server.caller))

    def too_long() -> None:
        server.refusals.note_caller(server.caller(), "too_long", f"a message has more than {MOST_BYTES} bytes")

    with standard_input(too_long) as lines:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_at_signals, stop)
            tasks.start_soon(_end_stdio, server, lines, unanswered, stop)
            # The SDK asks for a file of its own kind, and does nothing with it but go through its lines.
            try:
                async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
                    options = server.create_initialization_options()
                    await server.run(unanswered.reading(read), unanswered.writing(write), options)
            except* BrokenPipeError:
                pass  # the client has closed its end, and is served no more
            tasks.cancel_scope.cancel()
    if stop.asked.is_set():
        server.runs.tell()
        server.load.tell()


async def _end_stdio(server: ToolServer, lines: Input, unanswered: Unanswered, stop: _Stop) -> None:
    """Let the input end once what was asked is answered, after a signal."""
    await stop.asked.wait()
    server.stop()
    server.turn_away()
    server.end_waits()
    await unanswered.drain(stop.grace, stop.at_once)
    with anyio.move_on_after(_AFTER_CANCELLATION):
        while len(unanswered):
            server.cancel_calls()  # again: what was read may only now have become a call
            await unanswered.drain(0.1, anyio.Event())
    lines.end()

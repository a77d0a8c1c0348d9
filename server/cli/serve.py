"""``guideway serve``: the tool for MCP clients, over standard input and output or over HTTP."""

import argparse
import datetime
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, get_args

import anyio

from guideway.dsl.scopes import scope_list
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.server.app import serve_http, serve_stdio
from guideway.server.approvals.paths import PAGE
from guideway.server.cli import watching
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import complaint, explain_nobody, read_caller, read_config, read_tls, require_audit
from guideway.server.cli.console import Console, clean, write_json
from guideway.server.cli.development import tokens_let_in
from guideway.server.cli.logs import log_from, teller
from guideway.server.config import Config, exposure
from guideway.server.config_errors import ConfigError
from guideway.server.development_issuer.sign_in import new_code
from guideway.server.door_watch import DoorWatch
from guideway.server.http_server import raise_files
from guideway.server.load import Load
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller as caller_by_token
from guideway.server.request_state import configured_keys, keys_note
from guideway.server.section import is_loopback
from guideway.server.sections import LogFormat, LogLevel
from guideway.server.tool import ToolServer, build_server
from guideway.server.upkeep import Upkeep
from guideway.server.webhooks.configured import courier_of
from guideway.server.webhooks.courier import Courier

_Error = TypeVar("_Error", bound=BaseException)


def _arguments(parser: argparse.ArgumentParser) -> None:
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument("--stdio", action="store_true", help="serve standard input and output")
    transport.add_argument(
        "--http",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="serve Streamable HTTP on an address; without one, where [server] says; port 0 takes a free one",
    )
    parser.add_argument(
        "--log-level",
        choices=get_args(LogLevel),
        metavar="LEVEL",
        help=f"what is logged to standard error: {', '.join(get_args(LogLevel))}; without it, what [server] says",
    )
    parser.add_argument(
        "--log-format",
        choices=get_args(LogFormat),
        metavar="FORMAT",
        help="how: text, or json, one object a line; without it, as [server] says",
    )
    add_configuration(parser)


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    require_audit(config)
    log_format = options.log_format or config.server.log_format
    log_from(options.log_level or config.server.log_level, log_format)
    # Standard output belongs to the protocol or to --json, so everything that people read goes to standard error.
    errors = Console(options.color, error=True)
    say = teller(errors, log_format, __name__)
    by_token = not options.stdio and config.asks_for_tokens
    who = _Tokens(options, config) if by_token else _Configured(options, config)
    serve: Callable[[ToolServer], Awaitable[None]]
    known: list[str] = []
    if options.stdio:
        if options.json:
            raise Complaint("--json cannot go with --stdio: standard output belongs to the protocol")
        say(f"serving standard input and output {who}")
        serve = partial(serve_stdio, grace=config.server.grace_seconds)
    else:
        host, port = _address(options.http, config)
        raise_files()
        tls = read_tls(config)
        for warning in tls.warnings(datetime.datetime.now(datetime.UTC)) if tls else ():
            say(f"warning: {warning}")

        def tell(url: str) -> None:
            if options.json:
                write_json({"url": url, **who.to_json(config.server.url or url)})
                sys.stdout.flush()
            known.append(config.server.url or url)
            say(f"serving {url} {who}; Ctrl-C stops it")
            if who.page:
                say(f"people approve at {who.page}")
            if who.sign_in:
                say(who.sign_in)
            errors.stream.flush()

        serve = partial(
            _serve_http,
            tell=tell,
            host=host,
            port=port,
            url=config.server.url,
            access=who.access,
            tls=tls,
            proxies=config.server.proxies,
            grace=config.server.grace_seconds,
            drain=config.server.drain_seconds,
        )
    for note in filter(None, (who.note, keys_note(config))):
        say(f"note: {note}")
    errors.stream.flush()
    telemetry = watching.opened(config)
    pipeline = watching.built(config, telemetry)
    server = _server(config, pipeline, who.caller)
    courier = _courier(config, pipeline, known, telemetry.doors if telemetry is not None else None)
    upkeep = Upkeep(pipeline, server, "stdio" if options.stdio else "http")
    anyio.run(_serve, pipeline, server, watching.serving(serve, telemetry, say), courier, upkeep)
    return Exit.OK


def _server(config: Config, pipeline: Pipeline, caller: Callable[[], Principal]) -> ToolServer:
    """Return the server, which asks people as the configuration says."""
    try:
        return build_server(
            pipeline,
            caller,
            forms=config.approvals.form,
            keys=configured_keys(config),
            load=Load(config.limits.load()),
        )
    except ConfigError as error:
        raise complaint(error) from None


def _courier(config: Config, pipeline: Pipeline, known: Sequence[str], doors: DoorWatch | None) -> Courier | None:
    """Return what tells people, None where nobody is to be told. ``known`` gets the endpoint's URL in time."""
    if pipeline.gate.outbox is None:
        return None
    try:
        return courier_of(config, pipeline.gate.outbox, lambda: known[0] if known else config.server.url, doors)
    except ConfigError as error:
        raise complaint(error) from None


class _Configured:
    """Whoever asks is one configured caller."""

    access = None
    page = None
    sign_in = None

    def __init__(self, options: argparse.Namespace, config: Config) -> None:
        self._principal = read_caller(options, config)
        self.note = explain_nobody(config, self._principal)

    def caller(self) -> Principal:
        return self._principal

    def __str__(self) -> str:
        return f"as {self._principal.subject} with {scope_list(self._principal.scopes) or 'no scope'}"

    def to_json(self, _resource: str) -> dict[str, Any]:
        return {"caller": self._principal.subject, "scopes": sorted(self._principal.scopes)}


class _Tokens:
    """Whoever asks shows a token of an issuer that the configuration trusts."""

    note = None

    def __init__(self, options: argparse.Namespace, config: Config) -> None:
        if options.caller is not None:
            raise Complaint("--as cannot go with --http here: the configuration has issuers, so tokens say who asks")
        self._config = config
        self._issuers: list[str] = []
        self.page: str | None = None
        self.sign_in: str | None = None

    @asynccontextmanager
    async def access(self, resource: str) -> AsyncIterator[Access]:
        code = new_code()
        async with tokens_let_in(self._config, resource, sign_in_code=code) as access:
            self._issuers = [section.issuer for section in access.issuers]
            self.page = None if access.page is None else access.url(PAGE)
            if self._config.development_issuer is not None:
                self.sign_in = f"the sign-in code of {self._issuers[-1]} is {code}, until this server stops"
            yield access

    def caller(self) -> Principal:
        return caller_by_token()

    def __str__(self) -> str:
        url = self._config.server.url
        return f"{f'as {url} ' if url else ''}to those with a token of {', '.join(self._issuers)}"

    def to_json(self, resource: str) -> dict[str, Any]:
        return {"resource": resource, "issuers": self._issuers, "approvals": self.page}


async def _serve(
    pipeline: Pipeline,
    server: ToolServer,
    serve: Callable[[ToolServer], Awaitable[None]],
    courier: Courier | None,
    upkeep: Upkeep,
) -> None:
    complaints: list[Complaint] = []

    async def serve_on() -> None:
        try:
            await serve(server)
        except Complaint as complaint:  # which a task group would wrap
            complaints.append(complaint)
        tasks.cancel_scope.cancel()

    upkeep.began()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upkeep.run)
            if courier is not None:
                tasks.start_soon(partial(courier.run, partial(_expire, pipeline)))
            await serve_on()
    finally:
        upkeep.ended()
        with anyio.CancelScope(shield=True):
            await pipeline.close()
    if complaints:
        raise complaints[0]


async def _expire(pipeline: Pipeline) -> None:
    """Look at the tickets: those whose time is over expire, whoever looks."""
    if pipeline.gate.records is not None:
        await pipeline.gate.records.tickets(None, time.time(), most=1)


async def _serve_http(
    server: ToolServer, *, tell: Callable[[str], None], host: str, port: int, **settings: Any
) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            tell(await tasks.start(partial(serve_http, server, host=host, port=port, **settings)))
    except* Complaint as complaints:
        raise next(_leaves(complaints)) from None
    except* ConfigError as errors:
        raise complaint(next(_leaves(errors))) from None
    except* OSError as errors:
        reason = ", ".join(str(error.args[-1]).lower() for error in _leaves(errors))
        raise Complaint(f"cannot listen on {host}:{port}: {reason}", code="usage") from None


def _leaves(group: BaseExceptionGroup[_Error]) -> Iterator[_Error]:
    """Yield the errors of a group and of the groups in it."""
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)


def _address(text: str, config: Config) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``PORT`` or nothing; what is left out is the configuration's."""
    host, _, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host = host.strip("[]") or config.server.host
    if port and not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
        raise Complaint(f"`{clean(text)}` is not an address", help="for example 127.0.0.1:8765, or 8765")
    if why := exposure(config.server, host, tokens=bool(config.issuers)):
        raise Complaint(f"cannot listen on `{clean(host)}`: {why}")
    if config.development_issuer is not None and not is_loopback(host):
        raise Complaint(f"cannot listen on `{clean(host)}`: [development_issuer] is for loopback only")
    return host, int(port) if port else config.server.port


COMMAND = Command(
    summary="serve the tool to MCP clients",
    description="Serve the tool to MCP clients: over standard input and output to the program that started it,\n"
    "or over HTTP. Where the configuration names issuers, whoever asks over HTTP shows a token.\n"
    "Else whoever asks has the scopes of one configured caller, and HTTP is for this machine.",
    examples=("guideway serve --stdio", "guideway serve --http", "guideway serve --http 127.0.0.1:0 --as reader"),
    exits=(
        (Exit.OK, "the client closed the connection, or SIGINT or SIGTERM came"),
        (Exit.INTERRUPTED, "a third Ctrl-C ended it at once (143 by SIGTERM)"),
    ),
    arguments=_arguments,
    run=_run,
)

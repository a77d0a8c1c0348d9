"""``guideway run --server``: one program on a server, shown as it would be here.

The steps come as progress, a line each, and whole in the report at the end. All of it is the server's text: cleaned.
"""

import argparse
import sys
import time
import uuid
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from guideway import __version__
from guideway.dsl.analysis import analyze
from guideway.dsl.ast import Restart
from guideway.dsl.errors import Code, Refusal
from guideway.dsl.parser import Limits, parse
from guideway.dsl.scopes import PROGRAM_SCOPES, known_scopes
from guideway.dsl.source import Source
from guideway.interpreter.authorizer import require_scopes
from guideway.interpreter.principal import Principal
from guideway.interpreter.report_reader import UnreadableReport, read_report
from guideway.interpreter.results import Report, Step
from guideway.server.cli.command import Complaint, Exit
from guideway.server.cli.console import BOLD, CYAN, DIM, RED, Console, write_json
from guideway.server.cli.files import STDIN, read_program
from guideway.server.cli.logs import show_log
from guideway.server.cli.outcome import exit_code, refused_unread, say_outcome
from guideway.server.cli.pending import WAITING, Commands, Pending, pending_in, say_left, say_on, say_pending
from guideway.server.cli.person import complaint, person, speaking_to
from guideway.server.cli.refusals import say_program_warnings
from guideway.server.cli.steps import StepList
from guideway.server.cli.watched import watch
from guideway.server.idempotency import IDEMPOTENCY_KEY
from guideway.server.render import event_line, in_order, outcome_in, output_lines
from guideway.server.schema import CONFIRMATION, GLASS
from guideway.server.sign_in.auth import SignedIn
from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.errors import ScopesMissingError, ServerError, SignInError, theirs
from guideway.server.sign_in.servers import client, server_url
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.store import standard_store
from guideway.server.tool import TOOL_NAME
from guideway.server.undecided import with_way_out

#: The most that any server can be configured to take. What this one takes it says itself.
_LIMITS: Final = Limits(bytes=1_048_576, nesting=100, commands=10_000)
_LEAST_WAIT: Final = 2.0  # seconds between two calls that wait for a person
_CANCELLED: Final = "the server was told, and has no report for who is gone"


def run_there(options: argparse.Namespace) -> int:
    """Run a program on a server; return the exit code. Raises ``Complaint``."""
    show_log()
    console, errors = Console(options.color), Console(options.color, error=True)
    steps = StepList(console, quiet=options.json)
    commands = Commands(options)

    def end(report: Report, document: dict[str, Any], note: str | None = None) -> int:
        report, document = _in_our_words(report, document, commands)
        if options.json:
            write_json(document | ({"help": note} if note else {}))
        else:
            say_outcome(errors, steps, report, note)
            say_on(errors, pending_in(document), commands)
        return exit_code(report)

    try:
        source = read_program(options.file, most=_LIMITS.bytes)
    except Refusal as refusal:
        refused = refused_unread(refusal)
        return end(refused, refused.to_json())
    if not options.json:
        say_program_warnings(errors, source, _LIMITS)
    call = _Call(source, steps, _Asks(options, commands, errors))
    call.key = options.idempotency_key or (str(uuid.uuid4()) if call.restarts else None)
    try:
        session = Session(server_url(options.server), standard_store(), options.ca_file)
        number = anyio.run(call.make, session, _person(options, errors))
    except ScopesMissingError as error:
        refused = refused_unread(_refusal(source, error))
        return end(refused, refused.to_json(), error.help)
    except SignInError as error:
        raise _broken(call, error, options.server, commands) from None
    if call.report is not None and number is not None and (pending := pending_in(call.document)) is not None:
        if options.json:
            write_json(call.document)
        else:
            say_left(errors, pending, commands)
        return 128 + number
    if call.report is not None:
        return end(call.report, call.document)
    _say_cancelled(options, call, steps, _Asks(options, commands, errors))
    return 128 + (number or 0)


def _in_our_words(report: Report, document: dict[str, Any], commands: Commands) -> tuple[Report, dict[str, Any]]:
    """Return a report with what this shell can do against a freeze, where the server has said what its clients can."""
    told = with_way_out(report, commands.break_glass())
    if told is report or told.refusal is None:
        return report, document
    return told, document | {"refusal": told.refusal.to_json()}


def _say_cancelled(options: argparse.Namespace, call: "_Call", steps: StepList, asks: "_Asks") -> None:
    message, mend = f"cancelled: {_CANCELLED if call.began or call.is_open else 'nothing ran'}", None
    about: dict[str, Any] = {"unknown": call.unknown}
    if unknown := call.unknown:
        message, mend = f"{message}; {_not_known(unknown)}", _how_to_find_out(call, options.server, asks.commands)
        about["idempotency_key"] = call.key
    if options.json:
        write_json({"error": {"code": "cancelled", "message": message, "help": mend, **about}})
    else:
        if mend:
            asks.errors.line(("note: ", CYAN), mend)
            asks.errors.stream.flush()
        steps.line((message, f"{BOLD};{RED}"))


def _broken(call: "_Call", error: SignInError, server: str, commands: Commands) -> Complaint:
    """Return what went wrong, with what that leaves unknown where the program was sent already."""
    code = Exit.FAILED if call.began or call.is_open else Exit.USAGE
    unknown = call.unknown
    if not unknown or not isinstance(error, ServerError):
        return complaint(error, code)
    said = ServerError(f"{error}; {_not_known(unknown)}", _how_to_find_out(call, server, commands))
    return complaint(said, code, unknown=unknown, idempotency_key=call.key)


def _not_known(services: list[str]) -> str:
    return f"whether `{'`, `'.join(services)}` was restarted, and how that ended, is not known"


def _how_to_find_out(call: "_Call", server: str, commands: Commands) -> str:
    """Return the command that fetches what a call came to, and the one that says what it has left of its services.

    Their names have no character that a shell reads.
    """
    asks = " ".join(f'GET_STATUS "{name}"' for name in call.unknown)
    fetch = f"fetch its result, which restarts nothing twice: {commands.fetch(call.key)}; or " if call.key else ""
    return f"{fetch}see what is now: echo '{asks}' | guideway run - --server {theirs(server)}"


def _person(options: argparse.Namespace, errors: Console) -> Person | None:
    """Return who can be asked to sign in: whoever sits at the terminal, where that is one and may be asked."""
    if options.no_input or not errors.stream.isatty():
        return None
    return person(errors, browser=True, pastes=options.file != STDIN and sys.stdin.isatty())


def _refusal(source: Source, error: ScopesMissingError) -> Refusal:
    """Return the refusal of a program that the server turned away for its scopes, with the places that need them.

    Raises ``Complaint`` where the server did not say it of this program.
    """
    caller = Principal("", PROGRAM_SCOPES - known_scopes(error.missing))
    try:
        program = parse(source.text, name=source.name, limits=_LIMITS)
        require_scopes(analyze(program), caller, source, time.time())
    except Refusal as refusal:
        if refusal.code is Code.INSUFFICIENT_SCOPE:
            return refusal
    raise complaint(
        error, Exit.REFUSED, required_scopes=list(error.required), missing_scopes=list(error.missing)
    ) from None


class _Asks(NamedTuple):
    """What somebody asks of a call beside its program, and where they are told how it goes on."""

    options: argparse.Namespace
    commands: Commands
    errors: Console


class _Call:
    """One call of the tool. ``report`` is None where a signal came first; ``document`` is it as the server sent it.

    ``began`` is whether a step was seen, ``is_open`` whether the program was sent, and what it did is not known. With
    ``key``, its idempotency key, it can be made again, and runs once.
    """

    def __init__(self, source: Source, steps: StepList, asks: "_Asks") -> None:
        self.report: Report | None = None
        self.document: dict[str, Any] = {}
        self.began = False
        self._waits = False
        self.is_open = False
        self.key: str | None = None
        self._source = source
        self._steps = steps
        self._asks = asks
        self._shown: list[str] = []

    @property
    def unknown(self) -> list[str]:
        """The services of which it is not known whether the program has restarted them."""
        return self.restarts if self.is_open else []

    @cached_property
    def restarts(self) -> list[str]:
        """The services that the program may restart."""
        try:
            commands = analyze(parse(self._source.text, name=self._source.name, limits=_LIMITS)).targets
        except Refusal:  # the server refuses it, too
            return []
        return sorted(name for command, name in commands if command is Restart)

    async def make(self, session: Session, asked: Person | None) -> int | None:
        """Make the call; return the signal that cancelled it. Raises ``SignInError``."""
        with speaking_to(session.server):
            return await watch(partial(self._make, session, asked), self._steps)

    async def _make(self, session: Session, asked: Person | None) -> None:
        about = types.Implementation(name="guideway", version=__version__)
        async with (
            client(session.server, session.ca_file, SignedIn(session, asked)) as http,
            Client(streamable_http_client(session.server, http_client=http), client_info=about) as mcp,
        ):
            http.event_hooks["request"].append(self._is_sent)
            http.event_hooks["response"].insert(0, self._is_answered)
            await self._call(mcp, session.server, self._asks.options.ticket)
            while self._asks.options.wait and (pending := pending_in(self.document)) is not None:
                await self._wait(mcp, session.server, pending)

    async def _call(self, mcp: Client, server: str, ticket: str | None) -> None:
        """Call the tool once. What it does not say yet, such as a ticket, it is not asked."""
        given = {"program": self._source.text, CONFIRMATION: ticket, GLASS: self._asks.options.break_glass}
        arguments = {name: value for name, value in given.items() if value is not None}
        meta = {} if self.key is None else {"_meta": {IDEMPOTENCY_KEY: self.key}}
        params = types.CallToolRequestParams.model_validate({"name": TOOL_NAME, "arguments": arguments, **meta})
        call = types.CallToolRequest(params=params)
        # Not `call_tool`: it would list the tools, to hold a report against a schema that the server gave itself.
        result = await mcp.session.send_request(call, types.CallToolResult, progress_callback=self._progress)
        self._end(result, server)

    async def _wait(self, mcp: Client, server: str, pending: Pending) -> None:
        """Call again with a ticket: the server answers when a person has decided, or after a while; then again.

        Asking through the protocol would bring nothing more: the address of the page is in the report.
        """
        if not self._waits and not self._asks.options.json:
            say_pending(self._asks.errors, pending, self._asks.commands, waits=True)
        self._waits = True
        self._steps.wait(WAITING, pending.seconds_left)
        began = anyio.current_time()
        await self._call(mcp, server, pending.ticket)
        if pending_in(self.document) is not None:  # a server that is busy does not wait, and is not pressed
            await anyio.sleep(max(0.0, _LEAST_WAIT - (anyio.current_time() - began)))
        else:
            self._steps.wait_no_more()

    async def _is_sent(self, request: httpx2.Request) -> None:
        if request.method == "POST" and b'"tools/call"' in request.content:
            self.is_open = True

    async def _is_answered(self, response: httpx2.Response) -> None:
        if response.status_code in (401, 403, 421, 429):  # it was turned away before anything ran
            self.is_open = False

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG002
        if message is None or (self.report is not None and not self._waits):  # late: the report has it
            return
        if message.startswith(WAITING):  # which is counted down here
            return
        self._steps.wait_no_more()
        self.report, self.document = None, {}  # of a call before, which waited: this one runs
        self.began = True
        outcome = outcome_in(message)
        self._steps.show(message, outcome)
        self._shown.append(message)

    def _end(self, result: types.CallToolResult, server: str) -> None:
        if result.structured_content is None:
            self.is_open = False
            said = " ".join(part.text for part in result.content if isinstance(part, types.TextContent))
            raise ServerError(f"`{server}` ran nothing: {theirs(said)}")
        try:
            self.report = read_report(result.structured_content, self._source)
        except UnreadableReport as error:
            raise ServerError(f"the report of `{server}` cannot be read: {theirs(error)}") from None
        self.document = result.structured_content
        self._show_rest(self.report)

    def _show_rest(self, report: Report) -> None:
        """Show what no progress told: what services said, and steps where the server sends no progress."""
        later: list[Step] = []
        last = self._shown[-1] if self._shown else None
        for event in in_order(report):
            line = event_line(event)
            if line not in self._shown:
                self._steps(event)
            elif isinstance(event, Step) and line == last:
                self._steps.output(event)  # right below its line
            elif isinstance(event, Step):
                later.append(event)
        for step in later:
            if output_lines(step):
                self._steps.line((f"step {step.number} said:", DIM))
                self._steps.output(step)

"""``guideway run``: one program, here or on a server, by the same pipeline and gates."""

import argparse
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio

from guideway import __version__
from guideway.dsl.ast import Restart
from guideway.dsl.errors import Refusal
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source
from guideway.interpreter.approvals import MOST_WORDS, TICKET_ID
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.repeats import KEY
from guideway.interpreter.results import Report, Status
from guideway.interpreter.weighing import Asked
from guideway.server import wiring
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config, require_audit
from guideway.server.cli.console import Console, write_json
from guideway.server.cli.files import read_program
from guideway.server.cli.outcome import exit_code, refused_unread, say_outcome
from guideway.server.cli.pending import WAITING, Commands, Pending, pending_in, say_left, say_on, say_pending
from guideway.server.cli.refusals import say_program_warnings
from guideway.server.cli.steps import StepList
from guideway.server.cli.watched import watch
from guideway.server.config import Config
from guideway.server.render import in_order
from guideway.server.undecided import with_way_out
from guideway.server.waiting import until_decided
from guideway.server.webhooks.configured import deliver_on_leaving


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program; `-` is standard input")
    add_configuration(parser)
    parser.add_argument("--wait", action="store_true", help="where a person must approve first, wait, and then run it")
    parser.add_argument("--ticket", metavar="ID", help="run what a person has approved by this ticket")
    parser.add_argument("--break-glass", metavar="REASON", help="ask a person to let it run in spite of a freeze")
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="run it once, however often this is called: whoever calls again gets the first result",
    )
    parser.add_argument("--server", metavar="URL", help="run it on this server, as whoever signs in there")
    parser.add_argument("--ca-file", metavar="FILE", help="with --server: PEM of authorities to trust too")
    parser.add_argument("--no-input", action="store_true", help="with --server: never ask anybody to sign in")


def _run(options: argparse.Namespace) -> int:
    _check(options)
    if options.server is not None:
        if options.config is not None or options.caller is not None:
            raise Complaint("--server cannot go with --config or --as: the server knows its inventory and who you are")
        from guideway.server.cli.remote import run_there  # noqa: PLC0415  # loads the MCP SDK

        return run_there(options)
    if options.ca_file is not None or options.no_input:
        raise Complaint("--ca-file and --no-input are for --server")
    return _run_here(options)


def _check(options: argparse.Namespace) -> None:
    """Raise ``Complaint`` for a ticket, a key or a reason that cannot be one."""
    if options.ticket is not None and not re.fullmatch(TICKET_ID, options.ticket):
        raise Complaint("--ticket takes the whole id of a ticket", help="24 letters, digits, `-` and `_`")
    if options.idempotency_key is not None and not KEY.fullmatch(options.idempotency_key):
        raise Complaint("--idempotency-key takes 1 to 200 printable characters of ASCII")
    reason = options.break_glass
    if reason is not None and not (reason.strip() and len(reason) <= MOST_WORDS):
        raise Complaint(f"--break-glass takes a reason of at most {MOST_WORDS} characters: a person decides by it")


def _run_here(options: argparse.Namespace) -> int:
    config = read_config(options)
    require_audit(config)
    caller = read_caller(options, config)
    console, errors = Console(options.color), Console(options.color, error=True)
    steps = StepList(console, quiet=options.json)
    pipeline = wiring.build(config)
    leave = partial(deliver_on_leaving, config, pipeline.gate.outbox)
    commands = Commands(options, _approver(config, caller))
    waiting = _Waiting(errors, steps, commands, quiet=options.json) if options.wait else None
    try:
        source = read_program(options.file, most=config.limits.bytes)
        if not options.json:
            say_program_warnings(errors, source, pipeline.limits)
        asked = Asked(
            options.ticket,
            options.break_glass,
            f"guideway {__version__}",
            door="shell",
            idempotency_key=options.idempotency_key,
        )
        report, number = anyio.run(
            partial(_execute, pipeline, source, caller, steps, asked=asked, waiting=waiting, leave=leave)
        )
    except Refusal as refusal:  # the file itself: the pipeline's refusals come in its report
        report, number = refused_unread(refusal), None
    report = with_way_out(report, commands.break_glass())
    if options.json:
        write_json(report.to_json())
    else:
        pending = pending_in(report.to_json())
        if pending is not None and number is not None:
            say_left(errors, pending, commands)
        else:
            say_outcome(errors, steps, report, explain_nobody(config, caller))
            say_on(errors, pending, commands)
    return 128 + number if number else exit_code(report)


def _approver(config: Config, caller: Principal) -> str | None:
    """Return a configured caller who may approve what another one asks for, None where there is none."""
    for name, section in config.callers.items():
        others = config.approvals.own_requests or name != caller.subject
        if Scope.APPROVE in section.scopes and section.tenant == caller.tenant and others:
            return name
    return None


class _Waiting:
    """Waits for a person's decision, and shows that it does."""

    def __init__(self, errors: Console, steps: StepList, commands: Commands, *, quiet: bool) -> None:
        self._errors = errors
        self._steps = steps
        self._commands = commands
        self._quiet = quiet

    async def wait(self, pipeline: Pipeline, needed: NeedsApproval, pending: Pending) -> None:
        """Wait until there is a decision, or no time left for one."""
        records = pipeline.gate.records
        if records is None:
            return
        if not self._quiet:
            say_pending(self._errors, pending, self._commands, waits=True)
        self._steps.wait(WAITING, pending.seconds_left)

        async def tell(words: str) -> None:
            if not self._steps.lives:
                self._steps.line(words)

        await until_decided(records, needed.ticket.id, pending.seconds_left + 1, tell)
        self._steps.wait_no_more()


async def _execute(
    pipeline: Pipeline,
    source: Source,
    caller: Principal,
    steps: StepList,
    *,
    asked: Asked,
    waiting: _Waiting | None,
    leave: Callable[[], Awaitable[None]],
) -> tuple[Report, int | None]:
    """Run a program until it ends or a signal comes; return its report, and the signal that cancelled it.

    Where it needs a person and ``waiting`` is given, it is run once more when they have decided. ``leave`` is called
    at the end where people may have to be told of something.
    """
    reports: list[Report] = []

    async def run_once(asked: Asked) -> Report:
        ended = await pipeline.run(
            source.text, caller, name=source.name, asked=asked, observe=steps, on_cancel=reports.append
        )
        reports.append(ended)
        for event in in_order(ended) if ended.replayed else ():
            steps(event)
        return ended

    async def run() -> None:
        report = await run_once(asked)
        pending = pending_in(report.to_json())
        if waiting is not None and pending is not None and isinstance(report.refusal, NeedsApproval):
            await waiting.wait(pipeline, report.refusal, pending)
            await run_once(replace(asked, ticket=pending.ticket))

    try:
        number = await watch(run, steps)
    finally:
        with anyio.CancelScope(shield=True):
            if any(map(_tells, reports)):
                await leave()
            await pipeline.close()
    report = reports[-1]
    over = report.status is Status.CANCELLED or pending_in(report.to_json()) is not None
    return report, number if over else None


def _tells(report: Report) -> bool:
    """Say whether people may have to be told of a run: only then is the store looked at once more."""
    return isinstance(report.refusal, NeedsApproval) or any(step.command == Restart.keyword for step in report.steps)


COMMAND = Command(
    summary="run a program here, or on a server",
    description="Run a program on this machine's inventory, by the same checks as the server; with --server, on a\n"
    "server and its inventory, as whoever signed in there. Each step is shown as it happens.\n"
    "Where a person must approve first, nothing runs and a ticket is shown: once it is approved, --ticket\n"
    "runs the same program, once. With --wait this command waits for the decision itself.\n"
    "Ctrl-C cancels: a restart under way still asks for the start, which takes at most twelve seconds. A\n"
    "service that does not stop in that time ends up stopped, and the log says so. A second Ctrl-C ends\n"
    "the command at once: a restart may be half done then. While it waits for a person, Ctrl-C leaves the\n"
    "ticket as it is.\n"
    "With --server a program that restarts something has an idempotency key: where the connection breaks,\n"
    "the command is told that fetches the result, and that restarts nothing twice.",
    examples=(
        "guideway run restart.diag",
        "guideway run restart.diag --wait",
        "guideway run --json --as reader look.diag",
        """echo 'GET_STATUS "database"' | guideway run -""",
        "guideway run restart.diag --server https://guideway.example.com/mcp",
    ),
    exits=(
        (Exit.OK, "the program completed, or a CATCH made up for a failure"),
        (Exit.FAILED, "the program failed, or ran out of time; or the connection to the server broke meanwhile"),
        (Exit.REFUSED, "the program was refused: for want of a scope, in a freeze, or by the person who was asked"),
        (Exit.APPROVAL, "a person must approve first, or did not in time; nothing ran"),
        (Exit.INTERRUPTED, "cancelled by Ctrl-C (129 by a closed terminal, 143 by SIGTERM)"),
    ),
    arguments=_arguments,
    run=_run,
)

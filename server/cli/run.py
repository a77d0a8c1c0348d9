"""``guideway run``: one program, here, by the same pipeline and gates as the server's."""

import argparse
import signal
from datetime import UTC, datetime
from typing import Final

import anyio
from anyio.abc import TaskStatus

from guideway.dsl.analysis import analyze
from guideway.dsl.errors import Code, Refusal
from guideway.dsl.parser import Limits, parse
from guideway.dsl.source import Source
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report, Status
from guideway.server import wiring
from guideway.server.cli.command import Command, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config
from guideway.server.cli.console import BOLD, GREEN, RED, Console, write_json
from guideway.server.cli.files import read_program
from guideway.server.cli.refusals import say_refusal, say_warnings
from guideway.server.cli.steps import StepList
from guideway.server.render import summary_line

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program; `-` is standard input")
    add_configuration(parser)


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    caller = read_caller(options, config)
    console, errors = Console(options.color), Console(options.color, error=True)
    steps = StepList(console, quiet=options.json)
    pipeline = wiring.build(config)
    try:
        source = read_program(options.file, most=config.limits.bytes)
        if not options.json:
            _warn(errors, source, pipeline.limits)
        report, number = anyio.run(_execute, pipeline, source, caller, steps)
    except Refusal as refusal:  # the file itself: the pipeline's refusals come in its report
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        report, number = Report("", Status.REFUSED, (), (), None, {}, started, 0.0, refusal), None
    if options.json:
        write_json(report.to_json())
    else:
        if report.refusal is not None:
            say_refusal(errors, report.refusal, explain_nobody(config, caller))
            errors.stream.flush()
        fine = report.status in (Status.COMPLETED, Status.CONTAINED)
        steps.line((summary_line(report), f"{BOLD};{GREEN if fine else RED}"))
    return 128 + number if number else _exit_code(report)


def _warn(errors: Console, source: Source, limits: Limits) -> None:
    try:
        say_warnings(errors, source, analyze(parse(source.text, name=source.name, limits=limits)).warnings)
    except Refusal:  # the pipeline says it, in its report
        return
    errors.stream.flush()


async def _execute(pipeline: Pipeline, source: Source, caller: Principal, steps: StepList) -> tuple[Report, int | None]:
    """Run a program until it ends or a signal comes; return its report, and the signal that cancelled it."""
    reports: list[Report] = []
    received: list[int] = []

    async def cancel_at_signal(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as numbers:
            task_status.started()
            async for number in numbers:
                received.append(number)
                steps.cancelling()
                tasks.cancel_scope.cancel()
                return  # a second signal finds no receiver and ends the process at once

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(cancel_at_signal)
            tasks.start_soon(steps.live)
            reports.append(
                await pipeline.run(source.text, caller, name=source.name, observe=steps, on_cancel=reports.append)
            )
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await pipeline.close()
    (report,) = reports
    return report, received[0] if report.status is Status.CANCELLED else None


def _exit_code(report: Report) -> Exit:
    match report.status:
        case Status.COMPLETED | Status.CONTAINED:
            return Exit.OK
        case Status.REFUSED if report.refusal and report.refusal.code is Code.APPROVAL_REQUIRED:
            return Exit.APPROVAL
        case Status.REFUSED:
            return Exit.REFUSED
        case _:
            return Exit.FAILED


COMMAND = Command(
    summary="run a program here",
    description="Run a program on this machine's inventory, by the same checks as the server. Each step is\n"
    "shown as it happens. Ctrl-C cancels: a restart under way still asks for the start, which takes at\n"
    "most twelve seconds. A service that does not stop in that time ends up stopped, and the log says so.\n"
    "A second Ctrl-C does not wait.",
    examples=(
        "guideway run restart.diag",
        "guideway run --json --as reader look.diag",
        """echo 'GET_STATUS "database"' | guideway run -""",
    ),
    exits=(
        (Exit.OK, "the program completed, or a CATCH made up for a failure"),
        (Exit.FAILED, "the program failed, or ran out of time"),
        (Exit.REFUSED, "the program was refused"),
        (Exit.APPROVAL, "reserved: a person must approve first"),
        (Exit.INTERRUPTED, "cancelled by Ctrl-C (129 by a closed terminal, 143 by SIGTERM)"),
    ),
    arguments=_arguments,
    run=_run,
)

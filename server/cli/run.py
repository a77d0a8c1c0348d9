"""``guideway run``: one program, here or on a server, by the same pipeline and gates."""

import argparse

import anyio

from guideway.dsl.errors import Refusal
from guideway.dsl.source import Source
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report, Status
from guideway.server import wiring
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config
from guideway.server.cli.console import Console, write_json
from guideway.server.cli.files import read_program
from guideway.server.cli.outcome import exit_code, refused_unread, say_outcome
from guideway.server.cli.refusals import say_program_warnings
from guideway.server.cli.steps import StepList
from guideway.server.cli.watched import watch


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program; `-` is standard input")
    add_configuration(parser)
    parser.add_argument("--server", metavar="URL", help="run it on this server, as whoever signs in there")
    parser.add_argument("--ca-file", metavar="FILE", help="with --server: PEM of authorities to trust too")
    parser.add_argument("--no-input", action="store_true", help="with --server: never ask anybody to sign in")


def _run(options: argparse.Namespace) -> int:
    if options.server is not None:
        if options.config is not None or options.caller is not None:
            raise Complaint("--server cannot go with --config or --as: the server knows its inventory and who you are")
        from guideway.server.cli.remote import run_there  # noqa: PLC0415  # loads the MCP SDK

        return run_there(options)
    if options.ca_file is not None or options.no_input:
        raise Complaint("--ca-file and --no-input are for --server")
    return _run_here(options)


def _run_here(options: argparse.Namespace) -> int:
    config = read_config(options)
    caller = read_caller(options, config)
    console, errors = Console(options.color), Console(options.color, error=True)
    steps = StepList(console, quiet=options.json)
    pipeline = wiring.build(config)
    try:
        source = read_program(options.file, most=config.limits.bytes)
        if not options.json:
            say_program_warnings(errors, source, pipeline.limits)
        report, number = anyio.run(_execute, pipeline, source, caller, steps)
    except Refusal as refusal:  # the file itself: the pipeline's refusals come in its report
        report, number = refused_unread(refusal), None
    if options.json:
        write_json(report.to_json())
    else:
        say_outcome(errors, steps, report, explain_nobody(config, caller))
    return 128 + number if number else exit_code(report)


async def _execute(pipeline: Pipeline, source: Source, caller: Principal, steps: StepList) -> tuple[Report, int | None]:
    """Run a program until it ends or a signal comes; return its report, and the signal that cancelled it."""
    reports: list[Report] = []

    async def run() -> None:
        reports.append(
            await pipeline.run(source.text, caller, name=source.name, observe=steps, on_cancel=reports.append)
        )

    try:
        number = await watch(run, steps)
    finally:
        with anyio.CancelScope(shield=True):
            await pipeline.close()
    (report,) = reports
    return report, number if report.status is Status.CANCELLED else None


COMMAND = Command(
    summary="run a program here, or on a server",
    description="Run a program on this machine's inventory, by the same checks as the server; with --server, on a\n"
    "server and its inventory, as whoever signed in there. Each step is shown as it happens.\n"
    "Ctrl-C cancels: a restart under way still asks for the start, which takes at most twelve seconds. A\n"
    "service that does not stop in that time ends up stopped, and the log says so. A second Ctrl-C ends\n"
    "the command at once: a restart may be half done then.",
    examples=(
        "guideway run restart.diag",
        "guideway run --json --as reader look.diag",
        """echo 'GET_STATUS "database"' | guideway run -""",
        "guideway run restart.diag --server https://guideway.example.com/mcp",
    ),
    exits=(
        (Exit.OK, "the program completed, or a CATCH made up for a failure"),
        (Exit.FAILED, "the program failed, or ran out of time; or the connection to the server broke meanwhile"),
        (Exit.REFUSED, "the program was refused, for want of a scope too"),
        (Exit.APPROVAL, "reserved: a person must approve first"),
        (Exit.INTERRUPTED, "cancelled by Ctrl-C (129 by a closed terminal, 143 by SIGTERM)"),
    ),
    arguments=_arguments,
    run=_run,
)

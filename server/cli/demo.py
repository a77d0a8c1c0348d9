"""``guideway demo``: the main job on real processes on this machine, in a few seconds."""

import argparse
import time

from guideway.server.cli.command import Command, Exit
from guideway.server.cli.console import RED, Console, write_json


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave the processes running until Ctrl-C, and print how to try other commands on them",
    )
    parser.add_argument(
        "--model",
        action="store_true",
        help="let a small model write the programs, with each caller's grammar and without one (see `make demo-model`)",
    )


def _run(options: argparse.Namespace) -> int:
    from guideway.server.demo import model, tour  # noqa: PLC0415  # loads the MCP SDK
    from guideway.server.demo.world import DemoError, world  # noqa: PLC0415

    console = Console(options.color, error=options.json)
    try:
        with world() as made:
            seen = (model if options.model else tour).take(made, console.line)
            if options.json:
                write_json(seen.to_json())
            if options.keep:
                console.line("")
                console.line("The processes stay until Ctrl-C. In another terminal:")
                console.line(f"  export GUIDEWAY_CONFIG={made.configuration}")
                console.line("  guideway inventory check")
                console.line("  guideway run examples/02-morning-check.diag")
                console.stream.flush()
                _wait_for_interrupt()
    except DemoError as error:
        Console(options.color, error=True).line(("error: ", RED), str(error))
        return Exit.FAILED
    return Exit.OK


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass


COMMAND = Command(
    summary="run the main job for real on this machine",
    description="Start four real programs under supervisord, kill one, serve the tool, connect an MCP client,\n"
    "and let it mend what is broken. Needs no root and leaves nothing behind.\n"
    "With --model, a small model writes the programs, for five plain requests.",
    examples=("guideway demo", "guideway demo --json", "guideway demo --keep", "guideway demo --model"),
    exits=(
        (Exit.OK, "the database was really started again; every program under a grammar was allowed"),
        (Exit.FAILED, "it was not, and why is said"),
    ),
    arguments=_arguments,
    run=_run,
)

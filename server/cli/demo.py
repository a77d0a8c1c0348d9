"""``guideway demo``: the main job on real processes on this machine, in a few seconds."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from guideway.server.cli.command import Command, Exit
from guideway.server.cli.console import RED, Console, write_json

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


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
        with _signals_end_it(), world() as made:
            seen = (model if options.model else tour).take(made, console.line)
            if options.json:
                write_json(seen.to_json())
            if options.keep:
                _stay(console, made.configuration)
    except DemoError as error:
        Console(options.color, error=True).line(("error: ", RED), str(error))
        return Exit.FAILED
    return Exit.OK


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """Let a signal that ends a process unwind it instead, so that no program of the demo is left behind."""

    def end(number: int, _frame: object) -> NoReturn:
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)  # what is being taken down is taken down whole
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stay(console: Console, configuration: Path) -> None:
    """Say how to go on, and return at Ctrl-C; from the first line on that is no interruption any more."""
    with suppress(KeyboardInterrupt):
        console.line("")
        console.line("The processes stay until Ctrl-C. In another terminal:")
        console.line(f"  export GUIDEWAY_CONFIG={configuration}")
        console.line(f"  {sys.argv[0]} inventory check")
        console.line(f'  echo \'TRY PING "api.internal" CATCH GET_STATUS "database"\' | {sys.argv[0]} run -')
        console.stream.flush()
        while True:
            time.sleep(3600)


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

"""What a command of the shell is made of, and what all of them share: options, help, exit codes, complaints."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import islice
from typing import Any, NoReturn

from guideway.dsl.record import Record
from guideway.dsl.recovery import nearest
from guideway.server.cli.console import clean


class Exit(IntEnum):
    """How a command ends. These numbers are stable: scripts may match on them."""

    OK = 0
    FAILED = 1
    REFUSED = 2
    APPROVAL = 3
    USAGE = 4
    INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT
    BROKEN_PIPE = 141  # 128 and the number of SIGPIPE
    TERMINATED = 143  # 128 and the number of SIGTERM


class Complaint(Exception):  # noqa: N818  # it is said to a person and ends the command
    """The command line or the configuration is wrong, a file cannot be read, or a server is not to be had.

    ``code`` is ``usage``, ``configuration`` or ``file``, or one of ``SignInError``. ``details`` is what a machine may
    want beside the message.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "usage",
        help: str | None = None,  # noqa: A002  # the word that diagnostics use
        exit_code: Exit = Exit.USAGE,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.help = help
        self.exit_code = exit_code
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {"error": {"code": self.code, "message": str(self), "help": self.help, **self.details}}


class Command(Record):
    """One command. ``examples`` are shell lines, each of which works; ``exits`` are the codes it may end with."""

    summary: str
    examples: tuple[str, ...]
    exits: tuple[tuple[Exit, str], ...]
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    description: str = ""

    def parser(self, name: str) -> "Parser":
        """Return the parser of this command's arguments, with the options that every command has."""
        parser = Parser(prog=f"guideway {name}", description=self.description or _sentence(self.summary))
        parser.epilog = self._epilog()
        self.arguments(parser)
        parser.add_argument("--json", action="store_true", help="write the machine form")
        parser.add_argument(
            "--color",
            choices=("auto", "always", "never"),
            default="auto",
            help="colour: on a terminal where NO_COLOR is not set (auto), always or never",
        )
        return parser

    def _epilog(self) -> str:
        examples = "\n".join(f"  {line}" for line in self.examples)
        usage = (Exit.USAGE, "wrong usage or configuration, or a file or server that cannot be reached")
        codes = "\n".join(f"  {code.value:<4}{meaning}" for code, meaning in (*self.exits, usage))
        return f"examples:\n{examples}\n\nexit codes:\n{codes}"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that fits the terminal. Its width is found without ``shutil``, which takes long to load."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        try:
            width = int(columns) if columns.isdecimal() else os.get_terminal_size(sys.stdout.fileno()).columns
        except (OSError, ValueError):  # no terminal
            width = 80
        super().__init__(prog, max_help_position=28, width=min(max(width, 40), 100))


class Parser(argparse.ArgumentParser):
    """A parser whose complaints end with this program's own exit code, and show no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Formatter, allow_abbrev=False, **options)

    def options_first(self, arguments: Sequence[str]) -> list[str]:
        """Return arguments with the options, and their values, before all others: they may stand anywhere.

        The library fills what may be empty, such as ``[NAME ...]``, with nothing as soon as an option stands before it.
        """
        takes = {flag: action.nargs for action in self._actions for flag in action.option_strings}
        if all(action.option_strings for action in self._actions):
            return list(arguments)
        options: list[str] = []
        others: list[str] = []
        rest = iter(arguments)
        for argument in rest:
            if argument == "--":
                others += rest
            elif argument == "-" or not argument.startswith("-"):
                others.append(argument)
            else:
                options.append(argument)
                if takes.get(argument, 0) is None:  # one value, which stands behind it
                    options += islice(rest, 1)
        return [*options, "--", *others] if others else options

    def error(self, message: str) -> NoReturn:
        _, unknown, rest = message.partition("unrecognized arguments: ")
        flags = [flag for action in self._actions for flag in action.option_strings]
        near = nearest(rest.split("=")[0].split()[0], flags) if unknown and rest.startswith("--") else None
        raise Complaint(clean(message), help=f"did you mean `{near}`?" if near else f"{self.prog} --help")


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add the options of the commands that read the configuration."""
    parser.add_argument("--config", metavar="PATH", help="the configuration file; see docs/configuration.md")
    parser.add_argument("--as", dest="caller", metavar="CALLER", help="run as this caller of the configuration")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."

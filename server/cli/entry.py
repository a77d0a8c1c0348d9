"""From the arguments to one command and its exit code. No error gets out of here as a traceback but a fault of ours."""

import sys
from collections.abc import Sequence
from importlib import import_module

from guideway import __version__
from guideway.dsl.recovery import nearest
from guideway.server.cli.command import Command, Complaint, Exit, Parser
from guideway.server.cli.console import BOLD, RED, Console, clean, write_json
from guideway.server.uncollected import uncollected

#: Every command, by the name of its module, with what ``guideway --help`` says of it.
COMMANDS = {
    "demo": "run the main job for real on this machine",
    "serve": "serve the tool to MCP clients",
    "run": "run a program here, or on a server",
    "check": "say everything that is wrong with programs",
    "fmt": "write programs in their canonical form",
    "plan": "say what a program needs and may do, and touch nothing",
    "approvals": "show and decide on what waits for a person",
    "audit": "say who did what, why, and whether that record is whole",
    "grammar": "print a caller's copy of the grammar",
    "inventory": "list what programs can name, or try it",
    "store": "say which tables the store has, or upgrade it",
    "token": "print a token of the development issuer",
    "doctor": "say what is wrong with this installation and how to mend it",
    "login": "sign in at a server",
    "logout": "sign out",
    "completion": "print the completion script of a shell",
}


_OPTIONS = ("--config", "--as", "--json", "--color")  # what many commands take; here only to say where they stand


def load(name: str) -> Command:
    """Return a command of ``COMMANDS``."""
    with uncollected():
        command: Command = import_module(f"guideway.server.cli.{name}").COMMAND
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; ``argv`` is without the program's name."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # what cannot be shown must not raise
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except Complaint as complaint:
        return _complain(complaint, arguments)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        Console().drop()
        return Exit.BROKEN_PIPE
    except OSError as error:
        Console().drop()
        reason = (error.strerror or type(error).__name__).lower()
        return _complain(Complaint(f"cannot go on: {reason}", code="file"), ())
    return code


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS:
        return _without_command(name)
    command = load(name)
    parser = command.parser(name)
    return command.run(parser.parse_args(parser.options_first(arguments[1:])))


def _without_command(name: str) -> int:
    if name in ("-h", "--help", "help"):
        _overview().print_help()
        return Exit.OK
    if name in ("-V", "--version"):
        Console().line(f"guideway {__version__}")
        return Exit.OK
    if name.partition("=")[0] in _OPTIONS:
        raise Complaint(
            f"`{clean(name.partition('=')[0])}` stands behind the command", help=f"guideway COMMAND {clean(name)} …"
        )
    near = nearest(name, ("--version", "--help", *_OPTIONS) if name.startswith("-") else COMMANDS)
    what = "option" if name.startswith("-") else "command"
    raise Complaint(
        f"guideway has no {what} `{clean(name)}`", help=f"did you mean `{near}`?" if near else "guideway --help"
    )


def _overview() -> Parser:
    listing = "\n".join(f"  {name:<12}{summary}" for name, summary in COMMANDS.items())
    return Parser(
        prog="guideway",
        usage="guideway COMMAND [OPTION…]\n       guideway --version",
        description=f"Run small, checked diagnostic programs.\n\ncommands:\n{listing}",
        epilog="`guideway COMMAND --help` shows a command's options, examples and exit codes.",
    )


def _complain(complaint: Complaint, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        write_json(complaint.to_json())
        return complaint.exit_code
    console = Console(error=True)
    for number, line in enumerate(str(complaint).split("\n")):
        console.line(*((("error: ", f"{BOLD};{RED}"),) if number == 0 else ()), line)
    if complaint.help:
        console.line(f"  help: {complaint.help}")
    return complaint.exit_code

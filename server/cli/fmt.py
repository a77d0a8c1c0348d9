"""``guideway fmt``: programs in their canonical form. A program that does not parse is left alone."""

import argparse
import contextlib
import os
import stat
import sys
from typing import Any

from guideway.dsl.errors import Refusal
from guideway.dsl.parser import parse
from guideway.dsl.printer import format_program
from guideway.dsl.record import Record
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.console import BOLD, CYAN, GREEN, RED, Console, clean, write_json
from guideway.server.cli.files import STDIN, read_program
from guideway.server.cli.refusals import say_refusal

_READ_ONLY = "`chmod u+w` it, or read `guideway fmt --diff`"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a program; `-` reads standard input and writes standard output"
    )
    parser.add_argument("--check", action="store_true", help="change nothing; say which files would change")
    parser.add_argument("--diff", action="store_true", help="change nothing; show what would change")
    parser.add_argument("--stdin-filename", metavar="NAME", help="what to call standard input in messages")


class _Outcome(Record):
    """What came of one file: its text before and in canonical form, or the error that says why there is none."""

    name: str
    exit: Exit
    text: str = ""
    canonical: str = ""
    error: Refusal | Complaint | None = None

    @property
    def changed(self) -> bool:
        return self.canonical != self.text


def _run(options: argparse.Namespace) -> int:
    console, errors = Console(options.color), Console(options.color, error=True)
    outcomes = []
    for path in options.files:
        outcome = _format(path, options)
        outcomes.append(outcome)
        if not options.json:
            _say(outcome, path, options, console, errors)
    if options.json:
        write_json({"files": [_machine_form(outcome) for outcome in outcomes]})
    return max(outcome.exit for outcome in outcomes)


def _format(path: str, options: argparse.Namespace) -> _Outcome:
    """Format one file, in place unless something else is asked."""
    try:
        source = read_program(path, name=options.stdin_filename if path == STDIN else None)
        outcome = _Outcome(source.name, Exit.OK, source.text, format_program(parse(source.text, name=source.name)))
        if options.check or options.diff:
            return outcome.replace(exit=Exit.FAILED) if outcome.changed else outcome
        if outcome.changed and path != STDIN:
            _replace(path, outcome.canonical)
    except Refusal as refusal:
        return _Outcome(refusal.source.name, Exit.REFUSED, error=refusal)
    except Complaint as complaint:
        return _Outcome(path, Exit.USAGE, error=complaint)
    return outcome


def _say(outcome: _Outcome, path: str, options: argparse.Namespace, console: Console, errors: Console) -> None:
    if isinstance(outcome.error, Refusal):
        say_refusal(errors, outcome.error)
    elif outcome.error is not None:
        errors.line(("error: ", RED), str(outcome.error))
        if outcome.error.help:
            errors.line(f"  help: {outcome.error.help}")
    elif options.diff:
        _show_diff(console, outcome)
    elif path == STDIN and not options.check:
        sys.stdout.buffer.write(outcome.canonical.encode("utf-8"))  # a program is UTF-8 whatever the terminal speaks
    elif outcome.changed:
        console.line(f"{'would format' if options.check else 'formatted'} {outcome.name}")


def _machine_form(outcome: _Outcome) -> dict[str, Any]:
    match outcome.error:
        case Refusal() as refusal:
            return {"name": outcome.name, "refusal": refusal.to_json()}
        case Complaint() as complaint:
            return {"name": outcome.name, **complaint.to_json()}
        case None:
            return {"name": outcome.name, "changed": outcome.changed, "text": outcome.canonical}


def _show_diff(console: Console, outcome: _Outcome) -> None:
    import difflib  # noqa: PLC0415  # only --diff pays for it

    colors = {"+": GREEN, "-": RED, "@": CYAN}
    before, after = outcome.text.splitlines(keepends=True), outcome.canonical.splitlines(keepends=True)
    lines = difflib.unified_diff(before, after, outcome.name, f"{outcome.name} (formatted)", lineterm="")
    for number, line in enumerate(lines):
        color = BOLD if number < 2 else colors.get(line[:1])
        shown = line.removesuffix("\n")
        console.line((shown, color) if color else shown)
        if number > 2 and shown == line:
            console.line("\\ No newline at end of file")


def _replace(path: str, text: str) -> None:
    """Put a text in a file's place at once, whole or not at all; its mode and owner stay, and so does a link to it."""
    target = os.path.realpath(path)
    fresh = f"{target}.{os.getpid()}.new"
    try:
        before = os.stat(target)
        if not stat.S_ISREG(before.st_mode):
            raise Complaint(f"cannot write `{clean(path)}`: it is no plain file", code="file", file=path)
        if not before.st_mode & 0o222:  # to take its place asks no permission of the file itself
            raise Complaint(f"cannot write `{clean(path)}`: it is read-only", code="file", help=_READ_ONLY, file=path)
        # O_EXCL: the name could be a trap that somebody laid in a shared folder.
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                with contextlib.suppress(PermissionError):  # another's file in a folder that we may write
                    os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
                file.flush()
                os.fsync(handle)
            os.replace(fresh, target)
        except BaseException:
            os.unlink(fresh)
            raise
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Complaint(f"cannot write `{clean(path)}`: {reason}", code="file", file=path) from None


COMMAND = Command(
    summary="write programs in their canonical form",
    description="Write programs in their canonical form: one statement a line, every body in braces, comments kept.\n"
    "The meaning never changes. A program that does not parse is left alone.",
    examples=(
        "guideway fmt restart.diag",
        "guideway fmt --check --diff *.diag",
        "guideway fmt - < restart.diag",
    ),
    exits=(
        (Exit.OK, "every program is in its canonical form now"),
        (Exit.FAILED, "with --check or --diff: a program would change"),
        (Exit.REFUSED, "a program does not parse"),
    ),
    arguments=_arguments,
    run=_run,
)

"""``guideway check``: everything that is wrong with programs, and nothing else. Reads no configuration."""

import argparse
from typing import Any

from guideway.dsl.analysis import analyze
from guideway.dsl.errors import Diagnostic, Refusal, draw
from guideway.dsl.parser import parse
from guideway.dsl.source import Source
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.console import RED, YELLOW, Console, write_json
from guideway.server.cli.files import STDIN, read_program


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a program; `-` is standard input")
    parser.add_argument("--stdin-filename", metavar="NAME", help="what to call standard input in messages")


def _run(options: argparse.Namespace) -> int:
    console, errors = Console(options.color), Console(options.color, error=True)
    worst = Exit.OK
    results: list[dict[str, Any]] = []
    for path in options.files:
        name = options.stdin_filename if path == STDIN else None
        try:
            code, source, found = _check(path, name)
        except Complaint as complaint:
            worst = Exit.USAGE
            if options.json:
                results.append({"name": path, "ok": False, **complaint.to_json()})
            else:
                errors.line(("error: ", RED), str(complaint))
            continue
        worst = max(worst, code)
        if options.json:
            results.append(
                {"name": source.name, "ok": code is Exit.OK, "diagnostics": [one.to_json(source) for one in found]}
            )
            continue
        for one in found:
            severity, color = ("warning", YELLOW) if code is Exit.OK else ("error", RED)
            console.drawing(draw(one, source, severity=severity), color)
    if options.json:
        write_json({"files": results})
    return worst


def _check(path: str, name: str | None) -> tuple[Exit, Source, tuple[Diagnostic, ...]]:
    """Return the exit code for one program, its text, and what is wrong: errors, or only warnings."""
    try:
        source = read_program(path, name=name)
        return Exit.OK, source, analyze(parse(source.text, name=source.name)).warnings
    except Refusal as refusal:
        return Exit.REFUSED, refusal.source, refusal.diagnostics


COMMAND = Command(
    summary="say everything that is wrong with programs",
    description="Say everything that is wrong with programs: errors, and warnings where a program is right\n"
    "but easy to misread. Knows the language alone: `guideway plan` knows the inventory and the caller.",
    examples=(
        "guideway check restart.diag",
        "guideway check --json *.diag",
        """echo 'PING "api.internal"' | guideway check - --stdin-filename draft.diag""",
    ),
    exits=((Exit.OK, "every program is right; there may be warnings"), (Exit.REFUSED, "a program would be refused")),
    arguments=_arguments,
    run=_run,
)

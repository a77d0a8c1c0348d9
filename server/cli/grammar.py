"""``guideway grammar``: the copy of the grammar that a caller is shown, or that a set of scopes allows."""

import argparse
import sys

from guideway.dsl.scopes import Scope, known_scopes
from guideway.grammar import DIALECTS, NoGrammar, copy_for
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config
from guideway.server.cli.console import clean, write_json


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scopes", metavar="SCOPES", help="print the copy for these, separated by spaces, and not a caller's"
    )
    parser.add_argument("--dialect", choices=tuple(DIALECTS), default="lark", help="the notation (default: lark)")
    add_configuration(parser)


def _run(options: argparse.Namespace) -> int:
    if options.scopes is not None and options.caller is not None:
        raise Complaint("--scopes and --as cannot go together")
    note = None
    if options.scopes is not None:
        scopes = _scopes(options.scopes)
    else:
        config = read_config(options)
        caller = read_caller(options, config)
        scopes, note = caller.scopes, explain_nobody(config, caller)
    try:
        copy = copy_for(scopes, options.dialect)
    except NoGrammar as none:
        raise Complaint(str(none), help=note or f"one of {', '.join(sorted((Scope.READ, Scope.WRITE)))}") from None
    except ValueError as too_much:  # a dialect that has no room for it
        raise Complaint(f"there is no copy in `{options.dialect}`: {too_much}") from None
    if options.json:
        write_json(
            {"dialect": copy.dialect, "sha256": copy.sha256, "scopes": sorted(copy.scopes), "definition": copy.text}
        )
    else:
        sys.stdout.write(copy.text)
    return Exit.OK


def _scopes(text: str) -> frozenset[Scope]:
    asked = text.split()
    scopes = known_scopes(asked)
    unknown = [clean(name) for name in asked if name not in scopes]
    if unknown:
        raise Complaint(f"there is no scope `{unknown[0]}`", help=f"there are: {', '.join(sorted(Scope))}")
    return scopes


COMMAND = Command(
    summary="print a caller's copy of the grammar",
    description="Print the grammar as a caller is shown it: only the commands that their scopes allow.",
    examples=(
        "guideway grammar",
        "guideway grammar --as reader --json",
        'guideway grammar --scopes "mcp:diag:read mcp:diag:write" --dialect lark',
    ),
    exits=((Exit.OK, "the grammar was printed"),),
    arguments=_arguments,
    run=_run,
)

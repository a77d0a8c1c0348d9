"""How scopes are given on the command line: one option, spelled alike wherever there is one."""

import argparse
from collections.abc import Iterable

from guideway.dsl.scopes import Scope, known_scopes
from guideway.server.cli.command import Complaint
from guideway.server.cli.console import clean


def add_scope_option(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--scope``, whose ``meaning`` the help says; ``--scopes`` is the same. The value is None or a list."""
    parser.add_argument(
        "--scope",
        "--scopes",
        dest="scope",
        action="append",
        metavar="SCOPES",
        help=f"{meaning}; several are separated by spaces or commas, or the option is repeated",
    )


def given(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return the scopes that were given, each once, in their order."""
    return tuple(dict.fromkeys(word for value in values or () for word in value.replace(",", " ").split()))


def require_known(names: Iterable[str]) -> frozenset[Scope]:
    """Return scopes of Guideway by their names. Raises ``Complaint`` for any other."""
    names = tuple(names)
    scopes = known_scopes(names)
    for name in names:
        if name not in scopes:
            raise Complaint(f"there is no scope `{clean(name)}`", help=f"there are: {', '.join(sorted(Scope))}")
    return scopes

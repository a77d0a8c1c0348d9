"""The OAuth scopes of the language. They are exact strings and imply nothing about each other."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    """A scope that this product knows. Any other string grants nothing."""

    READ = "mcp:diag:read"
    WRITE = "mcp:diag:write"
    APPROVE = "mcp:diag:approve"

    __hash__ = str.__hash__  # in C: scopes are looked up for every node of every program


#: Those that let a program run. A caller who holds none of them has no grammar.
PROGRAM_SCOPES = frozenset({Scope.READ, Scope.WRITE})

_KNOWN = frozenset(scope.value for scope in Scope)


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return those of ``names`` that are scopes, compared exactly; all others grant nothing."""
    return frozenset(Scope(name) for name in names if name in _KNOWN)


def requires(scopes: Iterable[Scope]) -> str:
    """Return what every door says where scopes are missing."""
    return "operation requires scope " + " and ".join(f"'{scope}'" for scope in sorted(scopes))


def scope_list(scopes: Iterable[Scope]) -> str:
    """Return scopes in the order and form of RFC 6749, section 3.3: separated by one space."""
    return " ".join(sorted(scopes))

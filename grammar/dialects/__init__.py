"""One file a dialect: each prints a grammar of the model in the spelling of some engine, and reads nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from guideway.grammar.dialects import ebnf, gbnf, lark, llguidance, regex
from guideway.grammar.model import Grammar


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a copy is printed. ``spelled``: from a spelled grammar, to generate by; else from tokens, as published."""

    print_grammar: Callable[[Grammar], str]
    spelled: bool


_PRINTERS: Final[Mapping[str, Dialect]] = {
    "lark": Dialect(lark.print_grammar, spelled=False),
    "llguidance": Dialect(llguidance.print_grammar, spelled=True),
    "gbnf": Dialect(gbnf.print_grammar, spelled=True),
    "ebnf": Dialect(ebnf.print_grammar, spelled=True),
    "regex": Dialect(regex.print_grammar, spelled=True),
}

#: The dialects in which a copy can be had.
DIALECTS: Final = tuple(_PRINTERS)


def dialect_of(name: str) -> Dialect:
    """Return a dialect. Raises ``ValueError`` for a name that is none."""
    if name not in _PRINTERS:
        raise ValueError(f"unknown dialect `{name}`; there are: {', '.join(DIALECTS)}")
    return _PRINTERS[name]

"""One file a dialect: each prints a grammar of the model in the spelling of some engine, and reads nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from guideway.grammar.dialects import ebnf, gbnf, json_schema, lark, llguidance, regex, structural_tag, svg, w3c
from guideway.grammar.model import Grammar
from guideway.grammar.wrap import Wrap, wrapped


@dataclass(frozen=True, slots=True)
class Published:
    """A dialect of a copy as published: of tokens, with free layout."""

    print_grammar: Callable[[Grammar], str]


@dataclass(frozen=True, slots=True)
class Spelled:
    """A dialect of a copy to generate by: of characters, with what stands around the program."""

    print_copy: Callable[[Grammar, Wrap], str]


def _wrapping(print_grammar: Callable[[Grammar], str]) -> Callable[[Grammar, Wrap], str]:
    return lambda grammar, wrap: print_grammar(wrapped(grammar, wrap))


_DIALECTS: Final[Mapping[str, Published | Spelled]] = {
    "lark": Published(lark.print_grammar),
    "w3c": Published(w3c.print_grammar),
    "svg": Published(svg.print_grammar),
    "llguidance": Spelled(_wrapping(llguidance.print_grammar)),
    "gbnf": Spelled(_wrapping(gbnf.print_grammar)),
    "ebnf": Spelled(_wrapping(ebnf.print_grammar)),
    "structural-tag": Spelled(structural_tag.print_copy),
    "regex": Spelled(_wrapping(regex.print_grammar)),
    "json-schema": Spelled(json_schema.print_copy),
}

#: The dialects in which a copy can be had.
DIALECTS: Final = tuple(_DIALECTS)


def dialect_of(name: str) -> Published | Spelled:
    """Return a dialect. Raises ``ValueError`` for a name that is none."""
    if name not in _DIALECTS:
        raise ValueError(f"unknown dialect `{name}`; there are: {', '.join(DIALECTS)}")
    return _DIALECTS[name]

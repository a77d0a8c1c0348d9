"""A spelled grammar as one regular expression, for engines and hosts that take nothing else.

Only what all of them read: groups, classes, counted repetitions, and escapes that ECMA 262 allows in its strictest
mode; no look-around, and no anchors, since the whole text is meant. Rules are written out where they are used, which
multiplies with each level of nesting: what would be larger than ``MOST`` characters is refused.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from guideway.grammar.dialects.spelling import MARKS, class_body
from guideway.grammar.model import (
    Alternative,
    Characters,
    Grammar,
    Group,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
    leaves,
)
from guideway.grammar.spell import TooLarge

MOST: Final = 32_768

_ESCAPES: Final = {**{char: f"\\{char}" for char in "^$\\.*+?()[]{}|/"}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def print_grammar(grammar: Grammar) -> str:
    """Return the expression for the texts of a spelled grammar, without a line end, which would be part of it.

    Raises ``TooLarge``.
    """
    rules = grammar.rules
    known: dict[str, str] = {}

    def expand(name: str) -> str:
        if name not in known:
            used = {leaf.name for leaf in leaves(rules[name].alternatives) if isinstance(leaf, Reference)}
            known[name] = regex(rules[name].alternatives, {other: expand(other) for other in used})
            if len(known[name]) > MOST:
                raise TooLarge(f"as a regular expression the copy has more than {MOST:,} characters")
        return known[name]

    return expand(next(iter(rules)))


def regex(alternatives: tuple[Alternative, ...], rules: Mapping[str, str]) -> str:
    """Return the expression for alternatives; ``rules`` holds the expressions of what they refer to."""
    return "|".join("".join(_item(item, rules) for item in alternative.items) for alternative in alternatives)


def _item(item: Item, rules: Mapping[str, str]) -> str:
    match item:
        case Literal(text):
            return "".join(_ESCAPES.get(char, char) for char in text)
        case Characters(ranges):
            return f"[{class_body(ranges)}]"
        case Pattern(expression):
            return f"(?:{expression})"
        case Reference(name):
            return f"(?:{rules[name]})"
        case Group(alternatives):
            return f"(?:{regex(alternatives, rules)})"
        case Repeat(inner, least, most):
            once = (
                _item(inner, rules)
                if isinstance(inner, Group | Characters | Reference)
                else f"(?:{_item(inner, rules)})"
            )
            return once + (MARKS.get((least, most)) or f"{{{least},{'' if most is None else most}}}")
        case _:
            assert_never(item)

"""A spelled grammar as GBNF, for llama.cpp and what embeds it.

Written so that every reader of GBNF agrees: rule names of letters, digits and hyphens (llama.cpp refuses underscores),
one rule a line (it refuses a line that starts with a bar), each rule once (of two it takes the last in silence), no
empty alternative, printable ASCII with the escapes ``\\"``, ``\\\\``, ``\\n``, ``\\r`` and ``\\t`` only.
"""

from typing import Final, assert_never

from guideway.grammar.dialects.spelling import MARKS, class_body, paragraphs, quoted
from guideway.grammar.model import (
    START,
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
    Rule,
)

ROOT: Final = "root"


def print_grammar(grammar: Grammar) -> str:
    """Return a spelled grammar in GBNF. The rule ``start`` is the root."""
    return paragraphs(grammar, "#", _definition)


def _definition(definition: Definition) -> str:
    if not isinstance(definition, Rule):
        raise ValueError(f"`{definition.name}` is no rule: a spelled grammar has nothing else")  # noqa: TRY004
    return f"{_name(definition.name)} ::= {_alternatives(definition.alternatives)}"


def _name(name: str) -> str:
    return ROOT if name == START else name.replace("_", "-")


def _alternatives(alternatives: tuple[Alternative, ...]) -> str:
    return " | ".join(" ".join(map(_item, alternative.items)) for alternative in alternatives)


def _item(item: Item) -> str:
    match item:
        case Literal(text):
            return quoted(text)
        case Characters(ranges):
            return f"[{class_body(ranges)}]"
        case Reference(name):
            return _name(name)
        case Group(alternatives):
            return f"({_alternatives(alternatives)})"
        case Repeat(inner, least, most):
            return _item(inner) + (MARKS.get((least, most)) or f"{{{least},{'' if most is None else most}}}")
        case Pattern():
            raise ValueError("a spelled grammar has no patterns")
        case _:
            assert_never(item)

"""The model as a Lark grammar, with its comments: what is published is printed back byte for byte."""

from typing import assert_never

from guideway.grammar.dialects.spelling import MARKS, class_body, paragraphs, quoted
from guideway.grammar.model import (
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
)


def print_grammar(grammar: Grammar) -> str:
    """Return a grammar in Lark's syntax, which Lark loads as LALR with the contextual lexer."""
    return paragraphs(grammar, "//", _definition)


def _definition(definition: Definition) -> str:
    if isinstance(definition, Ignore):
        return f"%ignore {definition.name}"
    lines = [f"{definition.name}:", *("    |" for _ in definition.alternatives[1:])]
    return "\n".join(
        f"{head} {_alternative(alternative)}".rstrip()
        for head, alternative in zip(lines, definition.alternatives, strict=True)
    )


def _alternative(alternative: Alternative) -> str:
    return " ".join(map(_item, alternative.items))


def _item(item: Item) -> str:
    match item:
        case Literal(text):
            return quoted(text)
        case Pattern(regex):
            return f"/{regex}/"
        case Characters(ranges):
            return f"/[{class_body(ranges)}]/"
        case Reference(name):
            return name
        case Group(alternatives):
            return "(" + " | ".join(map(_alternative, alternatives)) + ")"
        case Repeat(inner, least, most):
            return _item(inner) + (MARKS.get((least, most)) or f"~{least}..{most}")
        case _:
            assert_never(item)

"""The model as a Lark grammar, with its comments: what is published is printed back byte for byte."""

import re
from collections.abc import Iterator
from typing import Final

from guideway.grammar.model import (
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
)

_MARKS: Final[dict[tuple[int, int | None], str]] = {(0, 1): "?", (0, None): "*", (1, None): "+"}
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def print_grammar(grammar: Grammar) -> str:
    """Return a grammar in Lark's syntax, which Lark loads as LALR with the contextual lexer."""
    return "\n".join("".join(f"{line}\n" for line in _paragraph(paragraph)) for paragraph in grammar.paragraphs)


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    for line in paragraph.comment:
        yield f"// {line}".rstrip()
    for definition in paragraph.definitions:
        yield _definition(definition)


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
            return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'
        case Pattern(regex):
            return f"/{regex}/"
        case Characters(ranges):
            return "/[" + "".join(map(_range, ranges)) + "]/"
        case Reference(name):
            return name
        case Group(alternatives):
            return "(" + " | ".join(map(_alternative, alternatives)) + ")"
        case Repeat(inner, least, most):
            return _item(inner) + _MARKS[least, most]


def _range(ends: tuple[str, str]) -> str:
    first, last = (re.escape(end) for end in ends)
    return first if first == last else f"{first}-{last}"

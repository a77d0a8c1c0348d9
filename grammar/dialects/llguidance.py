"""A spelled grammar as Lark for llguidance: Guidance, OpenAI's custom tools, llama.cpp built with it, XGrammar too.

Rules have lower-case names and are parsed; terminals have upper-case names and are matched as one piece, the longest
that fits. So only names, each between its own quotes, are terminals: none is the beginning of another. Everything is
Lark's own syntax, so that GLRMask reads it too.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from guideway.grammar.dialects.regex import regex
from guideway.grammar.measure import NAME_RULES
from guideway.grammar.model import (
    Alternative,
    Characters,
    Grammar,
    Group,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
    Rule,
)

_MARKS: Final = {(0, 1): "?", (0, None): "*", (1, None): "+"}
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def print_grammar(grammar: Grammar) -> str:
    """Return a spelled grammar in the Lark that llguidance reads."""
    return "\n".join("".join(f"{line}\n" for line in _paragraph(paragraph)) for paragraph in grammar.paragraphs)


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    for line in paragraph.comment:
        yield f"// {line}".rstrip()
    for definition in paragraph.definitions:
        if not isinstance(definition, Rule):
            raise ValueError(f"`{definition.name}` is no rule: a spelled grammar has nothing else")  # noqa: TRY004
        if definition.name in NAME_RULES:
            yield f"{_name(definition.name)}: {_terminal(definition.alternatives)}"
        else:
            lines = [f"{definition.name}:", *("    |" for _ in definition.alternatives[1:])]
            for head, alternative in zip(lines, definition.alternatives, strict=True):
                yield f"{head} {_alternative(alternative)}".rstrip()


def _terminal(alternatives: tuple[Alternative, ...]) -> str:
    match alternatives:
        case (Alternative((Reference(name),)),):
            return _name(name)
        case _:
            return f"/{regex(alternatives, {})}/"


def _name(name: str) -> str:
    return name.upper() if name in NAME_RULES else name


def _alternative(alternative: Alternative) -> str:
    return " ".join(map(_item, alternative.items))


def _item(item: Item) -> str:
    match item:
        case Literal(text):
            return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'
        case Characters():
            return f"/{regex((Alternative((item,)),), {})}/"
        case Reference(name):
            return _name(name)
        case Group(alternatives):
            return "(" + " | ".join(map(_alternative, alternatives)) + ")"
        case Repeat(inner, least, most):
            return _item(inner) + (_MARKS.get((least, most)) or f"~{least}..{most}")
        case Pattern():
            raise ValueError("a spelled grammar has no patterns")
        case _:
            assert_never(item)

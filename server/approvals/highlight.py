"""A program's text in pieces, each with what it is, for highlighting: by the language's own lexer."""

from collections.abc import Iterator
from typing import Final

from guideway.dsl.ast import COMMANDS
from guideway.dsl.lexer import CLOSE, NAME, OPEN, WORD, scan

_MUTATING: Final = frozenset(command.keyword for command in COMMANDS if command.mutates)
_COMMANDS: Final = frozenset(command.keyword for command in COMMANDS)


def highlighted(text: str) -> Iterator[tuple[str, str]]:
    """Yield pieces that make up a text, each with its kind: `mutation`, `command`, `word`, `name`, `brace` or none.

    A name that belongs to a mutation is of the kind `mutation` too.
    """
    at, mutates = 0, False
    for token in scan(text):
        kind = _kind(token.lastindex, token[token.lastindex or 0], mutates=mutates)
        if kind is None:
            continue
        start, end = token.span(token.lastindex or 0)
        if token.lastindex == NAME:
            start, end = start - 1, end + 1  # with its quotes
        if start > at:
            yield "", text[at:start]
        yield kind, text[start:end]
        at, mutates = end, token[token.lastindex or 0] in _MUTATING
    if at < len(text):
        yield "", text[at:]


def _kind(token: int | None, text: str, *, mutates: bool) -> str | None:
    match token:
        case _ if token == WORD:
            return "mutation" if text in _MUTATING else "command" if text in _COMMANDS else "word"
        case _ if token == NAME:
            return "mutation" if mutates else "name"
        case _ if token in (OPEN, CLOSE):
            return "brace"
        case _:
            return None

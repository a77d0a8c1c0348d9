"""Under a copy an engine lets a model write exactly the programs that the parser accepts: all of them up to a length.

Both sides are written out in full. One is every string of tokens that the parser accepts, needs no more than the caller
has and is in canonical form. The other is every text that the engine's own masks lead to, whatever is in it.
"""

import re
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import cache
from itertools import repeat
from typing import Final

import pytest

from guideway.dsl import Refusal, parse
from guideway.dsl.ast import Program, Target
from guideway.dsl.printer import format_one_line
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import FINITE, Layout, Shape, Wrap
from tests.engines.callers import UNBOUNDED, Caller
from tests.engines.jobs import write_all
from tests.engines.roster import ENGINES
from tests.grammar.trees import is_content
from tests.strategies import KEYWORDS

WORDS: Final = 8  # tokens of the longest programs that are looked at; two more are six times as many
_BARE: Final = re.compile("(?:THEN|ELSE|TRY|CATCH) [^{]")

_NAMES: Final[Mapping[Target, tuple[str, ...]]] = {
    Target.HOST: ("h",),
    Target.SERVICE: ("s",),
    Target.RESTARTABLE: ("s",),
}
_TOKENS: Final = (*KEYWORDS, "{", "}", '"h"', '"s"')  # each is foreign to the commands that name the other kind
_NARROW: Final = Shape(nesting=2, statements=3)
_READ, _WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})

_CALLERS: Final = [  # each with its words
    (Caller(f"{layout}-{shape.nesting}-{wrap}", scopes, _NAMES, layout, shape, wrap), words)
    for words, scopes, layout, shape, wrap in (
        (WORDS, PROGRAM_SCOPES, Layout.ONE_LINE, FINITE, Wrap.NONE),
        (WORDS, PROGRAM_SCOPES, Layout.LINES, _NARROW, Wrap.JSON),
        (7, _READ, Layout.LINES, FINITE, Wrap.MISTRAL),
        (7, _READ, Layout.ONE_LINE, UNBOUNDED, Wrap.NONE),
        (7, _WRITE, Layout.LINES, UNBOUNDED, Wrap.NONE),
        (7, _WRITE, Layout.ONE_LINE, _NARROW, Wrap.HERMES),
    )
]


@cache
def _accepted(words: int) -> tuple[Program, ...]:
    """Every string of so many tokens at most that the parser accepts and that is its own canonical form.

    Strings are grown a token at a time, and not further where the parser has met a token that cannot stand there, or
    a body has begun without a brace, which is never canonical.
    """
    found: list[Program] = []
    growing = [""]
    for _ in range(words):
        longer = [f"{text} {token}".lstrip() for text in growing for token in _TOKENS]
        growing = [text for text in longer if not _BARE.search(text) and is_content(text)]
        found += (tree for text in growing if (tree := _parsed(text)) and format_one_line(tree) == text)
    return tuple(found)


@cache
def _expected(caller: Caller, words: int) -> frozenset[bytes]:
    return frozenset(caller.text(tree) for tree in _accepted(words) if caller.may(tree) and caller.fits(tree))


def _parsed(text: str) -> Program | None:
    try:
        return parse(text)
    except Refusal:
        return None


def test_the_parser_accepts_many_short_programs() -> None:
    texts = [format_one_line(tree) for tree in _accepted(WORDS)]
    assert len(texts) == len(set(texts)) > 1000
    assert max(len(text.split()) for text in texts) == WORDS


@pytest.mark.parametrize("engine", ENGINES)
def test_the_language_of_a_copy_is_the_parsers(engine: str, workers: Executor) -> None:
    callers = [caller for caller, _ in _CALLERS]
    words = [min(words, 7) if engine == "glrmask" else words for _, words in _CALLERS]  # it is slow to copy a state
    written = workers.map(write_all, repeat(engine), callers, words)
    for caller, most, texts in zip(callers, words, written, strict=True):
        assert len(_expected(caller, most)) > 20
        assert texts == _expected(caller, most), caller

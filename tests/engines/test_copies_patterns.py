"""Under a copy with patterns of names, an engine lets a model write the names that a pattern means, and no other.

The other tests hold the callers with patterns to everything that holds for names; here are the edges.
"""

from typing import Final

import lark
import pytest

from guideway.dsl.ast import Target
from guideway.dsl.patterns import Spelling, read_pattern
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import Form, GrammarCopy, Shape, copy_for
from tests.engines.harness import accepts
from tests.engines.roster import ENGINES
from tests.engines.vocabulary import byte_vocabulary

_NAMES: Final = {
    Target.HOST: (read_pattern("web-*.prod"), read_pattern("*:x"), "db.prod"),
    Target.SERVICE: (read_pattern("*"), read_pattern("nginx@*.*")),
    Target.RESTARTABLE: (read_pattern("web-*").replace(but=frozenset({"web-1", "web-11"})),),
}

_GOOD: Final = {
    "PING": ["web-1.prod", "web--.prod", "web-_.prod", f"web-{'a' * 63}.prod", "0:x", f"a{'-' * 62}:x", "db.prod"],
    "GET_STATUS": ["a", "0", "a-_", "Z" * 63, "nginx@-.-", f"nginx@{'-' * 63}.{'_' * 63}", "web-1"],
    "RESTART": ["web-2", "web-10", "web-111", "web-1a", "web--", "web-12", f"web-{'1' * 63}"],
}
_BAD: Final = {
    "PING": [
        *("web-.prod", "web-1", "web-1.", "web-1.prod.", "web-1.x.prod", "web-1..prod", ".prod", "web-*.prod", "*:x"),
        *("-a:x", "_:x", ":x", "a:x:x", "web-1.prod:x", f"web-{'a' * 64}.prod", f"{'a' * 64}:x", "Web-1.prod", "db"),
    ],
    "GET_STATUS": [
        "-",
        "-a",
        "_",
        "a.b",
        "a:b",
        "a@b",
        "Z" * 64,
        "nginx@a",
        "nginx@a.",
        "nginx@.a",
        "nginx@a.b.c",
        "*",
    ],
    "RESTART": ["web-1", "web-11", "web-", "web", "web-1.", f"web-{'1' * 64}", "*", "web-*", "api"],
}


def _copy(dialect: str) -> GrammarCopy:
    return copy_for(PROGRAM_SCOPES, dialect, names=_NAMES, shape=Shape(0, 1) if dialect != "lark" else None)


def _programs(names: dict[str, list[str]]) -> list[str]:
    return [f'{keyword} "{name}"' for keyword, some in names.items() for name in some]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_takes_what_a_pattern_means_and_nothing_else(engine: str) -> None:
    copy = _copy(ENGINES[engine].dialect)
    assert set(copy.names.values()) == {Form.PATTERNS}
    assert copy.notes == ()
    start = ENGINES[engine].compile(copy.text, byte_vocabulary())
    refused = [text for text in _programs(_GOOD) if not accepts(start, byte_vocabulary(), text.encode())]
    taken = [text for text in _programs(_BAD) if accepts(start, byte_vocabulary(), text.encode())]
    assert (refused, taken) == ([], [])


def test_so_does_lark_under_the_published_copy() -> None:
    reader = lark.Lark(_copy("lark").text, parser="lalr", lexer="contextual")
    for text in _programs(_GOOD):
        reader.parse(text)
    for text in _programs(_BAD):
        with pytest.raises(lark.UnexpectedInput):
            reader.parse(text)


@pytest.mark.parametrize("engine", ENGINES)
def test_many_patterns_beside_many_names_compile(engine: str) -> None:
    patterns = [read_pattern(f"app{number}-*.team{number % 7}") for number in range(300)]
    every: tuple[Spelling, ...] = (*patterns, *(f"host-{number:04}" for number in range(10_000)))
    copy = copy_for(PROGRAM_SCOPES, ENGINES[engine].dialect, names=dict.fromkeys(Target, every))
    assert set(copy.names.values()) == {Form.PATTERNS}
    start = ENGINES[engine].compile(copy.text, byte_vocabulary())
    assert accepts(start, byte_vocabulary(), b'PING "app299-x.team5" RESTART "host-0001"')
    assert not accepts(start, byte_vocabulary(), b'PING "app299-x.team6"')

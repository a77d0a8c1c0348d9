"""What the grammar's tests share: Lark as the reader of programs, and programs at random."""

import random
from collections.abc import Callable

import lark
import pytest
from hypothesis import strategies as st

from guideway.dsl.ast import COMMANDS, IfRunning

Tokens = tuple[str, ...]

#: What may stand between two tokens, and at both ends.
GAPS = (" ", "\n", "\r\n", "\t", "  ", " # a comment\n", "# TRY { \u00e9 \u65e5\u672c\r\n", "\n#\n", "")
NAMES = ('"a"', '"database"', '"api.internal"', '"9"', '"web_1:a@b-c"', f'"{"n" * 253}"')


@pytest.fixture(scope="session")
def load() -> Callable[[str], lark.Lark]:
    """Return what loads a grammar's text as the published one is meant to be loaded."""

    def load(text: str) -> lark.Lark:
        return lark.Lark(text, parser="lalr", lexer="contextual", propagate_positions=True)

    return load


def statements() -> st.SearchStrategy[Tokens]:
    """Return statements as their tokens, of every construct."""
    simple = st.tuples(
        st.sampled_from([command.keyword for command in COMMANDS if command is not IfRunning]), st.sampled_from(NAMES)
    )

    def grow(inner: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
        block = st.lists(inner, max_size=4).map(lambda parts: ("{", *(token for part in parts for token in part), "}"))
        branch = st.tuples(st.sampled_from(NAMES), inner, st.none() | inner).map(
            lambda it: ("IF_RUNNING", it[0], "THEN", *it[1], *(("ELSE", *it[2]) if it[2] else ()))
        )
        recovery = st.tuples(inner, inner).map(lambda it: ("TRY", *it[0], "CATCH", *it[1]))
        return block | branch | recovery

    return st.recursive(simple, grow, max_leaves=25)


@pytest.fixture(scope="session")
def programs() -> st.SearchStrategy[Tokens]:
    """Return programs as their tokens, up to some hundreds long."""
    return st.lists(statements(), min_size=1, max_size=12).map(lambda parts: tuple(t for part in parts for t in part))


@pytest.fixture(scope="session")
def lay_out() -> Callable[[Tokens, int], str]:
    """Return what writes tokens as text, with any layout between them; the number chooses which."""

    def lay_out(tokens: Tokens, seed: int) -> str:
        choose = random.Random(seed)  # noqa: S311  # nothing secret
        text = choose.choice(("", "\ufeff")) + choose.choice(GAPS)
        before = ""
        for token in tokens:
            gap = choose.choice(GAPS)
            if gap == "" and before.isidentifier() and token.isidentifier():
                gap = " "
            text += gap + token
            before = token
        return text + choose.choice(GAPS)

    return lay_out

"""An engine takes every program that the caller may run, in the copy's layout, and no other.

Lark takes the same programs under the caller's published copy, in any layout, and beyond the shape too.
"""

from concurrent.futures import Executor
from itertools import repeat
from typing import Any

import lark
import pytest

from guideway.dsl.ast import (
    Block,
    GetStatus,
    IfRunning,
    Ping,
    Program,
    Restart,
    Statement,
    TryCatch,
)
from guideway.dsl.printer import format_one_line
from tests.engines.callers import CALLERS, UNBOUNDED, Caller
from tests.engines.harness import accepts
from tests.engines.jobs import take
from tests.engines.roster import ENGINES
from tests.engines.samples import programs
from tests.engines.vocabulary import byte_vocabulary
from tests.strategies import block, program, spell


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_takes_exactly_what_the_caller_may_run(engine: str, workers: Executor) -> None:
    callers = list(CALLERS.values())
    vocabularies = ["smollm2" if at % 4 else "bytes" for at in range(len(callers))]
    texts = [[caller.text(tree) for tree in programs(caller)] for caller in callers]
    taken = workers.map(take, repeat(engine), callers, vocabularies, texts, map(str, callers))
    for caller, found in zip(callers, taken, strict=True):
        for tree, is_taken in zip(programs(caller), found, strict=True):
            assert is_taken == (caller.may(tree) and caller.fits(tree)), (caller, format_one_line(tree))
        assert sum(found) >= 20, caller
        assert len(found) - sum(found) >= 20, caller


def _deep(depth: int, command: Ping | Restart) -> Program:
    """Return a program with a command inside so many bodies and blocks."""
    inner: Statement = command
    for level in range(depth):
        inner = TryCatch(0, 0, block(inner), block()) if level % 2 else block(inner)
    return program(inner)


@pytest.mark.parametrize("caller", [it for it in CALLERS.values() if it.shape == UNBOUNDED], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_unbounded_copy_nests_as_deep_as_the_server_reads(engine: str, caller: Caller) -> None:
    start = ENGINES[engine].compile(caller.copy(ENGINES[engine].dialect).text, byte_vocabulary())
    assert caller.written is not None
    (name, *_), command = next((caller.written[it.names], it) for it in (Ping, Restart) if it.scope in caller.scopes)
    for depth, is_read in ((UNBOUNDED.nesting, True), (UNBOUNDED.nesting + 1, False)):
        text = caller.text(_deep(depth, command(0, 0, 0, name)))
        assert accepts(start, byte_vocabulary(), text) == (caller.fault(text) is None) == is_read


# Lark


def _tree(found: "lark.Tree[Any]") -> Program:
    return program(*map(_statement, found.children))


def _statement(found: Any) -> Statement:
    (construct,) = found.children
    match construct.data:
        case "block":
            return block(*map(_statement, construct.children))
        case "try_catch":
            _, body, _, handler = construct.children
            return TryCatch(0, 0, _body(body), _body(handler))
        case "if_running":
            _, name, _, then, *rest = construct.children
            return IfRunning(0, 0, 0, name[1:-1], _body(then), _body(rest[1]) if rest else None)
        case _:
            keyword, name = construct.children
            (command,) = (it for it in (Ping, GetStatus, Restart) if it.keyword == keyword)
            return command(0, 0, 0, name[1:-1])


def _body(found: Any) -> Block:
    statement = _statement(found)
    return statement if isinstance(statement, Block) else block(statement)


@pytest.mark.parametrize("caller", CALLERS.values(), ids=str)
def test_lark_reads_the_same_programs_under_the_published_copy(caller: Caller) -> None:
    reader = lark.Lark(caller.published(), parser="lalr", lexer="contextual")
    for number, tree in enumerate(programs(caller)):
        for text in (caller.bare(caller.text(tree)), spell(tree, number).text):
            try:
                found = _tree(reader.parse(text))
            except lark.UnexpectedInput:
                assert not caller.may(tree), text
            else:
                assert caller.may(tree), text
                assert found == tree

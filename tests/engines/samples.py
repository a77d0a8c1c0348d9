"""Programs to hold a copy to: those of the corpus and random ones, within what its caller may run and beyond."""

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Final

from guideway.dsl import parse
from guideway.dsl.ast import (
    COMMANDS,
    Block,
    Command,
    GetStatus,
    IfRunning,
    Ping,
    Program,
    Restart,
    Statement,
    Target,
    TryCatch,
)
from guideway.dsl.ast import walk as nodes
from tests.dsl.corpus import cases
from tests.engines.callers import Caller, mapped, renamed
from tests.strategies import block, grow, program

_RANDOM: Final = 40  # random programs for each caller


@cache
def _corpus() -> tuple[Program, ...]:
    return tuple({parse(case.text): None for case in cases("valid")})


@cache
def programs(caller: Caller) -> tuple[Program, ...]:
    """Programs of the corpus and random ones, with the caller's names.

    Each comes as it is, then with the caller's commands alone, and then with one name exchanged.
    """
    random = Random(caller.name)
    grown = [
        grow(random.randbytes(random.choice((4, 8, 20, 60))), deepest=random.choice((2, 3, 3, 8)))
        for _ in range(_RANDOM)
    ]
    own = [renamed(tree, caller.written) for tree in (*_corpus(), *grown)]
    able = [renamed(_without_what_it_lacks(tree, caller), caller.written) for tree in (*own, *_at_the_bounds(caller))]
    return tuple(dict.fromkeys((*own, *able, *(_one_name_exchanged(tree, caller, random) for tree in able))))


def _at_the_bounds(caller: Caller) -> Iterator[Program]:
    """Yield programs with as many commands in a row as the copy has, and one more, at the least and the most deep."""
    for depth in (0, 1, caller.shape.nesting, caller.shape.nesting + 1):
        most = caller.most_in_a_row(depth)
        for length in (most or 50, (most or 50) + 1):
            row: tuple[Statement, ...] = tuple(Ping(0, 0, 0, "a") for _ in range(length))
            for _ in range(depth):
                row = (block(*row),)
            yield program(*row)


def _without_what_it_lacks(tree: Program, caller: Caller) -> Program:
    """Return a program with commands that the caller has in place of those that it does not have."""
    has = {it for it in COMMANDS if it.scope in caller.scopes and (caller.names is None or caller.names.get(it.names))}
    (instead, *_) = (it for it in (Ping, Restart, GetStatus) if it in has)

    def inside(old: Block) -> Block:
        return block(*map(of, old.statements))

    def of(old: Statement) -> Statement:
        match old:
            case IfRunning(target=target, then=then, otherwise=otherwise) if IfRunning in has:
                return IfRunning(0, 0, 0, target, inside(then), inside(otherwise) if otherwise else None)
            case IfRunning(then=then, otherwise=otherwise):
                return TryCatch(0, 0, inside(then), inside(otherwise) if otherwise else block())
            case TryCatch(body=body, handler=handler):
                return TryCatch(0, 0, inside(body), inside(handler))
            case Block():
                return inside(old)
            case _:
                return old if type(old) in has else instead(0, 0, 0, old.target)

    return program(*map(of, tree.statements))


def _one_name_exchanged(tree: Program, caller: Caller, random: Random) -> Program:
    """Return a program in which one command names what the caller names with others, or nearly, or not at all."""
    commands = [node for node in nodes(tree) if isinstance(node, Command)]
    at = random.randrange(max(1, len(commands)))
    numbers = iter(range(len(commands)))
    names = [name for kind in Target for name in (caller.written or {}).get(kind, ())[:20]]
    near = [near for name in names for near in (name[:-1], name[1:], f"{name}0") if near[:1].isalnum()]
    foreign = random.choice((*names, *near, "nobodys", "n" * 252, "N", "0.0"))
    return mapped(tree, lambda _, name: foreign if next(numbers) == at else name)

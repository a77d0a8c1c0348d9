"""Every program within a shape, and programs at random within one: from the tree's definition, without a grammar."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from tests.strategies import block, program

from guideway.dsl import Limits, Refusal, parse
from guideway.dsl.ast import (
    Block,
    GetStatus,
    IfRunning,
    Node,
    Ping,
    Program,
    Restart,
    Statement,
    Target,
    TryCatch,
    walk,
)
from guideway.dsl.printer import format_one_line, format_program
from guideway.dsl.scopes import Scope
from guideway.grammar.spell import Layout, Shape

Names = Mapping[Target, Sequence[str]]

WIDE = Limits(bytes=10**9, nesting=10**4, commands=10**9)
#: A token that fits nowhere, so that a parser which is still content reports an error here and not earlier.
POISON = "?"

_SIMPLE = (Ping, GetStatus, Restart)


def laid_out(tree: Program, layout: Layout) -> str:
    """Return the canonical text of a tree, without a line feed at its end."""
    return format_one_line(tree) if layout is Layout.ONE_LINE else format_program(tree).rstrip("\n")


def every_program(scopes: frozenset[Scope], names: Names, shape: Shape) -> Iterator[Program]:
    """Yield each program within a shape that these scopes and names allow."""
    assert shape.statements is not None

    def rows(depth: int, least: int) -> Iterator[tuple[Statement, ...]]:
        found = tuple(statements(depth))
        for length in range(least, max(1, shape.statements >> depth) + 1):  # type: ignore[operator]
            yield from product(found, repeat=length)

    def statements(depth: int) -> Iterator[Statement]:
        for command in _SIMPLE:
            if command.scope in scopes:
                yield from (command(0, 0, 0, name) for name in names[command.names])
        if depth == shape.nesting:
            return
        bodies = [block(*row) for row in rows(depth + 1, 0)]
        if IfRunning.scope in scopes:
            for name, then, otherwise in product(names[Target.SERVICE], bodies, [None, *bodies]):
                yield IfRunning(0, 0, 0, name, then, otherwise)
        yield from (TryCatch(0, 0, body, handler) for body, handler in product(bodies, repeat=2))
        yield from bodies

    yield from (program(*row) for row in rows(0, 1))


def is_within(tree: Program, scopes: frozenset[Scope], names: Names, shape: Shape) -> bool:
    """Say whether a program is within a shape, and these scopes and names allow it."""

    def fits(node: Node, depth: int) -> bool:
        match node:
            case Block(statements=inner):
                most = None if shape.statements is None else max(1, shape.statements >> depth + 1)
                return (
                    depth < shape.nesting
                    and (most is None or len(inner) <= most)
                    and all(fits(one, depth + 1) for one in inner)
                )
            case IfRunning(then=then, otherwise=otherwise):
                return fits(then, depth) and (otherwise is None or fits(otherwise, depth))
            case TryCatch(body=body, handler=handler):
                return fits(body, depth) and fits(handler, depth)
            case _:
                return True

    commands = [node for node in walk(tree) if isinstance(node, Ping | GetStatus | Restart | IfRunning)]
    return (
        (shape.statements is None or len(tree.statements) <= shape.statements)
        and all(fits(one, 0) for one in tree.statements)
        and all(command.scope in scopes and command.target in names[command.names] for command in commands)
    )


def random_program(seed: int, scopes: frozenset[Scope], names: Names, shape: Shape) -> Program:
    """Return a program within a shape that these scopes and names allow; often as long and as deep as can be."""
    choose = random.Random(seed)  # noqa: S311  # nothing secret

    def row(depth: int, least: int) -> tuple[Statement, ...]:
        most = 8 if shape.statements is None else max(1, shape.statements >> depth)
        length = choose.choice((least, most, choose.randint(least, most))) if depth < 2 else choose.randint(least, 1)
        return tuple(statement(depth) for _ in range(length))

    def body(depth: int) -> Block:
        return block(*row(depth + 1, 0))

    def statement(depth: int) -> Statement:
        simple = [command for command in _SIMPLE if command.scope in scopes]
        if depth == shape.nesting or choose.random() < 0.5:
            command = choose.choice(simple)
            return command(0, 0, 0, choose.choice(names[command.names]))
        match choose.choice("bti" if IfRunning.scope in scopes else "bt"):
            case "b":
                return body(depth)
            case "t":
                return TryCatch(0, 0, body(depth), body(depth))
            case _:
                otherwise = body(depth) if choose.random() < 0.5 else None
                return IfRunning(0, 0, 0, choose.choice(names[Target.SERVICE]), body(depth), otherwise)

    return program(*row(0, 1))


def is_content(text: str) -> bool:
    """Say whether the parser finds nothing wrong with a text so far: its first error is a token put behind it."""
    closing = " }" * (text.count("{") - text.count("}"))  # an open block would be reported where it opens
    try:
        parse(f"{text} {POISON}{closing}", limits=WIDE)
    except Refusal as refusal:
        return min(found.span.start for found in refusal.diagnostics) == len(text) + 1
    raise AssertionError(f"accepted with `{POISON}` behind it: {text}")

"""The typed tree of a program. Every node is frozen and knows where it stands in the source.

Here each command is defined: its keyword, what it names, the scope that it needs, whether it changes anything,
its documentation and an example. The keyword table, trimming, help, completion and the reference page derive from
these classes. The syntax of a command stands in ``grammar/diagnostic.lark`` under the rule of the same name
(class ``GetStatus``, rule ``get_status``).

Trees are equal when they mean the same: positions and the program's source do not count, and a body is a
block whether or not it was written with braces.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source, Span


class Target(StrEnum):
    """What kind of inventory entry a command names; the value is the grammar's terminal for such names."""

    HOST = "HOST"
    SERVICE = "SERVICE"
    RESTARTABLE = "RESTARTABLE"


class Node(Record):
    """Part of a program; ``start`` and ``end`` are offsets in its source, as in ``Span``."""

    _places: ClassVar[int] = 2  # how many leading fields say where, not what

    start: int
    end: int

    @property
    def span(self) -> Span:
        """Where the node stands, from its first token to the end of its last."""
        return Span(self.start, self.end)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self[self._places :] == other[self._places :]

    def __hash__(self) -> int:
        return hash((type(self), self[self._places :]))


class Command(Node):
    """A node that does something and leaves one step in the log. ``head`` is where its name ends."""

    _places: ClassVar[int] = 3
    keyword: ClassVar[str]
    names: ClassVar[Target]
    scope: ClassVar[Scope]
    mutates: ClassVar[bool]
    summary: ClassVar[str]
    example: ClassVar[str]

    head: int
    target: str

    @property
    def head_span(self) -> Span:
        """The keyword and the name, without the bodies."""
        return Span(self.start, self.head)

    @property
    def target_span(self) -> Span:
        """The name, with its quotes."""
        return Span(self.head - len(self.target) - 2, self.head)


class Ping(Command):
    """Probe a host."""

    keyword = "PING"
    names = Target.HOST
    scope = Scope.READ
    mutates = False
    summary = "probe a host; fails when it does not answer"
    example = 'PING "api.internal"'


class GetStatus(Command):
    """Read the state of a service."""

    keyword = "GET_STATUS"
    names = Target.SERVICE
    scope = Scope.READ
    mutates = False
    summary = "read the state of a service; fails when it cannot be found out"
    example = 'GET_STATUS "database"'


class Restart(Command):
    """Restart a service and see it healthy."""

    keyword = "RESTART"
    names = Target.RESTARTABLE
    scope = Scope.WRITE
    mutates = True
    summary = "restart a service; fails unless it is seen healthy again before its deadline"
    example = 'RESTART "database"'


class IfRunning(Command):
    """Branch on whether a service runs."""

    keyword = "IF_RUNNING"
    names = Target.SERVICE
    scope = Scope.READ
    mutates = False
    summary = "run THEN where a service runs, ELSE where it is down; fails when that cannot be found out"
    example = 'IF_RUNNING "database" THEN { PING "api.internal" } ELSE { GET_STATUS "cache" }'

    then: "Block"
    otherwise: "Block | None"


class TryCatch(Node):
    """Run ``body``; where it fails, contain the failure and run ``handler``."""

    body: "Block"
    handler: "Block"


class Block(Node):
    """Statements in order. An implied block (a body without braces) spans its only statement."""

    statements: "tuple[Statement, ...]"


class Program(Node):
    """A whole program: one or more statements, and the text that it was read from."""

    _places: ClassVar[int] = 3

    source: Source
    statements: "tuple[Statement, ...]"


Statement = Ping | GetStatus | Restart | IfRunning | TryCatch | Block

#: Every command, in the order in which documentation lists them.
COMMANDS: tuple[type[Command], ...] = (Ping, GetStatus, Restart, IfRunning)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below one, in the order of the text."""
    match node:
        case IfRunning(then=then, otherwise=None):
            return (then,)
        case IfRunning(then=then, otherwise=Block() as otherwise):
            return (then, otherwise)
        case TryCatch(body=body, handler=handler):
            return (body, handler)
        case Block(statements=statements) | Program(statements=statements):
            return statements
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, in the order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)

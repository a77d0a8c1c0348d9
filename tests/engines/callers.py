"""Callers whose copies the engines are held to: every set of scopes, and inventories that a copy could trip over.

Owns who the callers are and what each of them may write, restated here in the language's own terms: nothing below reads
a grammar. What a copy says of itself is taken at its word, to be held to it: its shape, and where it names anything.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Final, assert_never

from guideway.dsl import Limits, Refusal, analyze, format_program, parse
from guideway.dsl.ast import Block, Command, GetStatus, IfRunning, Ping, Program, Restart, Statement, Target, TryCatch
from guideway.dsl.lexer import is_name
from guideway.dsl.patterns import NamePattern, Spelling, read_pattern
from guideway.dsl.printer import format_one_line
from guideway.dsl.scopes import Scope
from guideway.grammar import FINITE, Form, GrammarCopy, Layout, Shape, Wrap, copy_for
from tests.strategies import block, program

Names = Mapping[Target, tuple[Spelling, ...]]

UNBOUNDED: Final = Shape(nesting=64, statements=None)
_WIDE: Final = Limits(bytes=10**9, nesting=100, commands=10**9)
TOOL: Final = "execute_diagnostic_pipeline"


@dataclass(frozen=True, eq=False)
class Caller:
    """A caller, and the copy that it asks for. ``names`` is None where it may use any name."""

    name: str
    scopes: frozenset[Scope]
    names: Names | None
    layout: Layout = Layout.ONE_LINE
    shape: Shape = FINITE
    wrap: Wrap = Wrap.NONE
    share: int = 40  # of the walks, beside the other callers': less where an engine is slow

    def __str__(self) -> str:
        return self.name

    def copy(self, dialect: str) -> GrammarCopy:
        """Return the caller's copy."""
        return copy_for(self.scopes, dialect, names=self.names, layout=self.layout, shape=self.shape, wrap=self.wrap)

    def published(self) -> str:
        """Return the caller's copy in the syntax of Lark, in which layout is free."""
        return copy_for(self.scopes, "lark", names=self.names).text

    def may_name(self, kind: Target, name: str) -> bool:
        """Say whether the copy has a command of the kind with this name."""
        if self.names is None:
            return is_name(name)
        usable, patterns, longest = _usable(self, kind)
        if usable and _promised(self).names.get(kind) is Form.PATTERN:
            return is_name(name) and len(name) <= longest
        return name in usable or any(means(pattern, name) for pattern in patterns)

    @property
    def written(self) -> Mapping[Target, tuple[str, ...]] | None:
        """Names to write: the caller's own, and of a pattern some, the shortest and the longest among them."""
        return None if self.names is None else _all_written(self)

    def may(self, tree: Program) -> bool:
        """Say whether the caller may run a program: its scopes, and its names with each command."""
        found = analyze(tree)
        return found.scopes <= self.scopes and all(
            self.may_name(command.names, command.target) for command in found.commands
        )

    def most_in_a_row(self, depth: int) -> int | None:
        """Return how many statements the copy has in a row, inside so many bodies and blocks."""
        shape = _promised(self).shape
        assert shape is not None
        return None if shape.statements is None else max(1, shape.statements // 2**depth)

    def fits(self, tree: Program) -> bool:
        """Say whether a program is within the copy's shape."""

        def fitting(statements: tuple[Statement, ...], depth: int) -> bool:
            most = self.most_in_a_row(depth)
            return (
                depth <= self.shape.nesting
                and (most is None or len(statements) <= most)
                and all(fitting(body.statements, depth + 1) for each in statements for body in bodies(each))
            )

        return fitting(tree.statements, 0)

    def text(self, tree: Program) -> bytes:
        """Return the one text of a program that the copy has, where it has the program."""
        bare = format_one_line(tree)
        if self.layout is Layout.LINES:
            bare = format_program(parse(bare, limits=_WIDE)).removesuffix("\n")
        return _call(self.wrap, bare).encode()

    def bare(self, text: bytes) -> str:
        """Return the program in a text, taken out as a host does. Raises ValueError, KeyError or TypeError."""
        return _called(self.wrap, text.decode())

    def fault(self, text: bytes) -> str | None:
        """Return what is wrong with a text that an engine let a model write; None where nothing is."""
        try:
            tree = parse(self.bare(text))  # with the server's default limits
        except (ValueError, KeyError, TypeError, Refusal) as refusal:
            return f"is not read: {refusal!r}"
        if not analyze(tree).scopes <= self.scopes:
            return "needs another scope"
        if not self.may(tree):
            return "names what the caller may not use there"
        if not self.fits(tree):
            return "is beyond the shape"
        if self.text(tree) != text:
            return "is not the canonical text"
        return None


@cache
def _promised(caller: Caller) -> GrammarCopy:
    """Return a copy, for what it says of itself whatever the dialect: its shape, and the form of its names."""
    return caller.copy("gbnf")


@cache
def _usable(caller: Caller, kind: Target) -> tuple[frozenset[str], tuple[NamePattern, ...], int]:
    """Return names, patterns, and how long the longest name is."""
    named = (caller.names or {}).get(kind, ())
    texts = frozenset(name for name in named if isinstance(name, str))
    return texts, tuple(name for name in named if isinstance(name, NamePattern)), max(map(len, texts), default=0)


def means(pattern: NamePattern, name: str) -> bool:
    """Say whether a pattern means a name: by a regular expression of this file's own."""
    expression = re.escape(pattern.text).replace(r"\*", "[A-Za-z0-9_-]{1,63}")
    return is_name(name) and re.fullmatch(expression, name) is not None and name not in pattern.but


@cache
def _all_written(caller: Caller) -> Mapping[Target, tuple[str, ...]]:
    named = (caller.names or {}).items()
    return {kind: tuple(name for one in names for name in _written(one)) for kind, names in named}


def _written(one: Spelling) -> Iterator[str]:
    if isinstance(one, str):
        yield one
        return
    for star in ("1", "a", "x-1", "Z_", "0" * 63):
        name = one.example(star)
        if name not in one.but:
            yield name


def bodies(statement: Statement) -> tuple[Block, ...]:
    """Return the bodies of a statement, one level further in; a block is its own."""
    match statement:
        case Ping() | GetStatus() | Restart():
            return ()
        case IfRunning(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case TryCatch(body=body, handler=handler):
            return (body, handler)
        case Block():
            return (statement,)
        case _:
            assert_never(statement)


def renamed(tree: Program, names: Mapping[Target, tuple[str, ...]] | None) -> Program:
    """Return a program with the caller's names in place of its own, each always by the same one, in turn.

    A name of a kind that the caller has none of stays.
    """
    seen: dict[Target, dict[str, str]] = {}

    def name(command: type[Command], old: str) -> str:
        usable = (names or {}).get(command.names, ())
        given = seen.setdefault(command.names, {})
        return given.setdefault(old, usable[len(given) % len(usable)]) if usable else old

    return mapped(tree, name)


def mapped(tree: Program, name: Callable[[type[Command], str], str]) -> Program:
    """Return a program, without places, whose targets are ``name(type of the command, target)``."""

    def inside(old: Block) -> Block:
        return block(*map(of, old.statements))

    def of(old: Statement) -> Statement:
        match old:
            case Ping() | GetStatus() | Restart():
                return type(old)(0, 0, 0, name(type(old), old.target))
            case IfRunning(target=target, then=then, otherwise=otherwise):
                return IfRunning(
                    0, 0, 0, name(IfRunning, target), inside(then), None if otherwise is None else inside(otherwise)
                )
            case TryCatch(body=body, handler=handler):
                return TryCatch(0, 0, inside(body), inside(handler))
            case Block():
                return inside(old)
            case _:
                assert_never(old)

    return program(*map(of, tree.statements))


# What hosts make of a call, read as their templates write it


def _call(wrap: Wrap, bare: str) -> str:
    arguments = json.dumps({"program": bare})
    match wrap:
        case Wrap.NONE:
            return bare
        case Wrap.JSON:
            return arguments
        case Wrap.HERMES:
            return f'<tool_call>\n{{"name": "{TOOL}", "arguments": {arguments}}}\n</tool_call>'
        case Wrap.LLAMA3:
            return f'{{"name": "{TOOL}", "parameters": {arguments}}}'
        case Wrap.MISTRAL:
            return f'[TOOL_CALLS][{{"name": "{TOOL}", "arguments": {arguments}}}]'
        case _:
            assert_never(wrap)


def _called(wrap: Wrap, text: str) -> str:
    """Return the program of a call, by an ordinary JSON parser. Raises ValueError, KeyError or TypeError."""
    match wrap:
        case Wrap.NONE:
            return text
        case Wrap.JSON:
            (found,) = json.loads(text).items()
            return str(dict([found])["program"])
        case Wrap.HERMES:
            called = re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", text, re.DOTALL)
            call, key = json.loads(called[1] if called else ""), "arguments"
        case Wrap.LLAMA3:
            call, key = json.loads(text), "parameters"
        case Wrap.MISTRAL:
            (call,), key = json.loads(text.removeprefix("[TOOL_CALLS]")), "arguments"
        case _:
            assert_never(wrap)
    if call.pop("name") != TOOL:
        raise ValueError("another tool")
    return _called(Wrap.JSON, json.dumps(call[key]))


# The callers

_READ, _WRITE, _APPROVE = frozenset({Scope.READ}), frozenset({Scope.WRITE}), frozenset({Scope.APPROVE})
_BOTH = _READ | _WRITE

_HOST, _SERVICE, _RESTARTABLE = Target.HOST, Target.SERVICE, Target.RESTARTABLE
_FEW: Final[Names] = {
    _HOST: ("api.internal", "10.0.0.1"),
    _SERVICE: ("database", "cache", "queue"),
    _RESTARTABLE: ("cache",),
}
_MARKS: Final = "._:@-"


def _everywhere(*names: Spelling) -> Names:
    return dict.fromkeys(Target, names)


def _random_names(count: int) -> tuple[str, ...]:
    random = Random(count)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    found: set[str] = set()
    while len(found) < count:
        found.add("".join(random.choices(letters, k=random.randint(4, 16))) + random.choice(("", ".lan", ":80", "@eu")))
    return tuple(sorted(found))


_REGULAR = tuple(f"web-{number:04}" for number in range(10_000))
_LONG = tuple(f"{letter * 200}{number:053}" for letter in "aZ" for number in range(2))
_MARKED = tuple(f"a{mark}b" for mark in _MARKS)
_MARKED_TREE = tuple(f"{a}{mark}{other}{b}" for a, mark, other, b in product("x0", _MARKS, _MARKS, "y9"))
_PREFIXES = ("a", "aa", "aa-a", "aaa", "web", "web-1", "web-10", "web-100")
_PATTERNS: Final[Names] = {
    _HOST: tuple(map(read_pattern, ("*", "*.*.prod", "db-*:x"))),
    _SERVICE: (read_pattern("web-*"), read_pattern("nginx@*"), "web-1", "web-10", "database"),
    _RESTARTABLE: (read_pattern("web-*").replace(but=frozenset(("web-1", "web-10", "web--"))), "database"),
}
_KEYWORDS = ("RESTART", "THEN", "ELSE", "IF_RUNNING", "PING", "PING2", "PING_", "TRY", "CATCH")

CALLERS: Final[Mapping[str, Caller]] = {
    caller.name: caller
    for caller in (
        Caller("reader", _READ, _FEW),
        Caller("reader-lines", _READ, _FEW, Layout.LINES),
        Caller("writer", _WRITE, _FEW),
        Caller("writer-lines", _WRITE, _FEW, Layout.LINES),
        Caller("both", _BOTH, _FEW),
        Caller("both-lines", _BOTH, _FEW, Layout.LINES),
        Caller("reader-who-approves", _READ | _APPROVE, _FEW),
        Caller("writer-who-approves", _WRITE | _APPROVE, _FEW),
        Caller("all-scopes", _BOTH | _APPROVE, _FEW),
        Caller("reader-of-hosts", _READ, {_HOST: _FEW[_HOST]}),
        Caller("reader-of-services-lines", _READ, {_SERVICE: _FEW[_SERVICE]}, Layout.LINES),
        Caller("nothing-to-restart", _BOTH, {_HOST: ("a",), _SERVICE: ("b",), _RESTARTABLE: ()}),
        Caller("nothing-but-a-restart", _BOTH, {_RESTARTABLE: ("a",)}),
        Caller("one-name", _BOTH, _everywhere("0")),
        Caller("other-tenant", _BOTH, {_HOST: ("cache",), _SERVICE: ("api.internal",), _RESTARTABLE: ("database",)}),
        Caller("marks", _BOTH, _everywhere(*_MARKED)),
        Caller("marks-in-a-tree", _READ, _everywhere(*_MARKED_TREE), Layout.LINES),
        Caller("prefixes", _BOTH, _everywhere(*_PREFIXES)),
        Caller("keywords", _BOTH, _everywhere(*_KEYWORDS)),
        Caller("long-names", _BOTH, _everywhere(*_LONG), share=10),
        Caller("patterns", _BOTH, _PATTERNS, share=10),
        Caller("patterns-json-lines", _BOTH, _PATTERNS, Layout.LINES, wrap=Wrap.JSON, share=10),
        Caller(
            "patterns-beside-a-tree",
            _BOTH,
            _everywhere(*_random_names(65), read_pattern("web-*.eu"), read_pattern("*-eu:*")),
            share=10,
        ),
        Caller("any-name", _BOTH, None, share=1),
        Caller("64-names", _BOTH, _everywhere(*_random_names(64))),
        Caller("65-names", _BOTH, _everywhere(*_random_names(65)), Layout.LINES),
        Caller("1,000-names", _BOTH, {**_FEW, _SERVICE: _REGULAR[:1000], _RESTARTABLE: _REGULAR[990:1000]}),
        Caller("1,000-random-names", _BOTH, {**_FEW, _HOST: _random_names(1000)}, share=4),
        Caller("10,000-names", _BOTH, _everywhere(*_REGULAR), share=4),
        Caller("10,000-random-names", _READ, {**_FEW, _HOST: _random_names(10_000)}, share=4),
        Caller("unbounded", _BOTH, _FEW, shape=UNBOUNDED),
        Caller("unbounded-lines", _READ, _FEW, Layout.LINES, UNBOUNDED),
        Caller("unbounded-writer", _WRITE, _everywhere(*_PREFIXES), shape=UNBOUNDED),
        Caller("json", _BOTH, _FEW, wrap=Wrap.JSON),
        Caller("json-lines", _BOTH, _everywhere(*_MARKED), Layout.LINES, wrap=Wrap.JSON),
        Caller("json-unbounded", _READ, _FEW, Layout.LINES, UNBOUNDED, Wrap.JSON),
        Caller("json-in-a-tree", _READ, _everywhere(*_MARKED_TREE), wrap=Wrap.JSON),
        Caller("hermes", _READ, _FEW, wrap=Wrap.HERMES),
        Caller("llama3-lines", _BOTH, _FEW, Layout.LINES, wrap=Wrap.LLAMA3),
        Caller("mistral", _WRITE, _FEW, wrap=Wrap.MISTRAL),
    )
}

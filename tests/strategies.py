"""Hypothesis strategies for programs: trees, the scripts that spell them, and texts that are nearly programs.

Use them as ``from tests.strategies import scripts``. ``programs()`` gives trees without places, which are equal to
what ``parse`` returns for any spelling of them; ``scripts()`` gives a tree with one random spelling of it: any
layout, comments in any gap, braces left out wherever the language lets them be left out.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from guideway.dsl.ast import Block, GetStatus, IfRunning, Ping, Program, Restart, Statement, TryCatch
from guideway.dsl.source import Source

KEYWORDS = ("PING", "GET_STATUS", "RESTART", "IF_RUNNING", "THEN", "ELSE", "TRY", "CATCH")

#: Mostly a few, so that programs touch the same target twice.
NAMES = (*("database", "cache", "api.internal") * 4, "0", "A.b_c:d@e-f", "10.0.0.1", "PING", "ELSE", "n" * 253)


@dataclass(frozen=True)
class Script:
    """A program as somebody wrote it: its text, the tree that it spells, and the comments in it, in order."""

    text: str
    program: Program
    comments: tuple[str, ...]


def block(*statements: Statement) -> Block:
    """Return a block that is nowhere."""
    return Block(0, 0, statements)


def program(*statements: Statement) -> Program:
    """Return a program that is nowhere."""
    return Program(0, 0, Source(""), statements)


def programs(names: Sequence[str] = NAMES, *, size: int = 60) -> st.SearchStrategy[Program]:
    """Return trees of programs without places, with some of these names and at most ``size`` statements.

    A tree is read off a string of bytes, which is drawn at once and shrinks fast: the empty one gives one PING.
    """
    return st.binary(max_size=size).map(lambda choices: grow(choices, names))


def grow(choices: bytes, names: Sequence[str] = NAMES, *, deepest: int = 8) -> Program:
    """Return the tree that a string of bytes chooses."""
    left = iter(choices)

    def sequence(depth: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while (choice := next(left, 0)) & 3:  # one in four ends the sequence
            found.append(statement(choice >> 2, depth))
        return tuple(found)

    def body(depth: int) -> Block:
        return block(*sequence(depth + 1))

    def statement(choice: int, depth: int) -> Statement:
        kind, name = choice % 8, names[choice // 8 * 7 % len(names)]
        if depth >= deepest:
            kind %= 3
        match kind:
            case 0:
                return Ping(0, 0, 0, name)
            case 1:
                return GetStatus(0, 0, 0, name)
            case 2:
                return Restart(0, 0, 0, name)
            case 3:
                return IfRunning(0, 0, 0, name, body(depth), None)
            case 4:
                return IfRunning(0, 0, 0, name, body(depth), body(depth))
            case 5 | 6:
                return TryCatch(0, 0, body(depth), body(depth))
            case _:
                return body(depth)

    return program(*(sequence(0) or (Ping(0, 0, 0, names[0]),)))


# Layout

_Gap = tuple[str, tuple[str, ...]]  # what stands between two tokens, and the comments in it

_COMMENTS = ("#", "# why", "#}", '# "x', "## TRY { ;", "#\ttab\t", "# \u00e9\u6f22\u00a0\U0001f642 ", "#\u00a0")
_NO_GAP: _Gap = ("", ())


def _gaps(newline: str) -> tuple[_Gap, ...]:
    """Return gaps that are not empty: about one in four holds a comment, some hold two."""
    plain: list[_Gap] = [(space, ()) for space in (" ", "  ", "\t", newline, newline * 2, newline + "    ")]
    one: list[_Gap] = [
        (before + comment + newline + after, (comment,))
        for before in ("", " ", newline, newline * 2)
        for comment in _COMMENTS
        for after in ("", "  ", newline)
    ]
    two: list[_Gap] = [(a + b, said + more) for (a, said), (b, more) in zip(one, reversed(one), strict=True)]
    return (*plain * (len(one) // 2), *one, *two)


_GAPS = {newline: _gaps(newline) for newline in ("\n", "\r\n")}


@st.composite
def scripts(draw: st.DrawFn, names: Sequence[str] = NAMES, *, size: int = 60) -> Script:
    """Return programs as somebody might write them.

    One number chooses the whole layout, so that a failing example shrinks fast; 0 is the plainest.
    """
    return spell(draw(programs(names, size=size)), draw(st.integers(0, 2**32)))


def spell(tree: Program, seed: int) -> Script:
    """Write a tree in a layout that the number chooses: 0 has a space between tokens, and all braces."""
    choose = random.Random(seed)  # noqa: S311  # nothing secret
    if seed == 0:
        return Script(" ".join(_tokens(tree, lambda: False)), tree, ())
    tokens = _tokens(tree, lambda: choose.random() < 0.5)
    newline = choose.choice(("\n", "\n", "\r\n"))
    tightness = choose.random()

    def gap() -> _Gap:
        return choose.choice(_GAPS[newline])

    text = choose.choice(("", "", "\ufeff"))
    comments: tuple[str, ...] = ()
    before = ""
    for token in tokens:
        needed = before in KEYWORDS and token in KEYWORDS
        between, said = gap() if needed or choose.random() > tightness else _NO_GAP
        text += between + token
        comments += said
        before = token
    last, said = gap()
    if said and choose.random() < 0.5:  # a comment may end the text
        last = last[: last.rindex(said[-1]) + len(said[-1])]
    return Script(text + last, tree, comments + said)


def _tokens(tree: Program, bare: Callable[[], bool]) -> list[str]:
    """Return the tokens of a tree; ``bare`` is asked where the braces of a body may be left out."""
    return [token for statement in tree.statements for token in _spell(statement, bare)[0]]


def _spell(statement: Statement, bare: Callable[[], bool]) -> tuple[list[str], bool]:
    """Return a statement's tokens, and whether an ELSE behind them would become part of it."""
    match statement:
        case IfRunning(target=target, then=then, otherwise=None):
            return ["IF_RUNNING", f'"{target}"', "THEN", *_spell_body(then, bare)[0]], True
        case IfRunning(target=target, then=then, otherwise=Block() as otherwise):
            body, _ = _spell_body(then, bare, closed=True)
            other, is_open = _spell_body(otherwise, bare)
            return ["IF_RUNNING", f'"{target}"', "THEN", *body, "ELSE", *other], is_open
        case TryCatch(body=body_block, handler=handler_block):
            body, _ = _spell_body(body_block, bare)
            handler, is_open = _spell_body(handler_block, bare)
            return ["TRY", *body, "CATCH", *handler], is_open
        case Block(statements=inner):
            return ["{", *(token for each in inner for token in _spell(each, bare)[0]), "}"], False
        case _:
            return [statement.keyword, f'"{statement.target}"'], False


def _spell_body(body: Block, bare: Callable[[], bool], *, closed: bool = False) -> tuple[list[str], bool]:
    """Return a body's tokens; ``closed``: an ELSE comes behind it, and is not its own."""
    if len(body.statements) == 1 and not isinstance(body.statements[0], Block) and bare():
        tokens, is_open = _spell(body.statements[0], bare)
        if not (closed and is_open):
            return tokens, is_open
    return _spell(body, bare)


# Texts that are nearly programs

SOUP = (
    *KEYWORDS,
    '"database"',
    '"a"',
    "{",
    "}",
    "\n",
    "# note\n",
    "#",
    '"',
    "'",
    "database",
    "ping",
    "else",
    "catch",
    "IF",
    "ELIF",
    "GET",
    "STATUS",
    "FOO",
    ";",
    ",",
    "(",
    ")",
    "&&",
    "//",
    "/*",
    "```",
    "\r",
    "\r\n",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "\ufeff",
    "\u202e",
    "\u00a0",
    "漢字",
    "“a”",
    '"a b"',
    '""',
    '"-x"',
    '"' + "n" * 254 + '"',
    "7",
)


def token_soup() -> st.SearchStrategy[str]:
    """Return any tokens and near-tokens in any order, with or without spaces between them."""
    pieces = st.lists(st.sampled_from(SOUP), max_size=30)
    return st.builds(lambda found, between: between.join(found), pieces, st.sampled_from([" ", " ", "", "\n"]))


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """Return a program with a few pieces taken out, put in, doubled or exchanged."""
    pieces = re.findall(r'\w+|"[^"]*"|\s+|.', draw(scripts(size=30)).text, re.DOTALL)
    choose = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311  # nothing secret
    for _ in range(draw(st.integers(1, 4))):
        at = choose.randint(0, len(pieces))
        match choose.choice(("drop", "insert", "double", "exchange", "cut")):
            case "drop":
                del pieces[at : at + 1]
            case "insert":
                pieces.insert(at, choose.choice(SOUP))
            case "double":
                pieces[at:at] = pieces[at : at + 1]
            case "exchange":
                pieces[at : at + 2] = reversed(pieces[at : at + 2])
            case _:
                del pieces[at:]
    return "".join(pieces)


def garbage() -> st.SearchStrategy[str]:
    """Return any text at all, with control characters and lone surrogates."""
    return st.text(st.characters(categories=("L", "M", "N", "P", "S", "Z", "C", "Cs")), max_size=200)

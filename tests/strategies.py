"""Hypothesis strategies for programs: trees, the scripts that spell them, and texts that are nearly programs.

Use them as ``from tests.strategies import scripts``. ``programs()`` gives trees without places, which are equal to
what ``parse`` returns for any spelling of them; ``scripts()`` gives a tree with one random spelling of it: any
layout, comments in any gap, braces left out wherever the language lets them be left out.
"""

import re
import string
from dataclasses import dataclass
from functools import partial

from hypothesis import strategies as st

from guideway.dsl.ast import Block, GetStatus, IfRunning, Ping, Program, Restart, Statement, TryCatch
from guideway.dsl.source import Source

KEYWORDS = ("PING", "GET_STATUS", "RESTART", "IF_RUNNING", "THEN", "ELSE", "TRY", "CATCH")
FEW_NAMES = ("database", "cache", "api.internal")


@dataclass(frozen=True)
class Script:
    """A program as somebody wrote it: its text, the tree that it spells, and the comments in it, in order."""

    text: str
    program: Program
    comments: tuple[str, ...]


def names() -> st.SearchStrategy[str]:
    """Return names: mostly one of a few, so that programs touch the same target twice; sometimes any."""
    any_name = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,252}", fullmatch=True)
    return st.sampled_from(FEW_NAMES) | st.sampled_from(FEW_NAMES) | any_name


def block(*statements: Statement) -> Block:
    """Return a block that is nowhere."""
    return Block(0, 0, statements)


def program(*statements: Statement) -> Program:
    """Return a program that is nowhere."""
    return Program(0, 0, Source(""), statements)


def statements(of: st.SearchStrategy[str] | None = None, *, leaves: int = 12) -> st.SearchStrategy[Statement]:
    """Return statements without places, up to a number of simple commands; ``of`` gives the names."""
    targets = of if of is not None else names()
    simple = st.one_of(*(st.builds(partial(command, 0, 0, 0), targets) for command in (Ping, GetStatus, Restart)))

    def compound(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
        bodies = st.lists(inner, max_size=3).map(lambda found: block(*found))
        return st.one_of(
            st.builds(partial(IfRunning, 0, 0, 0), targets, bodies, st.none() | bodies),
            st.builds(partial(TryCatch, 0, 0), bodies, bodies),
            bodies,
        )

    return st.recursive(simple, compound, max_leaves=leaves)


def programs(of: st.SearchStrategy[str] | None = None, *, leaves: int = 12) -> st.SearchStrategy[Program]:
    """Return trees of programs without places."""
    return st.lists(statements(of, leaves=leaves), min_size=1, max_size=4).map(lambda found: program(*found))


# Layout

_COMMENT_TEXT = st.text(st.sampled_from(string.ascii_letters + ' {}"#\t;é漢\u00a0'), max_size=12)


def _gaps(newline: str) -> st.SearchStrategy[tuple[str, tuple[str, ...]]]:
    """Return what may stand between two tokens, with the comments in it."""
    space = st.sampled_from([" ", "  ", "\t", newline, newline * 2, newline + "    "])

    def comment(before: str, text: str, after: str) -> tuple[str, tuple[str, ...]]:
        return f"{before}#{text}{newline}{after}", ("#" + text,)

    def both(one: tuple[str, tuple[str, ...]], two: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
        return one[0] + two[0], one[1] + two[1]

    plain = st.tuples(space, st.just(()))
    commented = st.builds(comment, st.just("") | space, _COMMENT_TEXT, st.just("") | space)
    return st.one_of(plain, plain, plain, plain, commented, st.builds(both, commented, commented))


@st.composite
def scripts(draw: st.DrawFn, of: st.SearchStrategy[str] | None = None, *, leaves: int = 12) -> Script:
    """Return programs as somebody might write them."""
    tree = draw(programs(of, leaves=leaves))
    tokens = draw(spellings(tree))
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    gap = _gaps(newline)
    text = draw(st.sampled_from(["", "", "\ufeff"]))
    comments: list[str] = []
    for index, token in enumerate(tokens):
        tight = index == 0 or not (_is_word(tokens[index - 1]) and _is_word(token))
        between, said = draw(st.just(("", ())) | gap if tight else gap)
        text += between + token
        comments += said
    last, said = draw(st.just(("", ())) | gap)
    text += last
    comments += said
    if comments and last.endswith(newline) and said and draw(st.booleans()):
        text = text.rstrip("\r\n")  # a comment may end the text
        text = text if text.endswith(said[-1]) else text + newline
    return Script(text, tree, tuple(comments))


@st.composite
def spellings(draw: st.DrawFn, tree: Program) -> list[str]:
    """Return the tokens of a tree, with braces left out of some of the bodies that need none."""
    tokens: list[str] = []
    for statement in tree.statements:
        tokens += _spell(draw, statement)[0]
    return tokens


def _spell(draw: st.DrawFn, statement: Statement) -> tuple[list[str], bool]:
    """Return a statement's tokens, and whether an ELSE behind them would become part of it."""
    match statement:
        case IfRunning(target=target, then=then, otherwise=None):
            return ["IF_RUNNING", f'"{target}"', "THEN", *_spell_body(draw, then)[0]], True
        case IfRunning(target=target, then=then, otherwise=Block() as otherwise):
            body, _ = _spell_body(draw, then, closed=True)
            other, is_open = _spell_body(draw, otherwise)
            return ["IF_RUNNING", f'"{target}"', "THEN", *body, "ELSE", *other], is_open
        case TryCatch(body=body_block, handler=handler_block):
            body, _ = _spell_body(draw, body_block)
            handler, is_open = _spell_body(draw, handler_block)
            return ["TRY", *body, "CATCH", *handler], is_open
        case Block(statements=inner):
            return ["{", *(token for each in inner for token in _spell(draw, each)[0]), "}"], False
        case _:
            return [statement.keyword, f'"{statement.target}"'], False


def _spell_body(draw: st.DrawFn, body: Block, *, closed: bool = False) -> tuple[list[str], bool]:
    """Return a body's tokens; ``closed``: an ELSE comes behind it, and is not its own."""
    if len(body.statements) == 1 and not isinstance(body.statements[0], Block) and draw(st.booleans()):
        tokens, is_open = _spell(draw, body.statements[0])
        if not (closed and is_open):
            return tokens, is_open
    return _spell(draw, body)


def _is_word(token: str) -> bool:
    return token in KEYWORDS


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
    pieces = re.findall(r'\w+|"[^"]*"|\s+|.', draw(scripts()).text, re.DOTALL)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(pieces) - 1)))
        match draw(st.sampled_from(["drop", "insert", "double", "exchange", "cut"])):
            case "drop":
                del pieces[at : at + 1]
            case "insert":
                pieces.insert(at, draw(st.sampled_from(SOUP)))
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

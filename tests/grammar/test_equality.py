"""The parser and the published grammar accept the same programs and read them as the same trees, at the same places.

Lark reads ``grammar/diagnostic.lark`` as it is; the limits, which only the parser has, are set out of the way.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grammar.trees import WIDE, is_content

from guideway.dsl import Refusal, parse
from guideway.dsl.ast import Block, IfRunning, Node, Program, TryCatch
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import copy_for

#: One of each token that the language has.
TOKENS = ("PING", "GET_STATUS", "RESTART", "IF_RUNNING", "THEN", "ELSE", "TRY", "CATCH", '"a"', "{", "}")

Load = Callable[[str], lark.Lark]
Tokens = tuple[str, ...]
LayOut = Callable[[Tokens, int], str]
Tree = tuple[Any, ...]  # a node's class name and fields, places among them, nodes below it likewise


@pytest.fixture(scope="module")
def published(load: Load) -> lark.Lark:
    return load(copy_for(PROGRAM_SCOPES).text)


SEEDS = st.integers(0, 2**32)


def by_parser(text: str) -> Tree | None:
    try:
        return _plain(parse(text, limits=WIDE))
    except Refusal:
        return None


def _plain(node: Node) -> Tree:
    match node:
        case Program(start=start, end=end, statements=inner) | Block(start=start, end=end, statements=inner):
            return (type(node).__name__, start, end, *map(_plain, inner))
        case TryCatch(start=start, end=end, body=body, handler=handler):
            return ("TryCatch", start, end, _plain(body), _plain(handler))
        case IfRunning(start=start, end=end, head=head, target=target, then=then, otherwise=otherwise):
            bodies = (then,) if otherwise is None else (then, otherwise)
            return ("IfRunning", start, end, head, target, *map(_plain, bodies))
        case _:
            return (type(node).__name__, *node)


def by_lark(published: lark.Lark, text: str) -> Tree | lark.UnexpectedInput:
    try:
        tree = published.parse(text)
    except lark.UnexpectedInput as error:
        return error
    return ("Program", 0, len(text), *(_statement(child) for child in tree.children))


def _statement(tree: Any) -> Tree:
    """Return the tree of a ``statement``."""
    (construct,) = tree.children
    start, end = construct.meta.start_pos, construct.meta.end_pos
    match construct.data:
        case "block":
            return ("Block", start, end, *(_statement(child) for child in construct.children))
        case "try_catch":
            _, body, _, handler = construct.children
            return ("TryCatch", start, end, _body(body), _body(handler))
        case "if_running":
            _, name, _, *bodies = construct.children
            return ("IfRunning", start, end, name.end_pos, name[1:-1], *(_body(body) for body in bodies[::2]))
        case command:
            _, name = construct.children
            kind = "".join(part.capitalize() for part in command.split("_"))
            return (kind, start, end, name.end_pos, name[1:-1])


def _body(tree: Any) -> Tree:
    """Return the tree of a ``statement`` as the block that it is or stands for."""
    statement = _statement(tree)
    return statement if statement[0] == "Block" else ("Block", statement[1], statement[2], statement)


def assert_equal(published: lark.Lark, text: str) -> bool:
    """Check a text with both, and say whether it is a program."""
    theirs = by_lark(published, text)
    ours = by_parser(text)
    assert ours == (None if isinstance(theirs, lark.UnexpectedInput) else theirs), text
    return ours is not None


# Every string of tokens

LENGTH = 7


def tight(tokens: Tokens) -> str:
    """Join tokens with a space only where two words would become one."""
    text = ""
    for token in tokens:
        text += " " + token if text[-1:].isalpha() and token.isidentifier() else token
    return text


@pytest.mark.parametrize("join", [" ".join, tight], ids=["spaced", "tight"])
def test_every_token_string(published: lark.Lark, join: Callable[[Tokens], str]) -> None:
    """Every string of at most ``LENGTH`` tokens is accepted by both, with one tree, or by neither.

    Strings are grown a token at a time. One is not grown further where both parsers have found a token that cannot
    stand where it stands: both read from left to right and decide on the next token alone (the grammar is LALR(1),
    the parser descends by one token), so whatever follows that token, both would have refused it there. Hence the
    strings that are left out are refused by both, and the check covers all 11 + 11^2 + ... + 11^LENGTH strings.

    Where a parser would go on is seen by a token that fits nowhere behind the string: it is still content with the
    string when that token is the first error. So the two are also held to find the first error at the same token.
    """
    growing: list[Tokens] = [()]
    accepted = 0
    for _ in range(LENGTH):
        longer: list[Tokens] = []
        for tokens in itertools.chain.from_iterable(((*g, t) for t in TOKENS) for g in growing):
            text = join(tokens)
            theirs = by_lark(published, text)
            ours = by_parser(text)
            if isinstance(theirs, lark.UnexpectedInput):
                assert ours is None, text
                alive = isinstance(theirs, lark.UnexpectedToken) and theirs.token.type == "$END"
            else:
                assert ours == theirs, text
                alive = True
                accepted += 1
            assert alive == is_content(text), text
            if alive:
                longer.append(tokens)
        growing = longer
    assert accepted >= 200


# Every string of pieces: what the lexer must get right

PIECES = (*'{} \n\r#"_x9\ufeff\0\u202e\u00e9', "PING", "TRY", "CATCH", '"a"')


def test_every_string_of_pieces(published: lark.Lark) -> None:
    """Every text of at most four pieces, joined as they are; here nothing is left out."""
    accepted = sum(
        assert_equal(published, "".join(pieces))
        for length in range(5)
        for pieces in itertools.product(PIECES, repeat=length)
    )
    assert accepted > 100


# Programs at random, and what is nearly one


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_random_programs(
    published: lark.Lark, programs: st.SearchStrategy[Tokens], lay_out: LayOut, data: st.DataObject
) -> None:
    assert assert_equal(published, lay_out(data.draw(programs), data.draw(SEEDS)))


#: What a character is replaced by: what ends lines, hides, reorders, looks alike, or opens what never closes.
NASTY = (
    *'"#{}\r\n\t _-9a\0\x07\x1b\x7f\x85\xa0\u2028\u2029\u200b\u200e\u202e\u2066\ufeff\ud800\udfff',
    *"\uff30\u0420\u0391\u201c\u201d\uff5b\u0660\u0130\u2003\U0001d7d8'`;,/\\",
    "\r\n",
    "ELSE",
    "ping",
    "TRY",
)


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_mutated_programs(
    published: lark.Lark, programs: st.SearchStrategy[Tokens], lay_out: LayOut, data: st.DataObject
) -> None:
    """Programs of which characters or tokens were dropped, doubled, swapped, replaced or put in."""
    tokens, seed, count = data.draw(programs), data.draw(SEEDS), data.draw(st.integers(1, 3))
    if data.draw(st.booleans()):
        assert_equal(published, lay_out(mutated(tokens, TOKENS, count, seed), seed))
    else:
        assert_equal(published, "".join(mutated(tuple(lay_out(tokens, seed)), NASTY, count, seed)))


def mutated(parts: Tokens, others: Tokens, count: int, seed: int) -> Tokens:
    choose = random.Random(seed)  # noqa: S311  # nothing secret
    changed = list(parts)
    for _ in range(count):
        at = choose.randrange(len(changed) + 1)
        match choose.randrange(5):
            case 0:
                del changed[at : at + 1]
            case 1:
                changed[at:at] = changed[at : at + 1]
            case 2:
                changed[at : at + 2] = reversed(changed[at : at + 2])
            case 3:
                changed[at : at + 1] = [choose.choice(others)]
            case _:
                changed.insert(at, choose.choice(others))
    return tuple(changed)


@settings(max_examples=500, deadline=None)
@given(comment=st.text(st.characters(codec=None), max_size=4), end=st.sampled_from(["\n", "\r\n", "\r", ""]))
def test_comments(published: lark.Lark, comment: str, end: str) -> None:
    assert_equal(published, f"{{}}#{comment}{end}{{}}")


@pytest.mark.parametrize("text", ["{{}}#{}", "{{}}{}{{}}", "PING{}", 'PING "a{}"'])
def test_every_character(published: lark.Lark, text: str) -> None:
    """Each that is or could be special (U+0000 to U+30FF, and U+D700 to U+FFFF), in each kind of place."""
    for code in (*range(0x3100), *range(0xD700, 0x10000)):
        assert_equal(published, text.format(chr(code)))


@pytest.mark.parametrize("length", [0, 1, 252, 253, 254, 1000])
@pytest.mark.parametrize("char", ["n", "9"])
def test_length_of_names(published: lark.Lark, length: int, char: str) -> None:
    assert assert_equal(published, f'PING "{char * length}"') == (1 <= length <= 253)


@pytest.mark.parametrize("at", range(5))
def test_byte_order_mark_only_at_the_start(published: lark.Lark, at: int) -> None:
    text = " { } "
    assert assert_equal(published, f"{text[:at]}\ufeff{text[at:]}") == (at == 0)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ('PING"a"PING"b"', True),
        ('TRYPING "a" CATCH {}', False),
        ('TRY PING"a"CATCH{}', True),
        ('TRY_PING "a" CATCH {}', False),
        ("TRY9 {} CATCH {}", False),
        ("TRY{}CATCH{}", True),
        ("TRY#\n{}CATCH#", False),
        ('PING\u00a0"a"', False),
        ('\uff30ING "a"', False),
        ('ping "a"', False),
        ("\r\n{}\r\n", True),
        ("{}\r", False),
        ("{}#\r", False),
        ("", False),
        ("\ufeff", False),
        ("# nothing", False),
    ],
)
def test_edges(published: lark.Lark, text: str, accepted: bool) -> None:
    assert assert_equal(published, text) == accepted

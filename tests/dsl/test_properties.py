"""What holds for every program, in whatever layout it was written."""

import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guideway.dsl import Limits, Refusal, format_program, parse
from guideway.dsl.ast import Block, Command, IfRunning, Node, Program, TryCatch, children, walk
from guideway.dsl.lexer import COMMENT_PATTERN, comments
from guideway.dsl.printer import format_one_line
from guideway.dsl.source import Position, Source
from tests.strategies import Script, programs, scripts, spell

ROOMY = Limits(bytes=1_000_000)  # the canonical form of a program may be longer than what was written


LAYOUTS = 12  # of each tree: making a tree at random takes far longer than writing it


@given(programs(), st.integers(0, 2**32))
@settings(max_examples=250)
def test_every_spelling_of_a_tree_is_read_as_that_tree(tree: Program, seed: int) -> None:
    for script in (spell(tree, 0), *(spell(tree, seed + more) for more in range(LAYOUTS))):
        assert parse(script.text, limits=ROOMY) == tree


@given(programs(), st.integers(0, 2**32))
@settings(max_examples=250)
def test_formatting_keeps_the_tree_and_the_comments_and_is_idempotent(tree: Program, seed: int) -> None:
    for script in (spell(tree, 0), *(spell(tree, seed + more) for more in range(LAYOUTS))):
        formatted = format_program(parse(script.text, limits=ROOMY))
        again = parse(formatted, limits=ROOMY)
        assert again == tree
        assert [match[1] for match in comments(formatted)] == [comment.rstrip() for comment in script.comments]
        assert format_program(again) == formatted


@given(scripts())
def test_the_formatted_text_is_plain(script: Script) -> None:
    formatted = format_program(parse(script.text, limits=ROOMY))
    lines = formatted.split("\n")
    assert lines.pop() == ""
    assert "\r" not in formatted
    assert "\ufeff" not in formatted
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert line == line.rstrip()
        assert line or following, "two blank lines, or one at the end"
    depth = max((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
    assert depth <= 2 * 64
    # Not more lines than tokens and comments, and as many blank ones.
    assert len(lines) <= 2 * (len(script.text) + 1)


@given(scripts())
def test_one_line_keeps_the_tree(script: Script) -> None:
    line = format_one_line(parse(script.text, limits=ROOMY))
    assert "\n" not in line
    again = parse(line, limits=ROOMY)
    assert again == script.program
    assert format_one_line(again) == line


@given(programs())
def test_a_tree_without_a_text_can_be_formatted(program: Program) -> None:
    assert parse(format_program(program), limits=ROOMY) == program
    assert parse(format_one_line(program), limits=ROOMY) == program


# Places


@given(scripts())
def test_every_span_covers_what_it_says(script: Script) -> None:
    text = script.text
    program = parse(text, limits=ROOMY)
    assert (program.start, program.end) == (0, len(text))
    for node in walk(program):
        said = text[node.start : node.end]
        if not isinstance(node, Program):
            assert said == said.strip()
        match node:
            case Command():
                assert said.startswith(node.keyword)
                assert text[slice(*node.target_span)] == f'"{node.target}"'
                assert text[slice(*node.head_span)].startswith(node.keyword)
                assert text[slice(*node.head_span)].endswith(f'"{node.target}"')
                assert node.span.end == (node.head if not isinstance(node, IfRunning) else _last(node))
            case TryCatch():
                assert said.startswith("TRY")
                assert node.end == node.handler.end
            case Block() if said.startswith("{"):
                assert said.endswith("}")
            case Block(statements=(only,)):
                assert node.span == only.span
            case _:
                assert isinstance(node, Program)


def _last(node: IfRunning) -> int:
    return (node.otherwise or node.then).end


@given(scripts())
def test_children_lie_in_their_parents_in_order(script: Script) -> None:
    for node in walk(parse(script.text, limits=ROOMY)):
        at = node.start
        for child in children(node):
            assert at <= child.start < child.end <= node.end
            at = child.end


@given(scripts())
def test_a_part_of_a_program_is_itself_a_program(script: Script) -> None:
    program = parse(script.text, limits=ROOMY)
    for node in walk(program):
        if isinstance(node, Command | TryCatch):
            (alone,) = parse(script.text[node.start : node.end], limits=ROOMY).statements
            assert alone == node


@given(st.text(st.sampled_from("a\n\r\t漢\ufeff"), max_size=40))
def test_positions_count_lines_and_characters(text: str) -> None:
    mark = text.startswith("\ufeff")
    for offset in range(len(text) + 1):
        position = Source(text).position(offset)
        before = text[:offset].split("\n")
        column = len(before[-1]) + 1 - (mark and len(before) == 1)
        assert position == Position(len(before), max(1, column))
        line = text.removeprefix("\ufeff").split("\n")[position.line - 1]
        assert Source(text).line(position.line) == line.removesuffix("\r")


@given(scripts())
def test_the_trees_of_two_layouts_are_equal_and_hash_alike(script: Script) -> None:
    one, two = parse(script.text, limits=ROOMY), parse("\n\n" + script.text.removeprefix("\ufeff"), limits=ROOMY)
    assert one == two
    assert hash(one) == hash(two)
    assert Counter(_kinds(one)) == Counter(_kinds(two))


def _kinds(program: Program) -> list[type[Node]]:
    return [type(node) for node in walk(program)]


@given(st.text(st.characters(exclude_characters="\r\n"), max_size=30))
@example("\u2028")
@example("\x7f")
@example("\u200f")
@example("\ud800")
def test_a_comment_holds_what_its_pattern_holds(text: str) -> None:
    script = f'PING "a" #{text}\nPING "b"'
    if re.fullmatch(COMMENT_PATTERN, "#" + text):
        assert len(parse(script).statements) == 2
    else:
        with pytest.raises(Refusal, match="cannot stand in a comment"):
            parse(script)

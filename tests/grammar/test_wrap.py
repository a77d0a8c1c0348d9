"""A program inside a tool call: what is generated is read by an ordinary JSON parser, and then by ours."""

import json
import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grammar.recogniser import Recogniser, language
from tests.grammar.trees import Names, is_within, laid_out, random_program
from tests.strategies import programs

from guideway.dsl import parse
from guideway.dsl.ast import Target
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import FINITE, Layout, Shape, Wrap, copy_for, published_grammar
from guideway.grammar.measure import longest
from guideway.grammar.model import Alternative, Characters, Grammar, Group, Literal, Paragraph, Reference, Repeat, Rule
from guideway.grammar.names import exactly
from guideway.grammar.spell import spell
from guideway.grammar.wrap import TOOL, wrapped

NAMES: Names = {Target.HOST: ("h", "h-1"), Target.SERVICE: ("s", "h"), Target.RESTARTABLE: ("s",)}
CALLS = tuple(wrap for wrap in Wrap if wrap is not Wrap.NONE)


@pytest.fixture(autouse=True, scope="module")
def deep_recursion() -> Iterator[None]:
    """The recogniser descends some ten calls for each level of nesting."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


def spelled(shape: Shape, layout: Layout) -> Grammar:
    return spell(published_grammar(), {kind.value: exactly(NAMES[kind]) for kind in Target}, shape, layout)


def unwrapped(text: str, wrap: Wrap) -> str:
    """Return the program in a call, read as a host of that chat format reads it."""
    match wrap:
        case Wrap.NONE:
            return text
        case Wrap.JSON:
            arguments = json.loads(text)
        case Wrap.HERMES:
            (found,) = re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL)
            call = json.loads(found)
            assert call.keys() == {"name", "arguments"}
            arguments = call["arguments"]
        case Wrap.LLAMA3:
            call = json.loads(text)
            assert call.keys() == {"name", "parameters"}
            arguments = call["parameters"]
        case Wrap.MISTRAL:
            (call,) = json.loads(text.removeprefix("[TOOL_CALLS]"))
            assert call.keys() == {"name", "arguments"}
            arguments = call["arguments"]
    if wrap is not Wrap.JSON:
        assert call["name"] == TOOL
    assert arguments.keys() == {"program"}
    program = arguments["program"]
    assert isinstance(program, str)
    return program


def call_of(program: str, wrap: Wrap) -> str:
    """Return the call as a chat format's own template writes it."""
    arguments = {"program": program}
    match wrap:
        case Wrap.NONE:
            return program
        case Wrap.JSON:
            return json.dumps(arguments)
        case Wrap.HERMES:
            return f"<tool_call>\n{json.dumps({'name': TOOL, 'arguments': arguments})}\n</tool_call>"
        case Wrap.LLAMA3:
            return json.dumps({"name": TOOL, "parameters": arguments})
        case Wrap.MISTRAL:
            return f"[TOOL_CALLS]{json.dumps([{'name': TOOL, 'arguments': arguments}])}"


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("wrap", CALLS)
def test_every_call_holds_a_program_and_every_program_has_a_call(wrap: Wrap, layout: Layout) -> None:
    bare = spelled(Shape(1, 1), layout)
    calls = language(wrapped(bare, wrap))
    assert calls == {call_of(program, wrap) for program in language(bare)}
    for call in calls:
        assert laid_out(parse(unwrapped(call, wrap)), layout) == unwrapped(call, wrap)
    assert longest(wrapped(bare, wrap)) == max(map(len, calls))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("wrap", CALLS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), other=programs(["s", "h", "x"], size=20))
def test_calls_of_programs_at_random(wrap: Wrap, layout: Layout, seed: int, other: object) -> None:
    reader = Recogniser(wrapped(spelled(FINITE, layout), wrap))
    for tree in (random_program(seed, PROGRAM_SCOPES, NAMES, FINITE), other):
        text = laid_out(tree, layout)  # type: ignore[arg-type]
        inside = is_within(tree, PROGRAM_SCOPES, NAMES, FINITE)  # type: ignore[arg-type]
        assert reader.accepts(call_of(text, wrap)) == inside
        assert not reader.accepts(text)


@pytest.mark.parametrize("wrap", CALLS)
def test_what_json_escapes_is_escaped_wherever_it_stands(wrap: Wrap) -> None:
    """In literals at any depth; classes hold only what stands for itself, and rules keep their names."""
    awkward = '"\\/\n\t\x7f\u00e9'
    inner = Group((Alternative((Literal(awkward),)), Alternative((Literal("a"), Characters((("a", "c"),))))))
    rules = (
        Rule("start", (Alternative((Literal('"'), Repeat(inner, 1, 2), Reference("more"))),)),
        Rule("more", (Alternative((Repeat(Literal("\n"), 0, 1),)),)),
    )
    bare = Grammar((Paragraph(("said",), rules),))
    assert {unwrapped(text, wrap) for text in language(wrapped(bare, wrap))} == language(bare)


def test_no_wrap_is_the_bare_program() -> None:
    grammar = spelled(Shape(0, 1), Layout.ONE_LINE)
    assert wrapped(grammar, Wrap.NONE) is grammar


@pytest.mark.parametrize("wrap", CALLS)
def test_the_longest_text_counts_what_stands_around(wrap: Wrap) -> None:
    bare, call = (copy_for(PROGRAM_SCOPES, "gbnf", names=NAMES, wrap=each) for each in (Wrap.NONE, wrap))
    assert bare.longest_bytes is not None
    assert call.longest_bytes is not None
    assert call.longest_bytes > bare.longest_bytes + len(call_of("", wrap))
    assert call.longest_tokens == call.longest_bytes
    assert call.shape == bare.shape

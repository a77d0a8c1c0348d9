"""Copies in forms other than a bare grammar, read by the engines that take them: as an expression, a schema, a request.

Whatever an engine lets a model write under one is unwrapped by an ordinary JSON parser and accepted by ours.
"""

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import llguidance
import pytest

from guideway.dsl import analyze, parse
from guideway.dsl.ast import Target
from guideway.dsl.patterns import read_pattern
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import Engine, GrammarCopy, Layout, Shape, Wrap, copy_for, published_grammar, request_for
from guideway.grammar.dialects.gbnf import print_grammar as print_gbnf
from guideway.grammar.dialects.llguidance import print_grammar as print_llguidance
from guideway.grammar.loader import read_grammar
from guideway.grammar.names import exactly
from guideway.grammar.spell import spell
from guideway.grammar.wrap import around
from tests.engines import llguidance_engine, xgrammar_engine
from tests.engines.harness import Matcher, accepts, walk
from tests.engines.llguidance_engine import LLGuidanceMatcher
from tests.engines.roster import ENGINES
from tests.engines.vocabulary import byte_vocabulary
from tests.engines.xgrammar_engine import XGrammarMatcher

_NAMES: Final[Mapping[Target, tuple[str, ...]]] = {
    Target.HOST: ("api.internal", "x_1:a@b-c", "db"),
    Target.SERVICE: ("a", "b", "api"),
    Target.RESTARTABLE: ("a",),
}
_CALLS: Final = (Wrap.HERMES, Wrap.LLAMA3, Wrap.MISTRAL)
_WALKS: Final = 60


def _copy(dialect: str, *, layout: Layout = Layout.ONE_LINE, wrap: Wrap = Wrap.NONE, nesting: int = 1) -> GrammarCopy:
    return copy_for(PROGRAM_SCOPES, dialect, names=_NAMES, layout=layout, wrap=wrap, shape=Shape(nesting, 3))


def _llguidance(source: str) -> Matcher:
    tokenizer = llguidance_engine._tokenizer(byte_vocabulary())
    matcher = llguidance.LLMatcher(tokenizer, source, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    assert not matcher.get_grammar_warnings()
    return LLGuidanceMatcher(matcher, byte_vocabulary())


def _xgrammar(compile_: Callable[[Any], Any]) -> Matcher:
    import xgrammar  # once the engine's module has imported it

    compiled = compile_(xgrammar_engine._compiler(byte_vocabulary()))
    return XGrammarMatcher(xgrammar.GrammarMatcher(compiled), byte_vocabulary())


def _written(matcher: Matcher) -> list[bytes]:
    """Return what a model might write."""
    found = [walk(matcher, byte_vocabulary(), Random(seed), most=3_000, stop=0.3) for seed in range(_WALKS)]
    return [text for text in found if text is not None]


def _takes(matcher: Matcher, text: str) -> bool:
    return accepts(matcher, byte_vocabulary(), text.encode())


def _is_allowed(program: str) -> bool:
    """Say whether a program is within the names above. Refused by the parser, it is an error."""
    return all(command.target in _NAMES[command.names] for command in analyze(parse(program)).commands)


# As a regular expression


def _by_llguidance(copy: GrammarCopy) -> Matcher:
    return _llguidance(llguidance.LLMatcher.grammar_from_regex(copy.text))


def _by_xgrammar(copy: GrammarCopy) -> Matcher:
    return _xgrammar(lambda compiler: compiler.compile_regex(copy.text))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("wrap", Wrap)
@pytest.mark.parametrize("compiled", [_by_llguidance, _by_xgrammar])
def test_a_regular_expression(compiled: Callable[[GrammarCopy], Matcher], layout: Layout, wrap: Wrap) -> None:
    """It lets a model write what the same copy in GBNF accepts, and what that writes it accepts."""
    copy, grammar = (_copy(dialect, layout=layout, wrap=wrap) for dialect in ("regex", "gbnf"))
    matcher = compiled(copy)
    llama = ENGINES["llama.cpp"].compile(grammar.text, byte_vocabulary())
    for text in _written(matcher):
        assert accepts(llama, byte_vocabulary(), text)
        assert re.fullmatch(copy.text, text.decode())
    for text in _written(llama):
        assert accepts(matcher, byte_vocabulary(), text)
    assert not _takes(matcher, 'PING "elsewhere"')


def test_the_largest_regular_expression_compiles() -> None:
    """With the deepest nesting that has room."""
    copy = copy_for(PROGRAM_SCOPES, "regex", names=_NAMES)
    assert copy.shape is not None
    assert copy.shape.nesting >= 2
    for compiled in (_by_llguidance, _by_xgrammar):
        assert _takes(compiled(copy), 'TRY { IF_RUNNING "a" THEN { PING "db" } } CATCH { RESTART "a" }')


@pytest.mark.parametrize("compiled", [_by_llguidance, _by_xgrammar])
def test_a_regular_expression_with_patterns_of_names(compiled: Callable[[GrammarCopy], Matcher]) -> None:
    pattern = read_pattern("web-*.prod").replace(but=frozenset({"web-1.prod"}))
    copy = copy_for(PROGRAM_SCOPES, "regex", names={Target.HOST: (pattern, "db")}, shape=Shape(0, 1))
    matcher = compiled(copy)
    for name, is_meant in (
        *(("db", True), ("web-2.prod", True), ("web-11.prod", True), (f"web-{'a' * 63}.prod", True)),
        *(("web-1.prod", False), ("web-.prod", False), (f"web-{'a' * 64}.prod", False), ("web-1.2.prod", False)),
    ):
        text = f'PING "{name}"'
        assert _takes(matcher, text) == (re.fullmatch(copy.text, text) is not None) == is_meant, name


# As a JSON Schema


@pytest.mark.parametrize("layout", Layout)
def test_a_json_schema(layout: Layout) -> None:
    """llguidance, as OpenAI's strict tools, reads a pattern as what the string is, however JSON writes it."""
    matcher = _llguidance(llguidance.LLMatcher.grammar_from_json_schema(_copy("json-schema", layout=layout).text))
    texts = _written(matcher)
    assert len(texts) > _WALKS // 2
    for text in texts:
        assert _is_allowed(json.loads(text)["program"])


@pytest.mark.parametrize("layout", Layout)
def test_xgrammar_cannot_read_a_pattern_with_quotes(layout: Layout) -> None:
    """So no request to XGrammar, vLLM or SGLang has a copy as a JSON Schema. Where this fails, they can have one."""
    schema = _copy("json-schema", layout=layout).text
    matcher = _xgrammar(lambda compiler: compiler.compile_json_schema(schema))
    assert not _takes(matcher, json.dumps({"program": 'PING "db"'}))


# As a structural tag


@pytest.mark.parametrize("wrap", _CALLS)
@pytest.mark.parametrize("layout", Layout)
def test_a_structural_tag(wrap: Wrap, layout: Layout) -> None:
    """A model may talk; once it begins a call, it is held to the copy; behind the call it stops."""
    matcher = _xgrammar(
        lambda compiler: compiler.compile_structural_tag(_copy("structural-tag", layout=layout, wrap=wrap).text)
    )
    stands = around(wrap)
    arguments = json.dumps({"program": 'PING "db"'})
    right = f"{stands.before}{arguments}{stands.behind}"
    assert _takes(matcher, right)
    assert _takes(matcher, f"I look first. {right}")
    assert _takes(matcher, "There is nothing to do.")
    assert not _takes(matcher, f"{right} and more")
    assert not _takes(matcher, right.replace("db", "elsewhere"))
    assert not _takes(matcher, right.replace("execute_diagnostic_pipeline", "another_tool"))
    begun = matcher.copy()
    for byte in stands.before.encode():
        assert begun.accept(byte)
    for text in _written(begun):
        assert _is_allowed(json.loads(text.decode().removesuffix(stands.behind))["program"])


# As the engine's own request


def _inside(fragment: dict[str, Any]) -> Matcher:
    return _xgrammar(lambda compiler: compiler.compile_structural_tag(json.dumps(fragment)))


@pytest.mark.parametrize(
    ("engine", "dialect", "compiled"),
    [
        (Engine.LLGUIDANCE, "llguidance", lambda fragment: _llguidance(json.dumps(fragment))),
        (Engine.XGRAMMAR, "ebnf", _inside),
        (Engine.XGRAMMAR, "structural-tag", _inside),
        (Engine.SGLANG, "structural-tag", lambda fragment: _inside(fragment["response_format"])),
        (
            Engine.VLLM,
            "structural-tag",
            lambda fragment: _inside(json.loads(fragment["structured_outputs"]["structural_tag"])),
        ),
    ],
)
def test_a_request(engine: Engine, dialect: str, compiled: Callable[[dict[str, Any]], Matcher]) -> None:
    wrap = Wrap.HERMES if dialect == "structural-tag" else Wrap.NONE
    matcher = compiled(request_for(engine, _copy(dialect, wrap=wrap)))
    stands = around(wrap)

    def text(program: str) -> str:
        return program if wrap is Wrap.NONE else f"{stands.before}{json.dumps({'program': program})}{stands.behind}"

    assert _takes(matcher, text('PING "db" RESTART "a"'))
    assert not _takes(matcher, text('PING "elsewhere"'))


# Names in every form, and keywords that begin others


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("listed", [0, 1_000])
def test_names_in_a_list_and_in_a_tree_are_the_same(engine: Any, listed: int) -> None:
    """With each punctuation mark, one the beginning of another, as long as can be, and branching at each character."""
    names = [f"x{mark}{tail}" for mark in "._:@-0" for tail in ("", "a", "ab", "-", "1.2")]
    names += ["x", "n" * 253, *("y" * length for length in range(1, 60))]
    found = {kind.value: exactly(names, listed=listed) for kind in Target}
    grammar = spell(published_grammar(), found, Shape(0, 1), Layout.ONE_LINE)
    printed = print_gbnf(grammar) if engine.dialect in {"gbnf", "ebnf"} else print_llguidance(grammar)
    matcher = engine.compile(printed, byte_vocabulary())
    for name in names:
        assert _takes(matcher, f'PING "{name}"')
        for near in (f"{name}!", f"{name}zz", name[:-1] + "~", "n" * 252):
            assert not _takes(matcher, f'PING "{near}"')


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_keyword_that_begins_another(engine: Any) -> None:
    """GET and GET_STATUS, IF and IF_RUNNING: no engine reads one for the other, however it makes tokens of its own."""
    file = copy_for(PROGRAM_SCOPES).text
    grammar = read_grammar(
        file.replace('"RESTART" WORD_END', '"GET" WORD_END').replace('"PING" WORD_END', '"IF" WORD_END')
    )
    names = {kind.value: exactly(_NAMES[kind]) for kind in Target}
    spelled = spell(grammar, names, Shape(1, 2), Layout.ONE_LINE)
    printed = print_gbnf(spelled) if engine.dialect in {"gbnf", "ebnf"} else print_llguidance(spelled)
    matcher = engine.compile(printed, byte_vocabulary())
    for text in ('GET "a"', 'GET_STATUS "b"', 'IF "db"', 'IF_RUNNING "a" THEN { GET "a" }', 'GET_STATUS "a" GET "a"'):
        assert _takes(matcher, text)
    for text in ('GET_ "a"', 'GET"a"', 'GET_STATUS"a"', 'IF_RUNNING "db" THEN { }', 'GETGET "a"', 'IF "a"'):
        assert not _takes(matcher, text)

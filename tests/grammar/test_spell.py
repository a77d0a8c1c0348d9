"""What a model may write under a copy: exactly the canonical texts of the programs within scopes, names and shape."""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grammar.recogniser import Recogniser, first, is_nullable, language, nullable
from tests.grammar.trees import WIDE, Names, every_program, is_content, is_within, laid_out, random_program
from tests.strategies import programs

from guideway.dsl import DEFAULT_LIMITS, Refusal, analyze, parse
from guideway.dsl.ast import COMMANDS, Target
from guideway.dsl.lexer import NAME_LENGTH
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import published_grammar, trim
from guideway.grammar.fit import fit
from guideway.grammar.measure import NAME_RULES, longest, most_commands, references, repeats, shortest, way_out
from guideway.grammar.model import Grammar, Item, Literal, Reference, Repeat
from guideway.grammar.names import exactly
from guideway.grammar.spell import FINITE, Layout, Shape, spell

READ, WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})
SCOPE_SETS = (READ, WRITE, PROGRAM_SCOPES)
UNBOUNDED = Shape(DEFAULT_LIMITS.nesting, None)

FEW: Names = {Target.HOST: ("h",), Target.SERVICE: ("s",), Target.RESTARTABLE: ("r",)}
SOME: Names = {Target.HOST: ("h", "h-1"), Target.SERVICE: ("s", "r", "h"), Target.RESTARTABLE: ("r",)}

#: Shapes whose programs can be counted: some thousands.
SMALL = (Shape(0, 1), Shape(0, 3), Shape(1, 2), Shape(2, 1))


@pytest.fixture(autouse=True, scope="module")
def deep_recursion() -> Iterator[None]:
    """The recogniser descends some ten calls for each level of nesting."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


def spelled(scopes: frozenset[Scope], names: Names, shape: Shape, layout: Layout) -> Grammar:
    exact = {kind.value: exactly(names[kind]) for kind in Target}
    return spell(trim(published_grammar(), scopes), exact, shape, layout)


@cache
def reader(scopes: frozenset[Scope], shape: Shape, layout: Layout) -> Recogniser:
    return Recogniser(spelled(scopes, SOME, shape, layout))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("scopes", SCOPE_SETS)
@pytest.mark.parametrize("shape", SMALL)
def test_every_text_and_no_other(scopes: frozenset[Scope], shape: Shape, layout: Layout) -> None:
    """Both ways at once: what the grammar spells, and the canonical text of every program within the shape."""
    grammar = spelled(scopes, FEW, shape, layout)
    texts = language(grammar)
    assert texts == {laid_out(tree, layout) for tree in every_program(scopes, FEW, shape)}
    assert longest(grammar) == max(len(text.encode()) for text in texts)
    keywords = {str(command.keyword) for command in COMMANDS}
    assert most_commands(grammar) == max(sum(word in keywords for word in text.split()) for text in texts)
    assert shortest(grammar)["start"] == min(map(len, texts))
    out = way_out(grammar)
    assert out is not None
    # A way that begins like another can still turn into it, which the rules do not show: so the bound is near.
    assert longest_way_out(texts) <= out <= longest_way_out(texts) + 4


def longest_way_out(texts: frozenset[str]) -> int:
    """Return the most characters that the end of a text is away, by the shortest way, over all beginnings of texts."""
    ways: dict[str, int] = {}
    for text in texts:
        for at in range(len(text) + 1):
            ways[text[:at]] = min(len(text) - at, ways.get(text[:at], len(text)))
    return max(ways.values())


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_every_text_of_a_small_shape_is_a_program_of_its_caller(scopes: frozenset[Scope], layout: Layout) -> None:
    """By the parser itself, and what it finds: the text is its own canonical text, in scope, of the caller's names."""
    for text in language(spelled(scopes, SOME, Shape(1, 1), layout)) | language(
        spelled(scopes, FEW, Shape(1, 2), layout)
    ):
        tree = parse(text)
        facts = analyze(tree)
        assert laid_out(tree, layout) == text
        assert facts.scopes <= scopes
        assert all(name in SOME[command.names] for command, name in facts.targets)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("shape", [FINITE, UNBOUNDED])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_program_has_a_spelling_just_where_it_is_allowed(shape: Shape, layout: Layout, data: st.DataObject) -> None:
    scopes = data.draw(st.sampled_from(SCOPE_SETS))
    tree = data.draw(programs(["s", "r", "h", "x"], size=30))
    assert reader(scopes, shape, layout).accepts(laid_out(tree, layout)) == is_within(tree, scopes, SOME, shape)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("shape", [FINITE, Shape(3, 2), UNBOUNDED])
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), scopes=st.sampled_from(SCOPE_SETS))
def test_whatever_is_within_the_shape_has_a_spelling(
    shape: Shape, layout: Layout, seed: int, scopes: frozenset[Scope]
) -> None:
    tree = random_program(seed, scopes, SOME, shape)
    assert is_within(tree, scopes, SOME, shape)
    assert reader(scopes, shape, layout).accepts(laid_out(tree, layout))


# Nesting, to the server's own limit


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("opening", ["{ ", 'IF_RUNNING "s" THEN { ', "TRY { } CATCH { "])
@pytest.mark.parametrize("over", [0, 1])
def test_the_deepest_program_is_the_deepest_that_the_server_takes(layout: Layout, opening: str, over: int) -> None:
    depth = UNBOUNDED.nesting + over
    text = opening * depth + 'PING "h"' + " }" * depth
    assert is_program(text) == (not over)
    canonical = laid_out(parse(text, limits=WIDE), layout)
    assert reader(PROGRAM_SCOPES, UNBOUNDED, layout).accepts(canonical) == (not over)


@pytest.mark.parametrize("layout", Layout)
def test_the_longest_finite_program_is_taken_by_the_server(layout: Layout) -> None:
    """Of names as long as can be, too: the shape gets smaller until the limits hold it."""
    for length in (1, 30, NAME_LENGTH):
        names = {kind: exactly(["n" * length]) for kind in Target}
        grammar, shape = fit(published_grammar(), names, FINITE, layout, DEFAULT_LIMITS)
        assert shape.nesting == FINITE.nesting
        assert (shape == FINITE) == (length < NAME_LENGTH)
        text = longest_text(grammar)
        assert len(text.encode()) == longest(grammar)
        assert laid_out(parse(text), layout) == text
        assert Recogniser(grammar).accepts(text)


def longest_text(grammar: Grammar) -> str:
    """Return a longest text, by taking the longest alternative everywhere."""
    known: dict[str, str] = {}

    def of(item: Item) -> str:
        match item:
            case Literal(text):
                return text
            case Reference(name):
                return rule(name)
            case Repeat(inner, _, most):
                assert most is not None
                return of(inner) * most
            case _:
                return longest_of(item.alternatives)  # type: ignore[union-attr]

    def longest_of(alternatives: tuple[object, ...]) -> str:
        return max(("".join(map(of, each.items)) for each in alternatives), key=len)  # type: ignore[attr-defined]

    def rule(name: str) -> str:
        if name not in known:
            known[name] = longest_of(grammar.rules[name].alternatives)
        return known[name]

    return rule("start")


# What engines trip over


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("shape", [*SMALL, FINITE, UNBOUNDED])
@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_a_spelled_grammar_is_sane(scopes: frozenset[Scope], shape: Shape, layout: Layout) -> None:
    """Each rule once and used, none empty or a beginning of itself, no repetition of what can be empty, all finite."""
    grammar = spelled(scopes, SOME, shape, layout)
    rules = grammar.rules
    names = [definition.name for definition in grammar.definitions()]
    assert names == list(rules)
    assert names[0] == "start"
    used = {leaf.name for rule in rules.values() for leaf in references(rule.alternatives)}
    assert used | {"start"} == set(rules)
    assert not nullable(grammar)
    for rule in rules.values():
        assert rule.alternatives
        assert len(set(rule.alternatives)) == len(rule.alternatives)
        assert not any(is_nullable(repeat.item, ()) for repeat in repeats(rule.alternatives))
        assert all(repeat.most is None or repeat.least < repeat.most for repeat in repeats(rule.alternatives))
    assert acyclic({name: first(grammar, rule) for name, rule in rules.items()}), "left recursion"
    assert acyclic({name: frozenset(leaf.name for leaf in references(rules[name].alternatives)) for name in rules})
    assert shortest(grammar).keys() == rules.keys(), "a rule that derives nothing"
    assert (longest(grammar) is None) == (shape.statements is None)


def acyclic(edges: dict[str, frozenset[str]]) -> bool:
    done: set[str] = set()
    while more := {name for name, ahead in edges.items() if name not in done and ahead <= done}:
        done |= more
    return len(done) == len(edges)


def test_the_order_and_comments_of_the_file_are_kept() -> None:
    grammar = spelled(PROGRAM_SCOPES, SOME, Shape(1, 2), Layout.ONE_LINE)
    order = [name.rstrip("_0123456789") for name in grammar.rules]
    assert list(Counter(order)) == [
        name for name in (*published_grammar().rules, "host", "service", "restartable") if name in order
    ]
    assert set(order) >= set(published_grammar().rules) | NAME_RULES
    file = {paragraph.comment for paragraph in published_grammar().paragraphs}
    assert {paragraph.comment for paragraph in grammar.paragraphs} <= file


def test_equal_names_are_spelled_once() -> None:
    names = {Target.HOST: ("a", "b"), Target.SERVICE: ("b", "a"), Target.RESTARTABLE: ("a",)}
    rules = spelled(PROGRAM_SCOPES, names, FINITE, Layout.ONE_LINE).rules
    assert list(references(rules["service"].alternatives)) == [Reference("host")]
    assert not list(references(rules["restartable"].alternatives))


# Every string of tokens

TOKENS = ("PING", "GET_STATUS", "RESTART", "IF_RUNNING", "THEN", "ELSE", "TRY", "CATCH", '"s"', "{", "}")
LENGTH = 7


def canonical_programs() -> Iterator[str]:
    """Yield every one-line canonical text of at most ``LENGTH`` tokens, as the parser decides.

    Strings are grown a token at a time, and one is not grown further where the parser has found a token that cannot
    stand where it stands: it reads from left to right and decides on the next token alone.
    """
    growing = [""]
    for _ in range(LENGTH):
        longer: list[str] = []
        for text in (f"{before} {token}".lstrip() for before in growing for token in TOKENS):
            if is_content(text):
                longer.append(text)
                if is_program(text) and laid_out(parse(text), Layout.ONE_LINE) == text:
                    yield text
        growing = longer


def is_program(text: str) -> bool:
    try:
        parse(text)
    except Refusal:
        return False
    return True


def test_every_string_of_tokens() -> None:
    """Of all 11 + 11^2 + ... + 11^LENGTH strings, the copy spells those that are programs in their canonical text."""
    names = dict.fromkeys(Target, ("s",))
    grammar = spelled(PROGRAM_SCOPES, names, Shape(LENGTH // 2, None), Layout.ONE_LINE)
    programs = set(canonical_programs())
    assert language(grammar, words=LENGTH) == programs
    assert len(programs) > 100

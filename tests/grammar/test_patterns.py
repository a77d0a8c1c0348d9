"""Patterns of names as grammar: a copy spells what they mean and nothing else, in whatever form it is written.

What the copy takes, what the inventory allows and what a naive matcher finds are one: for random patterns and names.
"""

import re
from functools import cache

import lark
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.grammar.recogniser import Recogniser

from guideway.dsl.ast import Target
from guideway.dsl.lexer import NAME_LENGTH, is_name
from guideway.dsl.patterns import NamePattern, Spelling, read_pattern
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import Form, copy_for
from guideway.grammar.dialects.regex import regex
from guideway.grammar.model import Grammar, Paragraph, Rule
from guideway.grammar.names import exactly
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.fleet import Fleet, HostPattern, ServicePattern
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.service import Service


def _read(text: str) -> NamePattern | None:
    try:
        return read_pattern(text)
    except ValueError:
        return None


patterns = st.text("ab-.:*", min_size=1, max_size=8).map(_read).filter(lambda found: found is not None)
names = st.text("ab-.:", min_size=1, max_size=8).filter(is_name)


def means(pattern: NamePattern, name: str) -> bool:
    """Say whether a pattern means a name, by trying all that a star can be, a character at a time."""

    @cache
    def fits(at: int, here: int, times: int) -> bool:
        if at == len(pattern.text):
            return here == len(name)
        if pattern.text[at] != "*":
            return name[here : here + 1] == pattern.text[at] and fits(at + 1, here + 1, 0)
        if times and fits(at + 1, here, 0):
            return True
        return (
            times < 63
            and re.fullmatch("[A-Za-z0-9_-]", name[here : here + 1]) is not None
            and fits(at, here + 1, times + 1)
        )

    return is_name(name) and name not in pattern.but and fits(0, 0, 0)


def reader(spellings: list[Spelling]) -> Recogniser:
    return Recogniser(Grammar((Paragraph((), (Rule("name", exactly(spellings).alternatives),)),)))


@settings(max_examples=300, deadline=None)
@given(pattern=patterns, but=st.sets(names, max_size=5), others=st.sets(names, max_size=4), tried=st.sets(names))
@example(pattern=read_pattern("*"), but={"a", "aa", "ab", "b-"}, others={"a"}, tried={"a-", "b"})
@example(pattern=read_pattern("a*a"), but={"aaa", "aba", "aa"}, others=set(), tried={"aaaa", "abaa", "a-a"})
@example(pattern=read_pattern("*aa"), but={"aaa", "aaaa"}, others=set(), tried={"aaaaa", "baa", "aa"})
def test_what_is_spelled_is_what_is_meant(
    pattern: NamePattern, but: set[str], others: set[str], tried: set[str]
) -> None:
    pattern = pattern.replace(but=frozenset(name for name in but if means(pattern, name)))
    found = reader([pattern, *others])
    expression = re.compile(regex(exactly([pattern, *others]).alternatives, {}))
    for name in {*but, *others, *tried, *(name + "a" for name in but), *(name[:-1] for name in but)}:
        expected = means(pattern, name) or name in others
        assert found.accepts(f'"{name}"') == expected
        assert (expression.fullmatch(f'"{name}"') is not None) == expected


@settings(max_examples=80, deadline=None)
@given(
    pattern=patterns,
    fixed=st.sets(names, max_size=3),
    free=st.sets(names, max_size=3),
    tried=st.sets(names, max_size=8),
)
def test_the_copy_takes_what_the_inventory_allows(
    pattern: NamePattern, fixed: set[str], free: set[str], tried: set[str]
) -> None:
    """Names with an entry of their own, and whether that can be restarted, among them."""
    inventory = Inventory(
        hosts=[Host(name, MemoryProbe()) for name in free],
        services=[Service(name, MemoryDriver(), restartable=name not in fixed) for name in fixed | free],
        host_patterns=[HostPattern(pattern, lambda name, _: Host(name, MemoryProbe()))],
        service_patterns=[ServicePattern(pattern, lambda name, _: Service(name, MemoryDriver()), Fleet())],
    )
    copy = copy_for(PROGRAM_SCOPES, "lark", names={kind: inventory.spellings(kind) for kind in Target})
    found = lark.Lark(copy.text, parser="lalr", lexer="contextual")

    def takes(text: str) -> bool:
        try:
            found.parse(text)
        except lark.UnexpectedInput:
            return False
        return True

    near = {pattern.text.replace("*", star) for star in ("a", "ab-", "a.b", "", "-", "*", "a" * 63, "a" * 64)}
    for name in {*tried, *fixed, *free, *near}:
        is_meant = means(pattern, name)
        for keyword, kind, expected in (
            ("PING", Target.HOST, is_meant or name in free),
            ("GET_STATUS", Target.SERVICE, is_meant or name in fixed | free),
            ("RESTART", Target.RESTARTABLE, name not in fixed and (is_meant or name in free)),
        ):
            assert takes(f'{keyword} "{name}"') == inventory.allows(kind, name) == expected
        for ask, kind in ((inventory.host, Target.HOST), (inventory.service, Target.SERVICE)):
            try:
                assert ask(name).name == name
            except KeyError:
                assert not inventory.allows(kind, name)
            else:
                assert inventory.allows(kind, name)


def test_the_longest_name_of_a_pattern_is_spelled_and_no_longer_one() -> None:
    pattern = read_pattern("*.*." + "x" * (NAME_LENGTH - 3 * 63 - 2) + "*")
    found = reader([pattern])
    longest = pattern.example("a" * 63)
    assert len(longest) == NAME_LENGTH
    assert found.accepts(f'"{longest}"')
    assert not found.accepts(f'"{longest}a"')
    assert exactly([pattern], in_tree=1).form is Form.PATTERN
    copy = copy_for(PROGRAM_SCOPES, "gbnf", names=dict.fromkeys(Target, (pattern,)))
    assert copy.longest_bytes is not None


def test_what_a_pattern_means_is_not_listed_beside_it() -> None:
    pattern = read_pattern("web-*")
    assert exactly(["web-1", "api", pattern]).alternatives == exactly([pattern, "api"]).alternatives
    assert '"web-1"' not in copy_for(PROGRAM_SCOPES, names=dict.fromkeys(Target, ("web-1", "api", pattern))).text
    left_out = pattern.replace(but=frozenset({"web-1"}))
    assert exactly(["web-1", left_out]).alternatives != exactly([left_out]).alternatives


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        ("lark", r'HOST: /"web-[0-9A-Z_a-z-]{1,63}\.prod"/'),
        ("gbnf", r'host ::= "\"web-" [0-9A-Z_a-z-]{1,63} ".prod\""'),
        ("ebnf", r'host ::= "\"web-" [0-9A-Z_a-z-]{1,63} ".prod\""'),
        ("llguidance", r'HOST: /"web-[0-9A-Z_a-z-]{1,63}\.prod"/'),
        ("w3c", """HOST ::= '"web-' [0-9A-Z_a-z-]+ '.prod"'"""),
        ("regex", r'PING (?:"web-[0-9A-Z_a-z-]{1,63}\.prod"'),
    ],
)
def test_each_dialect_has_the_pattern(dialect: str, said: str) -> None:
    copy = copy_for(PROGRAM_SCOPES, dialect, names={Target.HOST: (read_pattern("web-*.prod"),)})
    assert said in copy.text
    assert dict(copy.names) == {Target.HOST: Form.PATTERNS}
    assert copy.notes == ()


def test_copies_for_other_patterns_are_others() -> None:
    """One that leaves a name out differs from one that does not."""
    pattern = read_pattern("web-*")
    texts = {
        copy_for(PROGRAM_SCOPES, names={Target.RESTARTABLE: (one,)}).sha256
        for one in (pattern, pattern.replace(but=frozenset({"web-1"})), read_pattern("web-*.a"), "web-1")
    }
    assert len(texts) == 4


def test_patterns_of_ten_thousand_exceptions_are_too_large_and_say_so() -> None:
    pattern = read_pattern("web-*").replace(but=frozenset(f"web-{number}" for number in range(10_000)))
    copy = copy_for(PROGRAM_SCOPES, names={Target.RESTARTABLE: (pattern,)})
    assert dict(copy.names) == {Target.RESTARTABLE: Form.PATTERN}
    assert copy.notes

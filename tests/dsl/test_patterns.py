"""Patterns of names: what a star stands for, and that two patterns with a name in common are always found out."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guideway.dsl.lexer import NAME_LENGTH, is_name
from guideway.dsl.patterns import STAR_LENGTH, clashes, common_name, is_pattern, read_pattern

ONE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def naive(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return what stars stand for, by trying every length for each."""
    if not pattern:
        return None if name else ()
    if pattern[0] != "*":
        return naive(pattern[1:], name[1:]) if name[:1] == pattern[0] else None
    for length in range(1, min(len(name), STAR_LENGTH) + 1):
        if name[length - 1] not in ONE:
            return None
        rest = naive(pattern[1:], name[length:])
        if rest is not None:
            return (name[:length], *rest)
    return None


def _is_read(text: str) -> bool:
    try:
        read_pattern(text)
    except ValueError:
        return False
    return True


patterns = st.text("ab-.*", min_size=1, max_size=9).filter(_is_read)


@settings(max_examples=500, deadline=None)
@given(pattern=patterns, name=st.text("ab-._:@*é\n", max_size=9))
@example(pattern="*", name="-")
@example(pattern="*.*", name="a.b")
def test_a_pattern_means_the_names_that_a_naive_matcher_finds(pattern: str, name: str) -> None:
    expected = naive(pattern, name) if is_name(name) else None
    assert read_pattern(pattern).match(name) == expected


@settings(max_examples=300, deadline=None)
@given(pattern=patterns, stars=st.lists(st.text("ab-_", min_size=1, max_size=4), min_size=3, max_size=3))
def test_what_the_stars_stand_for_comes_back(pattern: str, stars: list[str]) -> None:
    name = pattern
    for star in stars:
        name = name.replace("*", star, 1)
    found = read_pattern(pattern).match(name)
    assert found == (tuple(stars[: pattern.count("*")]) if is_name(name) else None)


@settings(max_examples=500, deadline=None)
@given(one=patterns, other=patterns)
@example(one="ab*", other="*bc")
@example(one="a*a", other="*a")
@example(one="*-", other="*--")
def test_patterns_with_a_name_in_common_are_found_out(one: str, other: str) -> None:
    first, second = read_pattern(one), read_pattern(other)
    common = common_name(first, second)
    if common is not None:
        assert first.match(common) is not None
        assert second.match(common) is not None
    else:
        for star in ("a", "b", "-", "aa", "ab", "ba", "bb", "a-", "b-", "-a", "-b"):
            for name in (first.example(star), second.example(star)):
                assert first.match(name) is None or second.match(name) is None
    assert (common_name(second, first) is None) == (common is None)


@settings(max_examples=200, deadline=None)
@given(texts=st.sets(patterns, max_size=8))
def test_of_many_patterns_each_two_are_found(texts: set[str]) -> None:
    read = [read_pattern(text) for text in sorted(texts)]
    pairs = {frozenset((one.text, other.text)) for one, other, _ in clashes(read)}
    assert pairs == {
        frozenset((one.text, other.text))
        for number, one in enumerate(read)
        for other in read[:number]
        if common_name(one, other) is not None
    }


def test_every_short_name_agrees_on_what_patterns_have_in_common() -> None:
    names = [a + b + c + d for a in "ab" for b in "ab-." for c in ("", *"ab-.") for d in ("", *"ab-.")]
    texts = [p for a in "ab*" for b in "ab*.-" for c in ("", *"ab*.") if "*" in (p := a + b + c) and _is_read(p)]
    found = {text: {name for name in names if read_pattern(text).match(name)} for text in texts}
    for one in texts:
        for other in texts:
            if found[one] & found[other]:
                assert common_name(read_pattern(one), read_pattern(other)) is not None, (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("web-*", "web-*.prod"),
        ("web-*", "api-*"),
        ("*-a", "*-b"),
        ("web-*.a", "web-*:a"),
        ("*.a.b", "*.b.a"),
        (f"{'a' * 100}*", f"*{'b' * 100}"),  # no star is so long
        ("-".join("a" * 80) + "*", "*b"),
    ],
)
def test_these_have_no_name_in_common(one: str, other: str) -> None:
    assert common_name(read_pattern(one), read_pattern(other)) is None


def test_the_longest_name_of_a_pattern_is_a_name_and_the_next_is_none() -> None:
    fixed = NAME_LENGTH - 3 * STAR_LENGTH
    text = "*.*." + "x" * (fixed - 2) + "*"
    pattern = read_pattern(text)
    assert pattern.longest == NAME_LENGTH
    assert pattern.match(pattern.example("a" * STAR_LENGTH)) == ("a" * STAR_LENGTH,) * 3
    assert pattern.match(pattern.example("a" * (STAR_LENGTH + 1))) is None
    with pytest.raises(ValueError, match="names of up to 254 characters"):
        read_pattern(text + "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("web", "has no `"),
        ("web-**", "two `"),
        ("*-*", "two `"),
        ("web-*-*.prod", "two `"),
        ("-*", "is not a pattern"),
        (".*", "is not a pattern"),
        ("web *", "is not a pattern"),
        ("web-*\n", "is not a pattern"),
        ("wéb-*", "is not a pattern"),
        ("web-*/", "is not a pattern"),
        ("web-{1}*", "is not a pattern"),
        ("*.*.*.*", "up to 255"),
    ],
)
def test_what_is_no_pattern(text: str, why: str) -> None:
    assert is_pattern(text) == ("*" in text)
    with pytest.raises(ValueError, match=why):
        read_pattern(text)


def test_names_that_are_left_out_are_not_meant() -> None:
    pattern = read_pattern("web-*").replace(but=frozenset({"web-1"}))
    assert pattern.match("web-1") is None
    assert pattern.match("web-2") == ("2",)


def test_no_name_takes_long() -> None:
    pattern = read_pattern("*a.*a.*a")
    began = time.perf_counter()
    for name in ("a" * 63 + "b", ("a" * 64 + ".") * 3, ("a-" * 31 + ".") * 4, "a" * 1_000_000):
        assert pattern.match(name) is None
    assert time.perf_counter() - began < 0.05

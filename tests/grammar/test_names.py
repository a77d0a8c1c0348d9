"""A set of names as grammar: exactly those names, in every form but the last, which says that it is not exact."""

import random
import string
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grammar.recogniser import Recogniser, language

from guideway.dsl.lexer import NAME_LENGTH, is_name
from guideway.grammar.dialects.spelling import class_body
from guideway.grammar.model import Characters, Grammar, Group, Paragraph, Repeat, Rule, leaves
from guideway.grammar.names import IN_TREE, LISTED, Form, Names, any_name, exactly

PUNCTUATION = "._:@-"
CHARS = string.ascii_letters + string.digits + PUNCTUATION


def grammar_of(names: Names) -> Grammar:
    return Grammar((Paragraph((), (Rule("name", names.alternatives),)),))


def spelled(names: Names) -> frozenset[str]:
    found = language(grammar_of(names))
    assert all(text[0] == text[-1] == '"' for text in found)
    return frozenset(text[1:-1] for text in found)


def names_from(chars: str, most: int) -> st.SearchStrategy[set[str]]:
    """Return sets of names of few characters, so that they share beginnings, ends and middles."""
    one = st.text(chars, min_size=1, max_size=6).filter(is_name)
    return st.sets(one, min_size=1, max_size=most)


@settings(max_examples=300, deadline=None)
@given(names=names_from("ab-.", 40) | names_from(CHARS, 60))
def test_a_list_and_a_tree_spell_exactly_their_names(names: set[str]) -> None:
    assert spelled(exactly(names)) == names
    tree = exactly(names, listed=0)
    assert tree.form is Form.TREE
    assert tree.count == len(names)
    assert spelled(tree) == names


@settings(max_examples=200, deadline=None)
@given(names=names_from("ab-.", 40), text=st.text('ab-."\\\n ]', max_size=8))
def test_a_tree_accepts_nothing_else(names: set[str], text: str) -> None:
    assert Recogniser(grammar_of(exactly(names, listed=0))).accepts(text) == (text in {f'"{name}"' for name in names})


@pytest.mark.parametrize("listed", [0, LISTED])
@pytest.mark.parametrize(
    "names",
    [
        {"a", "aa", "aaa"},
        {"web", "web-1", "web-10", "web-1.example"},
        {f"x{mark}" for mark in PUNCTUATION} | {"x"},
        {f"x{mark}y" for mark in PUNCTUATION},
        {f"x{mark}" for mark in CHARS},
        {"x-", "x."},  # neighbours in ASCII, which would make a range with a hyphen
        {"x9", "x:"},
        {"PING", "ELSE", "TRY", "CATCH"},
        {"0", "9", "A", "z"},
        {"n" * NAME_LENGTH},
        {"a" * length for length in range(1, NAME_LENGTH + 1)},
    ],
    ids=lambda names: min(names)[:20] if isinstance(names, set) else None,
)
def test_awkward_names(names: set[str], listed: int) -> None:
    assert spelled(exactly(names, listed=listed)) == names


def test_no_class_needs_an_escape() -> None:
    """The characters that can be in a class, and how they are ordered, mean the same in every engine."""
    tree = exactly([f"x{mark}" for mark in CHARS], listed=0)
    classes = [leaf for leaf in leaves(tree.alternatives) if isinstance(leaf, Characters)]
    assert [class_body(found.ranges) for found in classes] == [".0-:@-Z_a-z-"]
    assert not any("-" in ends and ends != ("-", "-") for found in classes for ends in found.ranges)


def test_ten_thousand_names_that_count_up_are_a_few_classes() -> None:
    names = [f"web-{number:04}.rack{number % 40}.example" for number in range(10_000)]
    tree = exactly(names)
    assert tree.form is Form.TREE
    assert spelled(tree) == set(names)
    assert sum(1 for _ in leaves(tree.alternatives)) < 100


def test_a_thousand_names_at_random() -> None:
    choose = random.Random(5)  # noqa: S311  # nothing secret
    names = {"".join(choose.choices("0123456789abcdef", k=8)) for _ in range(1000)}
    tree = exactly(names)
    assert tree.form is Form.TREE
    assert spelled(tree) == names


def test_too_large_a_tree_is_the_pattern_of_names_no_longer_than_the_longest() -> None:
    choose = random.Random(6)  # noqa: S311  # nothing secret
    names = {"".join(choose.choices(CHARS[:62], k=12)) for _ in range(IN_TREE)}
    found = exactly(names)
    assert (found.form, found.count) == (Form.PATTERN, len(names))
    reader = Recogniser(grammar_of(found))
    for length in (1, 2, 11, 12, 13):
        assert reader.accepts(f'"{"n" * length}"') == (length <= 12)


@settings(max_examples=200, deadline=None)
@given(text=st.text(CHARS + ' "\\/é', max_size=6))
def test_the_pattern_accepts_what_is_a_name(text: str) -> None:
    assert Recogniser(grammar_of(any_name())).accepts(f'"{text}"') == is_name(text)


@pytest.mark.parametrize("length", [1, 252, 253, 254])
def test_the_pattern_ends_where_names_do(length: int) -> None:
    assert Recogniser(grammar_of(any_name())).accepts(f'"{"n" * length}"') == (length <= NAME_LENGTH)


def test_the_order_is_stable() -> None:
    names = ["b", "a", "a-b", "a.b"]
    for listed in (0, LISTED):
        assert len({exactly(order, listed=listed) for order in permutations(names)}) == 1
    assert exactly([*names, *names]) == exactly(names)


def test_groups_stand_in_groups_only_so_deep() -> None:
    """Readers of grammars are recursive too, and names can branch at every character."""

    def depth(alternatives: object) -> int:
        inside = [0]
        for alternative in alternatives:  # type: ignore[attr-defined]
            for item in alternative.items:
                inner = item.item if isinstance(item, Repeat) else item
                if isinstance(inner, Group):
                    inside.append(1 + depth(inner.alternatives))
        return max(inside)

    deepest = exactly(["a" * length for length in range(1, NAME_LENGTH + 1)])
    assert deepest.form is Form.TREE
    assert depth(deepest.alternatives) <= 26


@pytest.mark.parametrize(
    "bad",
    ["", "a b", 'a"', "a\\", "a\n", "a\r", "a]", "a/b", "-a", ".a", "a\0", "é", "a#", "n" * 254, "a{", "a|b"],
)
def test_what_is_no_name_gets_into_no_grammar(bad: str) -> None:
    with pytest.raises(ValueError, match="is not a name that a program can spell"):
        exactly(["good", bad])


def test_no_names_are_no_grammar() -> None:
    with pytest.raises(ValueError, match="there are no names"):
        exactly([])

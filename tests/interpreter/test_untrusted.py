"""Text from a service is made safe to show, whatever it is."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.interpreter.untrusted import clean

# Any text at all, lone surrogates too, and with more of what matters than chance would bring.
anything = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from("\x1b[]0;m\x07\\\x9b\x9d\u202e\u2066\ud800\r\n\tabcé\x7f\x00\u200b\U000e0041") | st.characters()
).map("".join)


@settings(max_examples=2000, deadline=None)
@given(anything, st.integers(1, 50))
def test_what_comes_out_is_safe_and_bounded(text: str, most: int) -> None:
    safe = clean(text, most)
    safe.encode()  # no lone surrogate
    for character in safe:
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
    mark, _, rest = safe.partition(" characters cut]\n")
    assert len(rest if mark.startswith("[") and rest else safe) <= most


@settings(max_examples=500, deadline=None)
@given(anything)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(categories=("L", "N", "P", "S"), codec="utf-8"), max_size=2000))
def test_plain_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mred\x1b[m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cGFzdGU=\x1b\\text", "text"),
        ("\x1bP+q544e\x1b\\text", "text"),
        ("\x1b(Btext\x1b=\x1bc", "text"),
        ("\x1b]0;never ends\nnext line", "\nnext line".strip("\n")),
        ("text\x1b", "text"),
        ("text\x1b[", "text"),
        ("a\rb\r\nc", "a\nb\nc"),
        ("a\x08\x00\x7f\x85b\tc", "ab\tc"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("a\u2066b\u2069c\u200fd\u061ce", "abcde"),
        ("a\ud800b\udfffc", "abc"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("tags\U000e0041\U000e007f", "tags"),
        ("a\u2028b", "ab"),
        ("日本語 😀 é", "日本語 😀 é"),
        ("\n\n  two\n\n", "  two"),
        ("", ""),
    ],
)
def test_what_is_taken_out(text: str, safe: str) -> None:
    assert clean(text) == safe


def test_the_tail_is_kept_and_the_cut_is_counted() -> None:
    assert clean("0123456789", most=4) == "[6 characters cut]\n6789"
    assert clean("0123", most=4) == "0123"


def test_an_escape_at_the_cut_is_not_cut_open() -> None:
    assert clean("x" * 10 + "\x1b[31m" + "y" * 4, most=4).endswith("\nyyyy")
    assert "31m" not in clean("\x1b[31m" + "y" * 4, most=4)


@pytest.mark.parametrize("unit", ["\x1b", "\x1b[", "\x1b]", "a"])
def test_much_text_is_little_work(unit: str) -> None:
    """Fifty megabytes: what is far from the tail is not looked at."""
    assert len(clean(unit * (50_000_000 // len(unit)))) <= 2100


def test_what_is_far_from_the_tail_is_not_looked_at() -> None:
    assert clean("a" + "\x1b[0m" * 1000, most=10) == "a"
    assert clean("a" + "\x1b[0m" * 10_000, most=10).endswith(" characters cut]\n")

"""Patterns of names: one text with stars for a whole fleet, what it means and what it leaves out. Pure.

A star stands for one to 63 letters, digits, ``_`` and ``-``: for one label, as the wildcard of a certificate does
(RFC 6125, section 6.4.3), and never for a dot, ``:`` or ``@``, so that no name gets into a part of the naming that the
pattern did not open. A label of a host name is as long (RFC 1035, section 2.3.4). At most one star stands between two
of those separators. So it is never in doubt what a star stands for, a match is found in one pass, and since the longest
name of a pattern is known, each name that a pattern means is one that a program can spell.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from guideway.dsl.lexer import NAME_LENGTH
from guideway.dsl.record import Record

STAR: Final = "*"
STAR_LENGTH: Final = 63
"""How many characters a star stands for, at most; at least one."""

_SEPARATORS: Final = ".:@"
_SPELLING: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:@*-]*", re.ASCII)
_PARTS: Final = re.compile(rf"[^{_SEPARATORS}]*(?:[{_SEPARATORS}]|\Z)")
_LABELS: Final = re.compile(rf"[^{_SEPARATORS}]+")
_ONE: Final = "[A-Za-z0-9_-]"


class NamePattern(Record):
    """A pattern of names. ``parts`` are its labels, each with the separator that ends it, and with at most one star.

    ``but`` are names that it spells and does not mean.
    """

    text: str
    parts: tuple[str, ...]
    regex: re.Pattern[str]
    but: frozenset[str] = frozenset()

    def match(self, name: str) -> tuple[str, ...] | None:
        """Return what the stars stand for in a name that the pattern means, else None; in time linear in the name."""
        found = self.regex.fullmatch(name)
        return None if found is None or name in self.but else found.groups()

    def example(self, star: str = "a") -> str:
        """Return a name that the pattern spells, with a text in the place of each star."""
        return self.text.replace(STAR, star)

    def spelled(self, stars: Iterable[str]) -> str:
        """Return the name in which the stars stand for so many texts."""
        return "".join(part for pair in zip(self.text.split(STAR), (*stars, ""), strict=True) for part in pair)

    def names(self) -> Iterator[str]:
        """Yield names that the pattern means, at least one: with numbers in the place of the stars."""
        numbers = range(1, len(self.but) + 2)
        return (name for number in numbers if (name := self.example(str(number))) not in self.but)

    @property
    def stars(self) -> int:
        """How many stars it has."""
        return self.text.count(STAR)

    @property
    def longest(self) -> int:
        """The length of the longest name that it spells."""
        return len(self.text) + self.stars * (STAR_LENGTH - 1)

    def __str__(self) -> str:
        return self.text


Spelling = str | NamePattern
"""What an inventory has in a name's place: the name, or a pattern of names."""


def separators(text: str) -> str:
    """Return the separators of a name or a pattern, in order. A name has those of a pattern that means it."""
    return _LABELS.sub("", text)


def is_pattern(text: str) -> bool:
    """Say whether a text is meant as a pattern: no name has a star."""
    return STAR in text


def read_pattern(text: str) -> NamePattern:
    """Return the pattern that a text spells. Raises ``ValueError``: lower case, no full stop, and with the mend."""
    if not is_pattern(text):
        raise ValueError("has no `*`")
    if not _SPELLING.fullmatch(text):
        raise ValueError(
            "is not a pattern of names: beside `*` it has letters, digits and `. _ : @ -`, and starts with a letter, "
            "a digit or `*`"
        )
    parts = tuple(part for part in _PARTS.findall(text) if part)
    if any(part.count(STAR) > 1 for part in parts):
        raise ValueError("has two `*` with no `.`, `:` or `@` between them: what each stands for would not be clear")
    pattern = NamePattern(text, parts, re.compile("".join(map(_regex, parts, range(len(parts)))), re.ASCII))
    if pattern.longest > NAME_LENGTH:
        raise ValueError(
            f"would mean names of up to {pattern.longest} characters, and a name has at most {NAME_LENGTH}: "
            f"each `*` counts as {STAR_LENGTH}"
        )
    return pattern


def _regex(part: str, index: int) -> str:
    """Return the expression for one part. It is atomic: a part that has matched is never looked at again."""
    before, star, behind = part.partition(STAR)
    if not star:
        return re.escape(part)
    first = index == 0 and not before  # a name starts with a letter or digit
    one = f"([A-Za-z0-9]{_ONE}{{0,{STAR_LENGTH - 1}}})" if first else f"({_ONE}{{1,{STAR_LENGTH}}})"
    return f"(?>{re.escape(before)}{one}{re.escape(behind)})"


def common_name(one: NamePattern, other: NamePattern) -> str | None:
    """Return a name that both patterns spell, None where there is none. Decided label by label, not by examples."""
    if len(one.parts) != len(other.parts):
        return None
    found = ""
    for part, its in zip(one.parts, other.parts, strict=True):
        common = _common(part, its, starts=not found)
        if common is None:
            return None
        found += common
    return found


def clashes(patterns: Iterable[NamePattern]) -> Iterator[tuple[NamePattern, NamePattern, str]]:
    """Yield each two patterns that have a name in common, with one.

    Only those are compared of which one begins and ends as the other does, so that many are little more work.
    """
    opened: list[tuple[str, str, NamePattern]] = []  # each begins as the one before it does
    for begins, ends, pattern in sorted(map(_with_ends, patterns), key=lambda found: found[0]):
        while opened and not begins.startswith(opened[-1][0]):
            opened.pop()
        for _, its_ends, rival in opened:
            if (ends.endswith(its_ends) or its_ends.endswith(ends)) and (name := common_name(rival, pattern)):
                yield rival, pattern, name
        opened.append((begins, ends, pattern))


def _with_ends(pattern: NamePattern) -> tuple[str, str, NamePattern]:
    """Return what each name of a pattern begins and ends with, and the pattern."""
    begins, _, behind = pattern.text.partition(STAR)
    return begins, behind.rpartition(STAR)[2], pattern


def _common(one: str, other: str, *, starts: bool) -> str | None:
    """Return a text that two parts spell. ``starts``: it is the first one of the name."""
    if one[-1] != other[-1] and (one[-1] in _SEPARATORS or other[-1] in _SEPARATORS):
        return None
    if STAR not in one:
        return one if _spells(other, one, starts=starts) else None
    if STAR not in other:
        return other if _spells(one, other, starts=starts) else None
    (head, _, tail), (its_head, _, its_tail) = one.partition(STAR), other.partition(STAR)
    longer_head, longer_tail = max(head, its_head, key=len), max(tail, its_tail, key=len)
    if not (head.startswith(its_head) or its_head.startswith(head)):
        return None
    if not (tail.endswith(its_tail) or its_tail.endswith(tail)):
        return None
    least = max(len(head) + len(tail), len(its_head) + len(its_tail)) + 1
    most = min(len(head) + len(tail), len(its_head) + len(its_tail)) + STAR_LENGTH
    for length in range(max(least, len(longer_head), len(longer_tail)), most + 1):
        between = length - len(longer_head) - len(longer_tail)
        if between >= 0:
            return longer_head + "a" * between + longer_tail
        if longer_head[between:] == longer_tail[:-between]:  # they overlap
            return longer_head + longer_tail[-between:]
    return None


def _spells(part: str, text: str, *, starts: bool) -> bool:
    return part == text or (STAR in part and re.fullmatch(_regex(part, 0 if starts else 1), text) is not None)

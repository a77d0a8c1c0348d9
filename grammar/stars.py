"""Patterns of names to grammar: exactly the names that a pattern means, without those that it leaves out.

A star is one class, repeated as often as it may stand for a character. Engines cannot leave anything out, so the names
that a pattern leaves out are followed character by character: where another one comes than theirs, all that the pattern
goes on with may follow; where theirs comes, the next is looked at; and where one of them ends, the pattern does not.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from guideway.dsl.patterns import STAR, STAR_LENGTH, NamePattern
from guideway.grammar.model import Alternative, Characters, Item, Literal, Repeat

QUOTE: Final = Literal('"')
FIRST: Final = Characters((("0", "9"), ("A", "Z"), ("a", "z")))
_ONE: Final = Characters((("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"), ("-", "-")))

_Place = tuple[int, int]  # in the text of a pattern, and how often the star there has stood for a character
_Places = frozenset[_Place]


def alternatives_of(pattern: NamePattern) -> tuple[Alternative, ...]:
    """Return the alternatives that spell, with their quotes, what a pattern means; none where it means nothing."""
    return tuple(_Reader(pattern.text).without(sorted(pattern.but)))


class _Reader:
    """The text of a pattern, from any place in it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def without(self, names: list[str]) -> Iterator[Alternative]:
        """Yield alternatives that together spell what the text does, except the names, which are sorted."""
        yield from self._without(names, "", frozenset({(0, 0)}))

    def _without(self, rests: list[str], before: str, places: _Places) -> Iterator[Alternative]:
        """Yield the alternatives behind a text that names begin with; ``rests`` are what is left of those."""
        head = (Literal(f'"{before}'),)
        if not rests:
            for place in sorted(places):
                yield Alternative(_joined((*head, *self._rest(place), QUOTE)))
            return
        if rests[0] and any(self._ends(place) for place in places):
            yield Alternative((Literal(f'"{before}"'),))
        theirs: dict[str, list[str]] = {}
        for rest in rests:
            if rest:
                theirs.setdefault(rest[0], []).append(rest[1:])
        others: dict[_Places, list[str]] = {}
        for char in sorted(self._next(places)):
            then = self._step(places, char)
            if char in theirs:
                yield from self._without(theirs[char], before + char, then)
            else:
                others.setdefault(then, []).append(char)
        for then, chars in others.items():
            for place in sorted(then):
                yield Alternative(_joined((*head, characters(chars), *self._rest(place), QUOTE)))

    def _rest(self, place: _Place) -> Iterator[Item]:
        """Yield items that spell what follows a place."""
        at, times = place
        while at < len(self._text):
            if self._text[at] == STAR:
                if at == times == 0:  # a name starts with a letter or digit
                    yield FIRST
                    times = 1
                yield Repeat(_ONE, 0 if times else 1, STAR_LENGTH - times)
                at, times = at + 1, 0
            else:
                end = self._text.find(STAR, at)
                end = len(self._text) if end < 0 else end
                yield Literal(self._text[at:end])
                at = end

    def _ends(self, place: _Place) -> bool:
        at, times = place
        return at == len(self._text) or (times > 0 and at + 1 == len(self._text))

    def _next(self, places: _Places) -> set[str]:
        """Return the characters that can follow."""
        found: set[str] = set()
        for at, times in places:
            if at < len(self._text) and self._text[at] == STAR:
                ranges = (FIRST if at == times == 0 else _ONE).ranges if times < STAR_LENGTH else ()
                found.update(chr(code) for first, last in ranges for code in range(ord(first), ord(last) + 1))
                at += times > 0  # noqa: PLW2901  # and what is behind the star
            if at < len(self._text) and self._text[at] != STAR:
                found.add(self._text[at])
        return found

    def _step(self, places: _Places, char: str) -> _Places:
        """Return where one is behind a character. Two stars never touch, so that no more than one can be begun."""
        found: set[_Place] = set()
        for at, times in places:
            if at < len(self._text) and self._text[at] == STAR:
                if times < STAR_LENGTH and any(first <= char <= last for first, last in _ONE.ranges):
                    found.add((at, times + 1))
                at += times > 0  # noqa: PLW2901
            if at < len(self._text) and self._text[at] == char:
                found.add((at + 1, 0))
        return frozenset(found)


def characters(chars: list[str]) -> Literal | Characters:
    """Return one character as a literal, several as a class of ranges; they are sorted. A hyphen is in no range."""
    if len(chars) == 1:
        return Literal(chars[0])
    ranges: list[tuple[str, str]] = []
    for char in chars:
        if ranges and ord(char) == ord(ranges[-1][1]) + 1 and ranges[-1][1] != "-":
            ranges[-1] = (ranges[-1][0], char)
        else:
            ranges.append((char, char))
    return Characters(tuple(ranges))


def _joined(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return items without empty repetitions, and with literals that touch made one."""
    joined: list[Item] = []
    for item in items:
        if isinstance(item, Repeat) and item.most == 0:
            continue
        if isinstance(item, Literal) and joined and isinstance(joined[-1], Literal):
            joined[-1] = Literal(joined[-1].text + item.text)
        else:
            joined.append(item)
    return tuple(joined)

"""What can be known of a spelled grammar without running it: how long its texts are, and how many commands they hold.

Everything here is computed from the rules, never tried.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

from guideway.dsl.ast import Target
from guideway.grammar.model import (
    Alternative,
    Characters,
    Grammar,
    Group,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
    Rule,
    leaves,
)

#: The rules that a command has one of: its name's.
NAME_RULES: Final = frozenset(target.value.lower() for target in Target)

_Weight = Callable[[Literal | Characters], int]


def longest(grammar: Grammar) -> int | None:
    """Return the bytes of the longest text that a spelled grammar derives; None where there is no longest."""
    return _most(grammar, _bytes, {})


def most_commands(grammar: Grammar) -> int | None:
    """Return the most commands in a text that a spelled grammar derives; None where there is no most."""
    return _most(grammar, lambda _: 0, dict.fromkeys(NAME_RULES, 1))


def shortest(grammar: Grammar) -> Mapping[str, int]:
    """Return by rule the bytes of the shortest text that it derives. A rule that derives none is left out."""
    known: dict[str, int] = {}
    while True:
        found = {
            name: least
            for name, rule in grammar.rules.items()
            if (least := _least(rule.alternatives, known)) is not None and least < known.get(name, least + 1)
        }
        if not found:
            return known
        known |= found


def way_out(grammar: Grammar) -> int | None:
    """Return the most bytes that the end of a text can be away: from any place in any text, some so short way completes
    it. None where a rule can contain itself, so that there may be no most.
    """
    least = shortest(grammar)
    begun = _fold(grammar, lambda rule, known: _farthest(rule.alternatives, least, known), {})
    return None if begun is None else max(begun, least[next(iter(grammar.rules))])


def _bytes(leaf: Literal | Characters) -> int:
    match leaf:
        case Literal(text):
            return len(text.encode())
        case Characters(ranges):
            return max(len(last.encode()) for _, last in ranges)
        case _:
            assert_never(leaf)


def _most(grammar: Grammar, weight: _Weight, fixed: Mapping[str, int]) -> int | None:
    """Return the most that a text of the first rule can weigh, where some rules weigh what is ``fixed``."""
    if any(item.most is None for rule in grammar.rules.values() for item in repeats(rule.alternatives)):
        return None
    return _fold(grammar, lambda rule, known: _heaviest(rule.alternatives, weight, known), fixed)


def _fold(grammar: Grammar, value: Callable[[Rule, Mapping[str, int]], int], fixed: Mapping[str, int]) -> int | None:
    """Return the value of the first rule, where a rule's follows from those of the rules that it refers to.

    None where a rule leads back to itself.
    """
    rules = grammar.rules
    known = dict(fixed)
    while not rules.keys() <= known.keys():  # a rule refers to deeper ones, so each round makes some known
        ready = {
            name: rule
            for name, rule in rules.items()
            if name not in known and {leaf.name for leaf in references(rule.alternatives)} <= known.keys()
        }
        if not ready:
            return None
        known |= {name: value(rule, known) for name, rule in ready.items()}
    return known[next(iter(rules))]


def references(alternatives: tuple[Alternative, ...]) -> Iterator[Reference]:
    """Yield what alternatives refer to, from left to right."""
    return (leaf for leaf in leaves(alternatives) if isinstance(leaf, Reference))


def repeats(alternatives: tuple[Alternative, ...]) -> Iterator[Repeat]:
    """Yield all repetitions in alternatives, also those inside others."""
    for alternative in alternatives:
        for item in alternative.items:
            if isinstance(item, Repeat):
                yield item
            inner = item.item if isinstance(item, Repeat) else item
            if isinstance(inner, Group):
                yield from repeats(inner.alternatives)


def _heaviest(alternatives: tuple[Alternative, ...], weight: _Weight, known: Mapping[str, int]) -> int:
    def of(item: Item) -> int:
        match item:
            case Literal() | Characters():
                return weight(item)
            case Reference(name):
                return known[name]
            case Group(inner):
                return _heaviest(inner, weight, known)
            case Repeat(inner, _, most):
                return (most or 0) * of(inner)
            case Pattern():
                raise ValueError("a spelled grammar has no patterns")
            case _:
                assert_never(item)

    return max(sum(map(of, alternative.items)) for alternative in alternatives)


def _farthest(alternatives: tuple[Alternative, ...], least: Mapping[str, int], known: Mapping[str, int]) -> int:
    """Return the most bytes to the end of alternatives once they have begun; ``known`` says so of other rules."""

    def of(item: Item) -> int:
        match item:
            case Literal() | Characters():
                return _bytes(item) - 1
            case Reference(name):
                return known[name]
            case Group(inner):
                return _farthest(inner, least, known)
            case Repeat(inner, fewest):
                once = _least_item(inner, least) or 0
                return of(inner) + once * max(0, fewest - 1)
            case Pattern():
                raise ValueError("a spelled grammar has no patterns")
            case _:
                assert_never(item)

    found = 0
    for alternative in alternatives:
        behind = 0
        for item in reversed(alternative.items):
            found = max(found, of(item) + behind)
            behind += _least_item(item, least) or 0
    return found


def _least(alternatives: tuple[Alternative, ...], known: Mapping[str, int]) -> int | None:
    """Return the bytes of the shortest text, None where none is known yet."""
    sums: list[int] = []
    for alternative in alternatives:
        lengths = [_least_item(item, known) for item in alternative.items]
        if None not in lengths:
            sums.append(sum(length or 0 for length in lengths))
    return min(sums, default=None)


def _least_item(item: Item, known: Mapping[str, int]) -> int | None:
    match item:
        case Literal(text):
            return len(text.encode())
        case Characters(ranges):
            return min(len(first.encode()) for first, _ in ranges)
        case Reference(name):
            return known.get(name)
        case Group(inner):
            return _least(inner, known)
        case Repeat(_, 0):
            return 0
        case Repeat(inner, least):
            once = _least_item(inner, known)
            return None if once is None else once * least
        case Pattern():
            raise ValueError("a spelled grammar has no patterns")
        case _:
            assert_never(item)

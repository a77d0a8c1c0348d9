"""What a spelled grammar accepts and spells, found by the plainest means: no printer, engine or measure is trusted."""

from collections.abc import Iterable, Iterator
from functools import cache

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
)

Ends = frozenset[int]


class Recogniser:
    """Reads texts by a grammar of rules, whose first is the start."""

    def __init__(self, grammar: Grammar) -> None:
        self._rules = grammar.rules
        assert len(list(grammar.definitions())) == len(self._rules), "rules only, each once"
        self._start = next(iter(self._rules))

    def accepts(self, text: str) -> bool:
        """Say whether the start derives a text."""
        return len(text) in self._reader(text)(self._start, 0)

    def _reader(self, text: str):  # type: ignore[no-untyped-def]  # a closure over its own cache
        @cache
        def rule(name: str, at: int) -> Ends:
            return alternatives(self._rules[name].alternatives, at)

        def alternatives(found: tuple[Alternative, ...], at: int) -> Ends:
            return frozenset(end for alternative in found for end in sequence(alternative.items, at))

        def sequence(items: tuple[Item, ...], at: int) -> Ends:
            ends = frozenset({at})
            for one in items:
                ends = frozenset(further for end in ends for further in item(one, end))
            return ends

        def item(one: Item, at: int) -> Ends:
            match one:
                case Literal(literal):
                    return frozenset({at + len(literal)} if text.startswith(literal, at) else ())
                case Characters(ranges):
                    here = text[at : at + 1]
                    return frozenset({at + 1} if here and any(a <= here <= b for a, b in ranges) else ())
                case Reference(name):
                    return rule(name, at)
                case Group(inner):
                    return alternatives(inner, at)
                case Repeat(inner, least, most):
                    return repeat(inner, least, most, at)
                case Pattern():
                    raise AssertionError("a pattern")

        def repeat(inner: Item, least: int, most: int | None, at: int) -> Ends:
            ends, found, times = frozenset({at}), set[int](), 0
            while ends and (most is None or times <= most):
                if times >= least:
                    if ends <= found:
                        break
                    found |= ends
                ends = frozenset(further for end in ends for further in item(inner, end))
                times += 1
            return frozenset(found)

        return rule


def language(grammar: Grammar, words: int = 10**9) -> frozenset[str]:
    """Return every text of at most so many words that a grammar spells, where those are finitely many.

    Pieces of the grammar that touch must not make one word, and a repetition without a most must have words in it.
    """
    rules = grammar.rules

    @cache
    def rule(name: str) -> frozenset[str]:
        return alternatives(rules[name].alternatives)

    def alternatives(found: Iterable[Alternative]) -> frozenset[str]:
        return frozenset(text for alternative in found for text in joined(map(item, alternative.items)))

    def joined(parts: Iterable[frozenset[str]]) -> frozenset[str]:
        texts = frozenset({""})
        for part in parts:
            texts = frozenset(
                text + more for text in texts for more in part if len(text.split()) + len(more.split()) <= words
            )
        return texts

    def item(one: Item) -> frozenset[str]:
        match one:
            case Literal(text):
                return frozenset({text})
            case Characters(ranges):
                return frozenset(chr(code) for a, b in ranges for code in range(ord(a), ord(b) + 1))
            case Reference(name):
                return rule(name)
            case Group(inner):
                return alternatives(inner)
            case Repeat(inner, least, most):
                return repeat(item(inner), least, most)
            case Pattern():
                raise AssertionError("a pattern")

    def repeat(once: frozenset[str], least: int, most: int | None) -> frozenset[str]:
        texts = joined([once] * least)
        found = set(texts)
        times = least
        while texts and (most is None or times < most):
            texts = joined([texts, once])
            found |= texts
            times += 1
        return frozenset(found)

    return rule(next(iter(rules)))


def nullable(grammar: Grammar) -> frozenset[str]:
    """Return the rules that derive the empty text."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, rule in grammar.rules.items()
            if name not in found and any(all(is_nullable(i, found) for i in a.items) for a in rule.alternatives)
        }
        if not more:
            return frozenset(found)
        found |= more


def is_nullable(item: Item, rules: Iterable[str]) -> bool:
    """Say whether an item can be empty, where these rules can."""
    match item:
        case Literal(text):
            return not text
        case Reference(name):
            return name in rules
        case Group(alternatives):
            return any(all(is_nullable(i, rules) for i in a.items) for a in alternatives)
        case Repeat(inner, least):
            return least == 0 or is_nullable(inner, rules)
        case _:
            return False


def first(grammar: Grammar, rule: Rule) -> frozenset[str]:
    """Return the rules that a text of a rule can begin with, those behind what can be empty among them."""
    empty = nullable(grammar)

    def of(items: tuple[Item, ...]) -> Iterator[str]:
        for item in items:
            inner = item.item if isinstance(item, Repeat) else item
            if isinstance(inner, Reference):
                yield inner.name
            elif isinstance(inner, Group):
                for alternative in inner.alternatives:
                    yield from of(alternative.items)
            if not is_nullable(item, empty):
                return

    return frozenset(name for alternative in rule.alternatives for name in of(alternative.items))

"""A copy to exactly the characters that a model may write: layout decided, nesting bounded, names listed.

The grammar's rules speak of tokens, and of what is ignored between them. Engines know neither. Here every rule that can
contain itself is written out once for each depth, so that nesting is bounded by construction, and between two tokens
stands exactly the white space of the canonical text: what is generated is what ``fmt`` would print (or its one-line
form), without comments and with every body in braces. So nothing is ignored, no rule is left recursive, no repetition
can be empty, and from any place a bounded text completes the program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from guideway.dsl.printer import INDENT
from guideway.grammar.model import (
    START,
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
    Rule,
    Terminal,
    leaves,
)
from guideway.grammar.names import Names

STATEMENT: Final = "statement"
BLOCK: Final = "block"


class Layout(StrEnum):
    """How a generated program is laid out."""

    ONE_LINE = "one-line"
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a generated program can get.

    ``nesting`` counts the bodies and blocks around a statement, as the server's limit does. ``statements`` is the most
    in a row at the outermost level; each level further in has half of that, at least one. None is any number. Raises
    ``ValueError`` for a shape that holds no program.
    """

    nesting: int
    statements: int | None

    def __post_init__(self) -> None:
        if self.nesting < 0 or (self.statements is not None and self.statements < 1):
            raise ValueError("a program nests 0 deep or more, and has at least one statement")

    def in_a_row(self, depth: int) -> int | None:
        """Return the most statements in a row inside ``depth`` bodies."""
        return None if self.statements is None else max(1, self.statements >> depth)


class TooLarge(ValueError):  # noqa: N818  # it is an answer, not a fault
    """A shape that a dialect, or the server's limits, have no room for."""


FINITE: Final = Shape(nesting=3, statements=8)


def spell(grammar: Grammar, names: Mapping[str, Names], shape: Shape, layout: Layout) -> Grammar:
    """Return a grammar without terminals that spells the programs of ``grammar`` within a shape.

    ``names`` says what each terminal that is no keyword spells. Its first rule is the start.
    """
    return _Speller(grammar, names, shape, layout).grammar()


class _Speller:
    def __init__(self, grammar: Grammar, names: Mapping[str, Names], shape: Shape, layout: Layout) -> None:
        self._grammar = grammar
        self._names = names
        self._shape = shape
        self._layout = layout
        self._deep = frozenset(name for name in grammar.rules if name != START and BLOCK in _reachable(grammar, name))

    def grammar(self) -> Grammar:
        paragraphs = []
        for paragraph in self._grammar.paragraphs:
            spelled = tuple(rule for definition in paragraph.definitions for rule in self._rules(definition))
            if spelled:
                paragraphs.append(Paragraph(paragraph.comment, spelled))
        return Grammar(tuple(paragraphs))

    def _rules(self, definition: Definition) -> Iterator[Rule]:
        """Yield a definition as rules: one for each depth where it can contain itself."""
        match definition:
            case Rule(name, alternatives) if name in self._deep:
                for depth in range(self._shape.nesting + 1):
                    spelled = tuple(self._alternatives(name, alternatives, depth))
                    if spelled:
                        yield Rule(f"{name}_{depth}", spelled)
            case Rule(name, alternatives):
                yield Rule(name, tuple(self._alternatives(name, alternatives, 0)))
            case Terminal(name) if name in self._names:
                same = next(other for other in self._names if self._names[other] == self._names[name])
                same_names = (Alternative((Reference(same.lower()),)),)  # engines compile them once
                yield Rule(name.lower(), self._names[name].alternatives if same == name else same_names)
            case _:
                pass  # a keyword is spelled where it stands, and nothing is ignored

    def _alternatives(self, rule: str, alternatives: tuple[Alternative, ...], depth: int) -> Iterator[Alternative]:
        """Yield the alternatives that can stand this deep, in a rule or in a group of it that starts a text."""
        if rule == BLOCK and depth >= self._shape.nesting:
            return
        for alternative in alternatives:
            items = self._sequence(rule, alternative.items, depth, before="")
            if items is not None:
                yield Alternative(_merged(items))

    def _sequence(self, rule: str, items: tuple[Item, ...], depth: int, before: str) -> tuple[Item, ...] | None:
        """Return items with the white space that separates them, ``before`` first; None where one cannot stand here."""
        spelled: list[Item] = []
        for index, item in enumerate(items):
            more = self._item(rule, item, depth, self._gap(rule, item, depth) if index else before)
            if more is None:
                return None
            spelled += more
        return tuple(spelled)

    def _item(self, rule: str, item: Item, depth: int, before: str) -> tuple[Item, ...] | None:
        gap = (Literal(before),) if before else ()
        match item:
            case Literal():
                return (*gap, item)
            case Reference(name) if item.is_terminal:
                keyword = self._grammar.terminals[name].keyword
                return (*gap, Reference(name.lower()) if keyword is None else Literal(keyword))
            case Reference(name):
                reference = self._rule_at(rule, name, depth)
                return None if reference is None else (*gap, reference)
            case Group(alternatives):
                kept = [self._sequence(rule, alternative.items, depth, before) for alternative in alternatives]
                spelled = tuple(Alternative(_merged(items)) for items in kept if items is not None)
                return (Group(spelled),) if spelled else None
            case Repeat():
                return self._repeat(rule, item, depth, before)
            case Pattern() | Characters():
                raise ValueError(f"the rule `{rule}` has a pattern where a terminal should stand")
            case _:
                assert_never(item)

    def _repeat(self, rule: str, repeat: Repeat, depth: int, before: str) -> tuple[Item, ...] | None:
        inner, least, most = repeat.item, repeat.least, repeat.most
        if least == 0 and not before:
            raise ValueError(f"the rule `{rule}` starts with what may be left out, so its white space is not clear")
        again = self._item(rule, inner, depth, before if least == 0 else self._gap(rule, inner, depth))
        if again is None:
            return () if least == 0 else None
        if most is None:
            most = self._shape.in_a_row(depth + (rule == BLOCK))
        first = (self._item(rule, inner, depth, before) or ()) if least else ()
        if most == least:
            return first
        group = again[0] if len(again) == 1 and isinstance(again[0], Group) else Group((Alternative(_merged(again)),))
        return (*first, Repeat(group, 0, None if most is None else most - least))

    def _rule_at(self, rule: str, name: str, depth: int) -> Reference | None:
        """Return the reference from inside ``rule`` to another one; None where that cannot stand so deep."""
        if name == STATEMENT and rule not in {START, BLOCK}:
            name = BLOCK  # the canonical text has every body in braces
        if name not in self._deep:
            return Reference(name)
        at = depth + (rule == BLOCK)
        definition = self._grammar.rules[name]
        exists = next(self._alternatives(name, definition.alternatives, at), None) is not None
        return Reference(f"{name}_{at}") if exists else None

    def _gap(self, rule: str, item: Item, depth: int) -> str:
        """Return the white space of the canonical text before an item inside a rule."""
        match self._layout:
            case Layout.ONE_LINE:
                return " "
            case Layout.LINES if rule == START:
                return "\n"
            case Layout.LINES if rule == BLOCK:
                return "\n" + INDENT * (depth + any(leaf == Reference(STATEMENT) for leaf in leaves(_alone(item))))
            case Layout.LINES:
                return " "
            case _:
                assert_never(self._layout)


def _alone(item: Item) -> tuple[Alternative, ...]:
    return (Alternative((item,)),)


def _merged(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return items with literals that touch made one."""
    merged: list[Item] = []
    for item in items:
        if isinstance(item, Literal) and merged and isinstance(merged[-1], Literal):
            merged[-1] = Literal(merged[-1].text + item.text)
        else:
            merged.append(item)
    return tuple(merged)


def _reachable(grammar: Grammar, name: str) -> frozenset[str]:
    """Return the rules that a rule leads to."""
    reached: set[str] = set()
    ahead = [name]
    while ahead:
        for leaf in leaves(grammar.rules[ahead.pop()].alternatives):
            if isinstance(leaf, Reference) and not leaf.is_terminal and leaf.name not in reached:
                reached.add(leaf.name)
                ahead.append(leaf.name)
    return frozenset(reached)

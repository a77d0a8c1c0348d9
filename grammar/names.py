"""Sets of names to grammar: exactly those names, in a form that engines compile fast.

A few names are listed. Many become a prefix tree, in which siblings with the same continuations share a character
class, so that ``web-000`` to ``web-999`` cost three classes. Patterns of names, which ``stars`` spells, stand beside
the names. Where all of it would be too large, the general pattern stands in, and says so: a copy that names anything
is only a help to the caller, and the interpreter refuses what is not in the inventory.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from os.path import commonprefix
from typing import Final

from guideway.dsl.lexer import NAME_LENGTH, is_name
from guideway.dsl.patterns import NamePattern, Spelling, separators
from guideway.grammar.model import Alternative, Characters, Group, Item, Literal, Repeat, leaves
from guideway.grammar.stars import FIRST, QUOTE, alternatives_of, characters

LISTED: Final = 64
"""Up to so many names are listed."""

IN_TREE: Final = 4_096
"""A prefix tree has up to so many pieces, literals and classes together.

Ten thousand names that count up take about a hundred, a few thousand names at random all of them. Beyond that XGrammar
compiles for seconds; llama.cpp and llguidance would not mind.
"""

_DEEPEST: Final = 24
"""Groups stand inside groups so deep; names that branch more often are listed from there on."""

_REST: Final = Characters(((".", "."), ("0", ":"), ("@", "Z"), ("_", "_"), ("a", "z"), ("-", "-")))


class Form(StrEnum):
    """How a set of names is written."""

    LIST = "list"
    TREE = "tree"
    PATTERNS = "patterns"  # those of the inventory, exactly, with its names as a list or a tree beside them
    PATTERN = "pattern"  # that of all names


@dataclass(frozen=True, slots=True)
class Names:
    """What a name terminal spells, its quotes included, in which form, and how many that are; None is any name.

    A pattern of names counts as one.
    """

    form: Form
    alternatives: tuple[Alternative, ...]
    count: int | None


def exactly(names: Iterable[Spelling], *, listed: int = LISTED, in_tree: int = IN_TREE) -> Names:
    """Return the grammar of these names and of what these patterns of names mean, sorted.

    Where it would have more than ``in_tree`` pieces, it is that of any name that is no longer than the longest.

    Raises ``ValueError`` for none at all, and for a text that is no name of the language: so no quote, backslash
    or line end can get into a grammar.
    """
    given = set(names)
    patterns = sorted((name for name in given if isinstance(name, NamePattern)), key=str)
    texts = sorted(name for name in given if isinstance(name, str))
    for name in texts:
        if not is_name(name):
            raise ValueError(f"{name!r} is not a name that a program can spell")
    if not given:
        raise ValueError("there are no names")
    starred = tuple(alternative for pattern in patterns for alternative in alternatives_of(pattern))
    by_form: dict[str, list[NamePattern]] = {}
    for pattern in patterns:
        by_form.setdefault(separators(pattern.text), []).append(pattern)
    others = [name for name in texts if all(one.match(name) is None for one in by_form.get(separators(name), ()))]
    if len(others) <= listed:
        form, spelled = Form.LIST, tuple(Alternative((Literal(f'"{name}"'),)) for name in others)
    else:
        form, spelled = Form.TREE, (Alternative(_joined((QUOTE, *_tree(others), QUOTE))),)
    spelled = (*starred, *spelled)
    if form is Form.LIST and not patterns:
        return Names(form, spelled, len(given))
    if sum(1 for _ in leaves(spelled)) <= in_tree:
        return Names(Form.PATTERNS if patterns else form, spelled, len(given))
    longest = max([*map(len, texts), *(pattern.longest for pattern in patterns)])
    return replace(any_name(longest), count=len(given))


def any_name(length: int = NAME_LENGTH) -> Names:
    """Return the grammar of every name of at most ``length`` characters."""
    return Names(Form.PATTERN, (Alternative((QUOTE, FIRST, Repeat(_REST, 0, length - 1), QUOTE)),), None)


def _tree(texts: list[str], depth: int = 0) -> tuple[Item, ...]:
    """Return items that spell exactly these texts, which are sorted, different, and at least one."""
    if len(texts) == 1:
        return (Literal(texts[0]),) if texts[0] else ()
    shared = commonprefix([texts[0], texts[-1]])  # noqa: RUF071  # texts; of sorted ones, these two differ most
    head: tuple[Item, ...] = (Literal(shared),) if shared else ()
    ends_here = texts[0] == shared
    rests = [text[len(shared) :] for text in texts[ends_here:]]
    branches = _branches(rests, depth) if depth < _DEEPEST else tuple(Alternative((Literal(rest),)) for rest in rests)
    if ends_here:
        return (*head, Repeat(Group(branches), 0, 1))
    if len(branches) == 1:
        return (*head, *branches[0].items)
    return (*head, Group(branches))


def _branches(texts: list[str], depth: int) -> tuple[Alternative, ...]:
    """Return one alternative for each set of continuations, with the class of the characters that lead there."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[0], []).append(text[1:])
    by_rest: dict[tuple[str, ...], list[str]] = {}
    for first, rest in by_first.items():
        by_rest.setdefault(tuple(rest), []).append(first)
    return tuple(
        Alternative(_joined((characters(firsts), *_tree(list(rest), depth + 1)))) for rest, firsts in by_rest.items()
    )


def _joined(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return items with the first two made one where both are literals."""
    match items:
        case (Literal(one), Literal(other), *rest):
            return (Literal(one + other), *rest)
        case _:
            return items

"""A grammar to the copy for some scopes. It fails closed: what is not known to be allowed is in nobody's copy.

A copy tells a caller what is worth writing. It never decides what runs: the interpreter checks every node, and does
not know that copies exist.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar.model import (
    START,
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
    Rule,
    Terminal,
    leaves,
)

#: The rules that need no scope, and the words and brackets that each may spell. Every other rule is a command's.
STRUCTURE: Final[Mapping[str, frozenset[str]]] = {
    START: frozenset(),
    "statement": frozenset(),
    "try_catch": frozenset({"TRY", "CATCH"}),
    "block": frozenset({"{", "}"}),
}


class NoGrammar(Exception):  # noqa: N818  # it is an answer, not a fault
    """The caller may run no command, or has nothing that one could name, so there is no grammar to show."""


class NothingToName(NoGrammar):
    """The scopes allow commands, and there is nothing that one of them could name."""


def rule_name(command: type[Command]) -> str:
    """Return the name of the rule that holds a command's syntax: ``get_status`` for ``GetStatus``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower()


def trim(grammar: Grammar, scopes: Iterable[Scope], kinds: Iterable[Target] = Target) -> Grammar:
    """Return the part of a grammar that spells the programs which ``scopes`` allow.

    ``kinds`` are those of which the caller has something to name: a command that names another kind is left out.
    Raises ``NoGrammar`` where that leaves no command of the grammar.
    """
    held, named = frozenset(scopes), frozenset(kinds)
    in_scope = [command for command in COMMANDS if command.scope in held]
    allowed = {rule_name(command): command for command in in_scope if command.names in named}

    def keep(rule: Rule, alternative: Alternative) -> bool:
        if rule.name in STRUCTURE:
            return _words(grammar, alternative) <= STRUCTURE[rule.name]
        command = allowed.get(rule.name)
        return command is not None and _opens_with(grammar, alternative, command.keyword)

    copy = restrict(grammar, keep)
    if allowed.keys() & copy.rules.keys():
        return copy
    if in_scope and not allowed:
        raise NothingToName("there is no grammar without a name: what the scopes allow has nothing to name")
    raise NoGrammar(f"there is no grammar without a scope: it takes `{'` or `'.join(sorted(PROGRAM_SCOPES))}`")


def restrict(grammar: Grammar, keep: Callable[[Rule, Alternative], bool]) -> Grammar:
    """Return a grammar without the alternatives of rules that are not kept, and without what they leave idle.

    What then derives nothing goes, and so does what is reached neither from the start nor as an ignored terminal.
    """
    kept: dict[str, tuple[Alternative, ...]] = {
        definition.name: definition.alternatives
        if isinstance(definition, Terminal)
        else tuple(alternative for alternative in definition.alternatives if keep(definition, alternative))
        for definition in grammar.definitions()
        if not isinstance(definition, Ignore)
    }
    productive = _productive(kept)
    kept = {name: _without(alternatives, productive) for name, alternatives in kept.items() if name in productive}
    reached = _reached(kept, [START, *grammar.ignored])

    def still(definition: Definition) -> Definition | None:
        if definition.name not in reached:
            return None
        return definition if isinstance(definition, Ignore) else replace(definition, alternatives=kept[definition.name])

    paragraphs = []
    for paragraph in grammar.paragraphs:
        definitions = tuple(left for old in paragraph.definitions if (left := still(old)) is not None)
        if definitions or not paragraph.definitions:
            paragraphs.append(replace(paragraph, definitions=definitions))
    return Grammar(tuple(paragraphs))


def _words(grammar: Grammar, alternative: Alternative) -> frozenset[str]:
    """Return what an alternative spells by itself: its literals, and its terminals' keywords or else their names."""
    words: set[str] = set()
    for leaf in leaves((alternative,)):
        if isinstance(leaf, Literal):
            words.add(leaf.text)
        elif isinstance(leaf, Pattern):
            words.add(leaf.regex)
        elif isinstance(leaf, Characters):
            words.update(f"{first}-{last}" for first, last in leaf.ranges)
        elif leaf.is_terminal:
            words.add(grammar.terminals[leaf.name].keyword or leaf.name)
    return frozenset(words)


def _opens_with(grammar: Grammar, alternative: Alternative, keyword: str) -> bool:
    first = alternative.items[0] if alternative.items else None
    return isinstance(first, Reference) and first.is_terminal and grammar.terminals[first.name].keyword == keyword


def _productive(kept: Mapping[str, tuple[Alternative, ...]]) -> frozenset[str]:
    """Return the names that derive some text: the least set, so a name that only leads back to itself is not in it."""
    productive: set[str] = set()
    while True:
        more = {
            name
            for name, alternatives in kept.items()
            if name not in productive
            and any(all(_derives(item, productive) for item in alternative.items) for alternative in alternatives)
        }
        if not more:
            return frozenset(productive)
        productive |= more


def _derives(item: Item, productive: set[str] | frozenset[str]) -> bool:
    match item:
        case Literal() | Pattern() | Characters():
            return True
        case Reference(name):
            return name in productive
        case Group(alternatives):
            return any(all(_derives(inner, productive) for inner in a.items) for a in alternatives)
        case Repeat(inner, least):
            return least == 0 or _derives(inner, productive)


def _without(alternatives: tuple[Alternative, ...], productive: frozenset[str]) -> tuple[Alternative, ...]:
    """Return the alternatives that derive some text, without the optional items and inner alternatives that do not."""

    def item(old: Item) -> Item:
        match old:
            case Repeat(Group(inner), least, most):
                return Repeat(Group(_without(inner, productive)), least, most)
            case Group(inner):
                return Group(_without(inner, productive))
            case _:
                return old

    return tuple(
        Alternative(tuple(item(old) for old in alternative.items if not _idle(old, productive)))
        for alternative in alternatives
        if all(_derives(old, productive) for old in alternative.items)
    )


def _idle(item: Item, productive: frozenset[str]) -> bool:
    """Say whether an item can only be left out."""
    return isinstance(item, Repeat) and not _derives(item.item, productive)


def _reached(kept: Mapping[str, tuple[Alternative, ...]], roots: Iterable[str]) -> frozenset[str]:
    reached: set[str] = set()
    ahead = [name for name in roots if name in kept]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [leaf.name for leaf in leaves(kept[name]) if isinstance(leaf, Reference)]
    return frozenset(reached)

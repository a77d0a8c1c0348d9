"""A spelled grammar to that of a tool call: what a host constrains is seldom the bare program.

A pass over rules: what the grammar spells is escaped as JSON escapes it, and put between what stands around it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never

from guideway.grammar.model import (
    START,
    Alternative,
    Atom,
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
)

TOOL: Final = "execute_diagnostic_pipeline"
ARGUMENT: Final = "program"
PROGRAM: Final = "program"
"""The rule that a whole program is in a wrapped grammar, where the start is the call."""


class Wrap(StrEnum):
    """What stands around a generated program."""

    NONE = "none"
    JSON = "json"
    HERMES = "hermes"
    LLAMA3 = "llama3"
    MISTRAL = "mistral"


@dataclass(frozen=True, slots=True)
class Around:
    """The text before and behind the object of the arguments."""

    before: str
    behind: str


def around(wrap: Wrap) -> Around:
    """Return what stands around the arguments in a chat format; for the arguments alone, nothing.

    The spaces are those of Python's ``json.dumps``, which the formats' own templates use.
    """
    call = f'{{"name": "{TOOL}", '
    match wrap:
        case Wrap.NONE | Wrap.JSON:
            return Around("", "")
        case Wrap.HERMES:  # also Qwen's
            return Around(f'<tool_call>\n{call}"arguments": ', "}\n</tool_call>")
        case Wrap.LLAMA3:
            return Around(f'{call}"parameters": ', "}")
        case Wrap.MISTRAL:
            return Around(f'[TOOL_CALLS][{call}"arguments": ', "}]")
        case _:
            assert_never(wrap)


def wrapped(grammar: Grammar, wrap: Wrap) -> Grammar:
    """Return the grammar of the tool calls, or of the arguments, that hold a text of a spelled grammar."""
    if wrap is Wrap.NONE:
        return grammar
    stands = around(wrap)
    start = Rule(
        START,
        (
            Alternative(
                (
                    Literal(f'{stands.before}{{"{ARGUMENT}": "'),
                    Reference(PROGRAM),
                    Literal(f'"}}{stands.behind}'),
                )
            ),
        ),
    )
    first = Paragraph(("The call that holds the program, as a JSON string.",), (start,))
    return Grammar((first, *_mapped(grammar, _escaped)))


def _escaped(item: Literal | Characters) -> Atom:
    match item:
        case Literal(text):
            return Literal(json.dumps(text)[1:-1])
        case Characters(ranges):
            if any(low <= char <= high for low, high in ranges for char in '"\\') or ranges[0][0] < " ":
                raise ValueError(f"a class cannot hold what JSON escapes: {ranges}")
            return item
        case _:
            assert_never(item)


def _mapped(grammar: Grammar, change: Callable[[Literal | Characters], Atom]) -> tuple[Paragraph, ...]:
    """Return the paragraphs with every leaf changed and the start under its other name."""

    def atom(item: Atom) -> Atom:
        match item:
            case Literal() | Characters():
                return change(item)
            case Reference(name):
                return Reference(PROGRAM) if name == START else item
            case Group(alternatives):
                return Group(tuple(map(alternative, alternatives)))
            case Pattern():
                raise ValueError("a spelled grammar has no patterns")
            case _:
                assert_never(item)

    def of(item: Item) -> Item:
        return Repeat(atom(item.item), item.least, item.most) if isinstance(item, Repeat) else atom(item)

    def alternative(old: Alternative) -> Alternative:
        return Alternative(tuple(map(of, old.items)))

    def definition(old: Definition) -> Definition:
        if not isinstance(old, Rule):
            raise ValueError(f"`{old.name}` is no rule: a spelled grammar has nothing else")  # noqa: TRY004
        name = PROGRAM if old.name == START else old.name
        return Rule(name, tuple(map(alternative, old.alternatives)))

    return tuple(replace(p, definitions=tuple(map(definition, p.definitions))) for p in grammar.paragraphs)

"""A spelled grammar to that of a tool call: what a host constrains is seldom the bare program.

A pass over rules: what the grammar spells is escaped as JSON escapes it, and put between what stands around it.
"""

import json
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
    """The text before and behind the object of the arguments; ``trigger`` is how any call of the format begins."""

    trigger: str
    before: str
    behind: str


def around(wrap: Wrap) -> Around:
    """Return what stands around the arguments in a chat format; for the arguments alone, nothing.

    The spaces are those of Python's ``json.dumps``, which the formats' own templates use. A mark such as
    ``[TOOL_CALLS]`` is spelled as text, also for a tokenizer that has a token of its own for it.
    """
    name = f'{{"name": "{TOOL}", '
    match wrap:
        case Wrap.NONE | Wrap.JSON:
            return Around("", "", "")
        case Wrap.HERMES:  # also Qwen 2.5 and 3
            return Around("<tool_call>", f'<tool_call>\n{name}"arguments": ', "}\n</tool_call>")
        case Wrap.LLAMA3:  # 3.1 and later, by JSON
            return Around('{"name": ', f'{name}"parameters": ', "}")
        case Wrap.MISTRAL:  # before its 11th tokenizer
            return Around("[TOOL_CALLS]", f'[TOOL_CALLS][{name}"arguments": ', "}]")
        case _:
            assert_never(wrap)


def wrapped(grammar: Grammar, wrap: Wrap) -> Grammar:
    """Return the grammar of the tool calls, or of the arguments, that hold a text of a spelled grammar."""
    if wrap is Wrap.NONE:
        return grammar
    stands = around(wrap)
    before, behind = Literal(f'{stands.before}{{"{ARGUMENT}": "'), Literal(f'"}}{stands.behind}')
    call = Rule(START, (Alternative((before, Reference(PROGRAM), behind)),))
    paragraphs = list(map(_escaped, grammar.paragraphs))
    at = next(i for i, paragraph in enumerate(grammar.paragraphs) if paragraph.definitions)
    paragraphs.insert(at, Paragraph(("The program is a JSON string.",), (call,)))
    return Grammar(tuple(paragraphs))


def _escaped(paragraph: Paragraph) -> Paragraph:
    """Return a paragraph as JSON escapes what it spells, with the start under its other name."""

    def atom(item: Atom) -> Atom:
        match item:
            case Literal(text):
                return Literal(json.dumps(text)[1:-1])
            case Characters():
                return item  # of names, which JSON leaves as they are
            case Reference(name):
                return Reference(PROGRAM) if name == START else item
            case Group(alternatives):
                return Group(tuple(map(alternative, alternatives)))
            case Pattern():
                raise ValueError("a spelled grammar has no patterns")
            case _:
                assert_never(item)

    def alternative(old: Alternative) -> Alternative:
        return Alternative(
            tuple(
                Repeat(atom(item.item), item.least, item.most) if isinstance(item, Repeat) else atom(item)
                for item in old.items
            )
        )

    def definition(old: Definition) -> Definition:
        if not isinstance(old, Rule):
            raise ValueError(f"`{old.name}` is no rule: a spelled grammar has nothing else")  # noqa: TRY004
        return Rule(PROGRAM if old.name == START else old.name, tuple(map(alternative, old.alternatives)))

    return replace(paragraph, definitions=tuple(map(definition, paragraph.definitions)))

"""The grammar as data: rules, terminals and ignored terminals in the order of the file, with its comments.

Passes take a grammar and return another one; printers write one in some engine's spelling. Nothing here knows Lark,
and nothing here is text to be searched: what a printer has to know about a terminal, the model says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

START = "start"  # the rule that a program is

# Ends a keyword where no further letter, digit or underscore follows. It matches no character: a dialect that lays
# out its white space itself can leave it away.
WORD_END = "WORD_END"


@dataclass(frozen=True, slots=True)
class Literal:
    """These characters and no others."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a regular expression matches, in the syntax of Python's ``re``, as it stands in the file."""

    regex: str


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of these ranges, each with its first and its last."""

    ranges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a rule or a terminal of that name derives. Terminals have upper-case names."""

    name: str

    @property
    def is_terminal(self) -> bool:
        """Whether the name is a terminal's."""
        return self.name.isupper()


@dataclass(frozen=True, slots=True)
class Group:
    """One of several alternatives, in parentheses."""

    alternatives: "tuple[Alternative, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item ``least`` times or more, up to ``most`` times; None is no bound. In the file: ``?``, ``*`` and ``+``."""

    item: "Atom"
    least: int
    most: int | None


Atom = Literal | Pattern | Characters | Reference | Group
Item = Atom | Repeat


@dataclass(frozen=True, slots=True)
class Alternative:
    """Items one after the other; none at all is the empty text."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a name of lower-case letters derives. Between its items, ignored terminals may stand."""

    name: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a name of upper-case letters matches, as one token: between its items nothing is ignored."""

    name: str
    alternatives: tuple[Alternative, ...]

    @property
    def keyword(self) -> str | None:
        """The keyword that the terminal is, or None where it is anything else."""
        match self.alternatives:
            case (Alternative((Literal(text), Reference(name))),) if name == WORD_END:
                return text
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Ignore:
    """A terminal that may stand between any two tokens, and before and behind them, and means nothing."""

    name: str


Definition = Rule | Terminal | Ignore


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Definitions without a blank line between them, and the comment lines above them, without their marks.

    A paragraph without definitions speaks of the whole file.
    """

    comment: tuple[str, ...]
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A whole grammar, or a caller's copy of it."""

    paragraphs: tuple[Paragraph, ...]

    def definitions(self) -> Iterator[Definition]:
        """Yield every definition in order."""
        for paragraph in self.paragraphs:
            yield from paragraph.definitions

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name, in order."""
        return {definition.name: definition for definition in self.definitions() if isinstance(definition, Rule)}

    @property
    def terminals(self) -> dict[str, Terminal]:
        """The terminals by name, in order."""
        return {definition.name: definition for definition in self.definitions() if isinstance(definition, Terminal)}

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names of the ignored terminals, in order."""
        return tuple(definition.name for definition in self.definitions() if isinstance(definition, Ignore))


def leaves(alternatives: tuple[Alternative, ...]) -> Iterator[Literal | Pattern | Characters | Reference]:
    """Yield what alternatives are made of, from left to right, groups and repetitions opened."""
    for alternative in alternatives:
        for item in alternative.items:
            inner = item.item if isinstance(item, Repeat) else item
            if isinstance(inner, Group):
                yield from leaves(inner.alternatives)
            else:
                yield inner

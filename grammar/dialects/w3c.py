"""A grammar of tokens in the notation of the W3C's recommendations (XML 1.0, section 6), for people and their tools.

The notation has no counted repetition and no look-ahead. Where a name's length or the end of a keyword needs one, the
comments of the grammar say it.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from guideway.grammar.dialects.spelling import MARKS
from guideway.grammar.model import (
    WORD_END,
    Alternative,
    Characters,
    Definition,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
)

_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_HEXADECIMAL: Final = {"x": 2, "u": 4}


def print_grammar(grammar: Grammar) -> str:
    """Return a grammar of tokens in the W3C's EBNF, with its comments."""
    return "\n".join("".join(f"{line}\n" for line in _paragraph(paragraph)) for paragraph in grammar.paragraphs)


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    for line in paragraph.comment:
        yield f"/* {line.replace('*/', '* /')} */"
    for definition in paragraph.definitions:
        if definition.name != WORD_END:
            yield _definition(definition)


def _definition(definition: Definition) -> str:
    if isinstance(definition, Ignore):
        return f"/* {definition.name} is ignored. */"
    first, *others = (_alternative(alternative) for alternative in definition.alternatives)
    indent = " " * len(definition.name)
    return "\n".join([f"{definition.name} ::= {first}", *(f"{indent}   | {other}" for other in others)])


def _alternative(alternative: Alternative) -> str:
    return " ".join(_item(item) for item in alternative.items if item != Reference(WORD_END)) or "/* nothing */"


def _item(item: Item) -> str:
    match item:
        case Literal(text):
            return _quoted(text)
        case Pattern(regex):
            return _Reader(regex).read()
        case Characters(ranges):
            return _class("", ranges)
        case Reference(name):
            return name
        case Group(alternatives):
            return "(" + " | ".join(map(_alternative, alternatives)) + ")"
        case Repeat(inner, least, most):
            return _item(inner) + MARKS[least, most]
        case _:
            assert_never(item)


def _quoted(text: str) -> str:
    """Return a literal: in the quotes that it does not hold, characters that cannot be seen as their numbers."""
    if len(text) == 1 and not (text.isascii() and text.isprintable()):
        return f"#x{ord(text):X}"
    if not (text.isascii() and text.isprintable()) or ('"' in text and "'" in text):
        return "(" + " ".join(map(_quoted, text)) + ")"
    return f"'{text}'" if '"' in text else f'"{text}"'


def _class(negation: str, ranges: tuple[tuple[str, str], ...]) -> str:
    hyphen = [ends for ends in ranges if ends == ("-", "-")]  # last, where it is no range
    others = [ends for ends in ranges if ends != ("-", "-")]
    return f"[{negation}{''.join(_range(*ends) for ends in others + hyphen)}]"


def _range(first: str, last: str) -> str:
    return _member(first) if first == last else f"{_member(first)}-{_member(last)}"


def _member(char: str) -> str:
    return char if char.isascii() and char.isprintable() and char not in " #[]^" else f"#x{ord(char):X}"


class _Reader:
    """Reads the regular expressions that the grammar file and name trees are made of, and refuses any other."""

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0

    def read(self) -> str:
        """Return the whole expression in this notation."""
        found = self._alternatives()
        if self._at < len(self._regex):
            raise self._beyond()
        return found

    def _alternatives(self) -> str:
        sequences = [self._sequence()]
        while self._take("|"):
            sequences.append(self._sequence())
        return " | ".join(sequences)

    def _sequence(self) -> str:
        parts: list[str] = []
        text = ""
        self._take(r"\A")  # what comes at the start only, the comment says
        while self._at < len(self._regex) and self._regex[self._at] not in "|)":
            atom = self._atom()
            mark = self._mark()
            if isinstance(atom, str) and not mark:
                text += atom
                continue
            parts += [_quoted(text)] if text else []
            text = ""
            parts.append((_quoted(atom) if isinstance(atom, str) else atom[0]) + mark)
        return " ".join([*parts, *([_quoted(text)] if text else [])])

    def _atom(self) -> str | tuple[str]:
        """Return a character as a text, anything else as a part in a tuple."""
        if self._take("(?:"):
            inner = self._alternatives()
            if not self._take(")"):
                raise self._beyond()
            return (f"({inner})",)
        if self._take("["):
            return (self._members(),)
        if self._regex[self._at] in "().*+?{}^$":
            raise self._beyond()
        return self._character()

    def _members(self) -> str:
        negation = "^" if self._take("^") else ""
        ranges: list[tuple[str, str]] = []
        while not self._take("]"):
            first = last = self._character()
            if self._regex.startswith("-", self._at) and not self._regex.startswith("-]", self._at):
                self._at += 1
                last = self._character()
            ranges.append((first, last))
        return _class(negation, tuple(ranges))

    def _character(self) -> str:
        char = self._next()
        if char != "\\":
            return char
        char = self._next()
        if char in _HEXADECIMAL:
            end = self._at + _HEXADECIMAL[char]
            char, self._at = chr(int(self._regex[self._at : end], 16)), end
            return char
        if char.isalnum() and char not in _ESCAPED:
            raise self._beyond()
        return _ESCAPED.get(char, char)

    def _mark(self) -> str:
        if self._take("{"):
            least, self._at = self._regex[self._at], self._regex.index("}", self._at) + 1
            return "*" if least == "0" else "+"
        return next((mark for mark in MARKS.values() if self._take(mark)), "")

    def _take(self, text: str) -> bool:
        found = self._regex.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _next(self) -> str:
        if self._at == len(self._regex):
            raise self._beyond()
        self._at += 1
        return self._regex[self._at - 1]

    def _beyond(self) -> ValueError:
        return ValueError(f"this notation cannot say `{self._regex}` (at {self._at})")

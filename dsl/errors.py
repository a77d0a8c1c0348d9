"""How a refusal looks: one object that a shell draws, a model reads as JSON and the audit trail keeps.

Rules for messages: lower case, no full stop, what the user wrote in backticks. The message says what is wrong,
``expected`` what could have stood there, ``help`` how to mend it. Nothing here knows who will read it.

What a user wrote enters a message through ``quoted`` and ``character`` alone: whole, it could be long, steer a
terminal, or not be encodable.
"""

import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source, Span


class Code(StrEnum):
    """Why a program is refused or warned about. These strings are stable: clients may match on them."""

    SYNTAX = "syntax"
    TOO_LARGE = "too_large"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    UNKNOWN_TARGET = "unknown_target"
    POLICY_DENIED = "policy_denied"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_USED = "approval_used"
    APPROVAL_UNKNOWN = "approval_unknown"
    APPROVAL_OTHER_CALLER = "approval_other_caller"
    APPROVAL_OTHER_PROGRAM = "approval_other_program"
    APPROVAL_OUTDATED = "approval_outdated"
    NOBODY_TO_ASK = "nobody_to_ask"
    FROZEN = "frozen"
    STORE_UNAVAILABLE = "store_unavailable"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    IDEMPOTENCY_IN_PROGRESS = "idempotency_in_progress"
    IDEMPOTENCY_UNKNOWN = "idempotency_unknown"
    BUDGET_EXCEEDED = "budget_exceeded"
    EXPIRED = "expired"
    DANGLING_ELSE = "dangling_else"


class Diagnostic(Record):
    """One thing that is wrong at one place."""

    code: Code
    message: str
    span: Span
    expected: tuple[str, ...] = ()
    help: str | None = None

    def to_json(self, source: Source) -> dict[str, Any]:
        """Return the machine form; ``span`` holds offsets in characters, ``end`` exclusive."""
        start, end = source.position(self.span.start), source.position(self.span.end)
        return {
            "code": self.code.value,
            "message": self.message,
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
            "span": [self.span.start, self.span.end],
            "expected": list(self.expected),
            "help": self.help,
        }


class Refusal(Exception):  # noqa: N818  # it is an answer, not a fault
    """A program that does not run, with every reason that was found. At least one diagnostic.

    ``required_scopes`` and ``missing_scopes`` are filled where the code is ``insufficient_scope``.
    """

    def __init__(
        self,
        diagnostics: Iterable[Diagnostic],
        source: Source,
        *,
        required_scopes: frozenset[Scope] = frozenset(),
        missing_scopes: frozenset[Scope] = frozenset(),
    ) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        self.required_scopes = required_scopes
        self.missing_scopes = missing_scopes
        super().__init__(self.diagnostics, source)  # these arguments make a copy, or come back from a pickle

    @property
    def code(self) -> Code:
        """The code of the first diagnostic: one refusal has one kind of reason."""
        return self.diagnostics[0].code

    def to_json(self) -> dict[str, Any]:
        """Return the machine form, with the scopes where they are what is missing."""
        scopes = (
            {"required_scopes": sorted(self.required_scopes), "missing_scopes": sorted(self.missing_scopes)}
            if self.missing_scopes
            else {}
        )
        return {
            "code": self.code.value,
            "message": str(self),
            **scopes,
            "diagnostics": [diagnostic.to_json(self.source) for diagnostic in self.diagnostics],
        }

    def __str__(self) -> str:
        return self.diagnostics[0].message


def draw(diagnostic: Diagnostic, source: Source, *, severity: str = "error") -> str:
    """Return a diagnostic as lines for a person: place, message, the line itself, a caret below it, and help.

    No line holds control characters, so that neither the program nor its path can steer a terminal. A caret stands
    below its character also behind wide ones.
    """
    start, end = source.position(diagnostic.span.start), source.position(diagnostic.span.end)
    line = source.line(start.line)
    width = end.column - start.column if end.line == start.line else len(line) - start.column + 1
    shown, caret = _excerpt(line, start.column - 1, max(1, width))
    gutter = " " * len(str(start.line))
    lines = [
        f"{source.name}:{start.line}:{start.column}: {severity}[{diagnostic.code}]: {diagnostic.message}",
        f" {gutter} |",
        f" {start.line} | {shown}",
        f" {gutter} | {caret}",
    ]
    if diagnostic.expected:
        lines.append(f" {gutter} = expected: {', '.join(diagnostic.expected)}")
    if diagnostic.help:
        lines.append(f" {gutter} = help: {diagnostic.help}")
    return "\n".join(printable(each).rstrip() for each in lines)


def quoted(text: str, most: int = 60) -> str:
    """Return what a user wrote, for a message: in backticks, printable, and cut where it is long."""
    return f"`{printable(text if len(text) <= most else text[:most] + '…')}`"


def character(char: str) -> str:
    """Return a character's name for a message, so that what cannot be seen can be found."""
    if char == "`":
        return "a backtick"
    if char.isascii() and char.isprintable() and char != " ":
        return f"`{char}`"
    kind = unicodedata.category(char)
    name = unicodedata.name(char, "") or _UNNAMED.get(char) or _KINDS.get(kind, "unassigned")
    shown = f"`{char}` " if kind[0] in "LNPS" and char.isprintable() else ""
    return f"{shown}U+{ord(char):04X} ({name})"


def printable(text: str) -> str:
    """Return text in which a tab is a space and any other character that would not print is U+FFFD."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char == "\t" else "\ufffd" for char in text)


# Unicode gives control characters no name; these are the ones that turn up in programs.
_UNNAMED = {"\0": "NUL", "\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\x1b": "ESCAPE", "\x7f": "DELETE"}
_KINDS = {"Cc": "control character", "Cs": "lone surrogate", "Co": "private use"}


def _excerpt(line: str, at: int, width: int, most: int = 100) -> tuple[str, str]:
    """Return a stretch of a line around ``at`` and the carets for it; a long line is cut on both sides."""
    first = max(0, min(at - most // 3, len(line) - most))
    before, marked, after = line[first:at], line[at : at + width], line[at + width : first + most]
    marked = marked[: max(1, first + most - at)]
    head = ("…" if first else "") + printable(before)
    shown = head + printable(marked) + printable(after) + ("…" if first + most < len(line) else "")
    return shown, " " * _cells(head) + "^" * max(1, _cells(printable(marked)))


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me")
        else 2
        if unicodedata.east_asian_width(char) in ("W", "F")
        else 1
        for char in text
    )

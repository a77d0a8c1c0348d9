"""A tree to its canonical text: one statement a line, every body in braces, comments kept.

Printing never changes the tree and is idempotent. A comment stays where it was read: on a line of its own before
what follows it, or behind what it follows on its line. One blank line between statements is kept.
"""

from collections.abc import Iterator
from typing import Final

from guideway.dsl.ast import Block, IfRunning, Program, Statement, TryCatch
from guideway.dsl.lexer import comments

INDENT: Final = "  "


def format_program(program: Program) -> str:
    """Return the canonical text of a program, ending in one line feed, with its comments."""
    return _Printer(program.source.text).program(program)


def format_one_line(program: Program) -> str:
    """Return the canonical text on one line, without comments and without a line feed."""
    return " ".join(_one_line(program.statements))


def _one_line(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case IfRunning(then=then, otherwise=otherwise):
                yield f'{statement.keyword} "{statement.target}" THEN'
                yield from _one_line((then,))
                if otherwise is not None:
                    yield "ELSE"
                    yield from _one_line((otherwise,))
            case TryCatch(body=body, handler=handler):
                yield "TRY"
                yield from _one_line((body,))
                yield "CATCH"
                yield from _one_line((handler,))
            case Block(statements=inner):
                yield "{"
                yield from _one_line(inner)
                yield "}"
            case _:
                yield f'{statement.keyword} "{statement.target}"'


class _Printer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._comments = [(match.start(), match[1].rstrip()) for match in comments(text)]
        self._comments.reverse()  # the next one is popped from the end
        self._lines: list[str] = []
        self._depth = 0
        self._behind = 0  # offset behind what was printed last
        self._takes_comment = False  # whether the last line may still take a comment at its end

    def program(self, program: Program) -> str:
        self._statements(program.statements)
        self._comments_until(len(self._text))
        return "\n".join(self._lines) + "\n"

    def _statements(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            match statement:
                case IfRunning(then=then, otherwise=otherwise):
                    self._line(f'{statement.keyword} "{statement.target}" THEN {{', statement.start, self._inside(then))
                    self._body(then)
                    if otherwise is not None:
                        self._join("} ELSE {", then, otherwise)
                        self._body(otherwise)
                    self._close(otherwise or then)
                case TryCatch(body=body, handler=handler):
                    self._line("TRY {", statement.start, self._inside(body))
                    self._body(body)
                    self._join("} CATCH {", body, handler)
                    self._body(handler)
                    self._close(handler)
                case Block():
                    self._line("{", statement.start, self._inside(statement))
                    self._body(statement)
                    self._close(statement)
                case _:
                    self._line(f'{statement.keyword} "{statement.target}"', statement.start, statement.end)

    def _body(self, block: Block) -> None:
        self._depth += 1
        self._statements(block.statements)

    def _close(self, block: Block) -> None:
        self._comments_until(self._last(block))
        self._depth -= 1
        self._put("}", self._last(block), block.end, blank=False)

    def _join(self, text: str, before: Block, after: Block) -> None:
        """Print the line between two bodies. What was commented between them moves into the second."""
        self._comments_until(self._last(before))
        self._depth -= 1
        self._put(text, self._last(before), self._last(before), blank=False)
        self._behind = max(self._behind, self._inside(after) if self._braced(after) else before.end)

    def _line(self, text: str, start: int, end: int) -> None:
        """Print a line for the tokens from ``start`` to ``end``. A comment among them moves before the line."""
        self._comments_until(start)
        among: list[str] = []
        while self._comments and self._comments[-1][0] < end:
            among.append(self._comments.pop()[1])
        for comment in among:
            self._put(comment, start, start, blank=False)
        self._put(text, start, end)

    def _braced(self, block: Block) -> bool:
        return self._text.startswith("{", block.start)

    def _inside(self, block: Block) -> int:
        """Return the offset behind the opening brace, or of the statement that stands for the block."""
        return block.start + self._braced(block)

    def _last(self, block: Block) -> int:
        """Return the offset of the closing brace, or of the end of the statement that stands for the block."""
        return block.end - self._braced(block)

    def _comments_until(self, offset: int) -> None:
        while self._comments and self._comments[-1][0] < offset:
            start, comment = self._comments.pop()
            gap = self._text[self._behind : start]
            if self._takes_comment and self._behind <= start and not gap.strip(" \t"):
                self._lines[-1] += f"  {comment}"
                self._behind = start + len(comment)
                self._takes_comment = False
            else:
                self._put(comment, start, start + len(comment))
                self._takes_comment = False

    def _put(self, text: str, start: int, end: int, *, blank: bool = True) -> None:
        if (
            blank
            and self._lines
            and not self._lines[-1].endswith("{")
            and self._text.count("\n", self._behind, start) > 1
        ):
            self._lines.append("")
        self._lines.append(INDENT * self._depth + text)
        self._behind = max(self._behind, end)
        self._takes_comment = True

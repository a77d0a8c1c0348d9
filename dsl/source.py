"""Text and places in it. Offsets, lines and columns count characters (Unicode code points), never bytes."""

from bisect import bisect_right

from guideway.dsl.record import Record

BYTE_ORDER_MARK = "\ufeff"


class Span(Record):
    """A half-open range of offsets in a source text: ``start`` is in it, ``end`` is not."""

    start: int
    end: int


class Position(Record):
    """A place as people count it: the first line and the first column are 1."""

    line: int
    column: int


class Source(Record):
    """A program's text, and the name under which to speak of it (a path, or ``-``)."""

    text: str
    name: str = "program"

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset. A leading byte order mark takes no column."""
        line = self.text.count("\n", 0, offset) + 1
        start = self.text.rfind("\n", 0, offset) + 1
        mark = line == 1 and self.text.startswith(BYTE_ORDER_MARK)
        return Position(line, max(1, offset - start + 1 - mark))

    def line(self, number: int) -> str:
        """Return one line, counted from 1, without its line end and without a byte order mark."""
        start = 0
        for _ in range(number - 1):
            start = self.text.index("\n", start) + 1
        end = self.text.find("\n", start)
        line = self.text[start:] if end < 0 else self.text[start:end]
        return (line.removeprefix(BYTE_ORDER_MARK) if start == 0 else line).removesuffix("\r")


def positions(text: str, offsets: tuple[int, ...]) -> tuple[Position, ...]:
    """Return the position of each offset, reading the text once."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    mark = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0

    def position(offset: int) -> Position:
        line = bisect_right(starts, offset)
        column = offset - starts[line - 1] + 1
        return Position(line, max(1, column - mark) if line == 1 else column)

    return tuple(position(offset) for offset in offsets)

"""Text and places in it. Offsets, lines and columns count characters (Unicode code points), never bytes."""

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

"""A program as a flow chart: where each box and each line goes. It draws nothing; sizes are in the units of an SVG.

Statements stand below each other. An ``IF_RUNNING`` has its ways side by side, a ``TRY`` its ``CATCH`` at its right.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from guideway.dsl.ast import Block, Command, IfRunning, Program, Statement, TryCatch, walk

MOST_COMMANDS: Final = 60
"""A program with more is not drawn: nobody would see anything in it."""

_HEIGHT: Final = 34.0
_GAP: Final = 26.0
_APART: Final = 24.0
_CHARACTER: Final = 7.6
_MOST_LABEL: Final = 30
_FRAME: Final = 14.0
_TITLE: Final = 22.0


@dataclass(frozen=True, slots=True)
class Box:
    """A command, by its upper left corner. ``name`` is whole, ``label`` is what there is room for."""

    x: float
    y: float
    width: float
    label: str
    name: str
    kind: str
    height: float = _HEIGHT

    @property
    def hexagon(self) -> str:
        """The corners of a question, as SVG has them."""
        x, y, right, low, middle = self.x, self.y, self.x + self.width, self.y + self.height, self.y + self.height / 2
        corners = ((x, middle), (x + 12, y), (right - 12, y), (right, middle), (right - 12, low), (x + 12, low))
        return _points(corners)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a ``TRY`` or a ``CATCH`` holds."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """A way from one point to the next; ``label`` stands at its beginning, ``arrow`` at its end."""

    points: tuple[tuple[float, float], ...]
    label: str = ""
    arrow: bool = True
    dashed: bool = False

    @property
    def path(self) -> str:
        """The points as SVG has them."""
        return _points(self.points)

    @property
    def label_at(self) -> tuple[float, float]:
        """Where the label stands: beside the last stretch, or above it."""
        (x, y), (end, _) = self.points[-2:]
        return (x + 6, y + 14) if x == end else (min(x, end) + 8, y - 6)


@dataclass(slots=True)
class Chart:
    """Boxes and lines in a space of ``width`` by ``height``. ``middle`` is where one comes in at the top, and out."""

    width: float = 0.0
    height: float = 0.0
    middle: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def put(self, other: "Chart", x: float, y: float) -> None:
        """Draw another chart at a place in this one."""
        self.boxes += [replace(box, x=box.x + x, y=box.y + y) for box in other.boxes]
        self.frames += [replace(frame, x=frame.x + x, y=frame.y + y) for frame in other.frames]
        for line in other.lines:
            self.lines.append(replace(line, points=tuple((at + x, down + y) for at, down in line.points)))

    def line(self, *points: tuple[float, float], label: str = "", arrow: bool = True, dashed: bool = False) -> None:
        """Draw a line, unless it would lead nowhere."""
        if len(set(points)) > 1:
            self.lines.append(Line(points, label, arrow, dashed))


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def flow(program: Program) -> Chart | None:
    """Return the chart of a program; None for one that is too large."""
    if sum(isinstance(node, Command) for node in walk(program)) > MOST_COMMANDS:
        return None
    return _sequence(program.statements)


def _sequence(statements: Iterable[Statement]) -> Chart:
    parts = [_statement(statement) for statement in statements]
    if not parts:
        return Chart(width=0.0, height=0.0)
    middle = max(part.middle for part in parts)
    chart = Chart(width=max(middle - part.middle + part.width for part in parts), middle=middle)
    for part in parts:
        if chart.height:
            chart.line((middle, chart.height), (middle, chart.height + _GAP))
            chart.height += _GAP
        chart.put(part, middle - part.middle, chart.height)
        chart.height += part.height
    return chart


def _statement(statement: Statement) -> Chart:
    match statement:
        case IfRunning():
            return _branch(statement)
        case TryCatch():
            return _try(statement)
        case Block(statements=inner):
            return _sequence(inner)
        case _:
            return _command(statement)


def _command(command: Command) -> Chart:
    name = f'{command.keyword} "{command.target}"'
    label = name if len(name) <= _MOST_LABEL else f"{name[: _MOST_LABEL - 1]}…"
    kind = "mutation" if command.mutates else "question" if isinstance(command, IfRunning) else "read"
    width = len(label) * _CHARACTER + (44 if kind == "question" else 24)
    return Chart(width, _HEIGHT, width / 2, [Box(0, 0, width, label, name, kind)])


def _branch(statement: IfRunning) -> Chart:
    """Draw the question, its two ways side by side below it, and where they meet."""
    question = _command(statement)
    then = _sequence(statement.then.statements)
    otherwise = _sequence(statement.otherwise.statements) if statement.otherwise is not None else Chart()
    left_middle = then.middle
    right = max(then.width + _APART, left_middle + 90)
    right_middle = right + otherwise.middle
    middle = (left_middle + right_middle) / 2
    shift = max(0.0, question.middle - middle)
    middle, left_middle, right_middle, right = (each + shift for each in (middle, left_middle, right_middle, right))
    top = question.height + _GAP + 12
    bottom = top + max(then.height, otherwise.height) + _GAP
    chart = Chart(
        width=max(middle + question.middle, right + otherwise.width, right_middle + 66), height=bottom, middle=middle
    )
    chart.put(question, middle - question.middle, 0)
    chart.put(then, shift, top)
    chart.put(otherwise, right, top)
    turn = question.height + 14
    start = (middle, question.height)
    chart.line(start, (middle, turn), (left_middle, turn), (left_middle, top), label="runs")
    end = bottom if not otherwise.height else top
    chart.line(
        start, (middle, turn), (right_middle, turn), (right_middle, end), label="is down", arrow=bool(otherwise.height)
    )
    chart.line((left_middle, top + then.height), (left_middle, bottom), (middle, bottom), arrow=False)
    chart.line((right_middle, top + otherwise.height), (right_middle, bottom), (middle, bottom), arrow=False)
    return chart


def _try(statement: TryCatch) -> Chart:
    """Draw what is tried in a frame, and at its right what happens where that fails."""
    body, handler = _framed(statement.body, "TRY"), _framed(statement.handler, "CATCH", entered=False)
    apart = 76.0
    left = body.width + apart
    bottom = max(body.height, handler.height) + _GAP / 2
    chart = Chart(width=left + handler.width, height=bottom, middle=body.middle)
    chart.put(body, 0, 0)
    chart.put(handler, left, 0)
    down = _TITLE + _FRAME
    chart.line((body.width, down), (left, down), label="fails", dashed=True)
    chart.line((body.middle, body.height), (body.middle, bottom), arrow=False)
    chart.line(
        (left + handler.middle, handler.height), (left + handler.middle, bottom), (body.middle, bottom), arrow=False
    )
    return chart


def _framed(block: Block, label: str, *, entered: bool = True) -> Chart:
    """Draw a block in a frame. One is entered from above, or else from the side."""
    inner = _sequence(block.statements)
    width = max(inner.width, 40) + 2 * _FRAME
    height = inner.height + _TITLE + 2 * _FRAME
    chart = Chart(width, height, inner.middle + _FRAME, frames=[Frame(0, 0, width, height, label)])
    chart.put(inner, _FRAME, _TITLE + _FRAME)
    if entered:
        chart.line((chart.middle, 0), (chart.middle, _TITLE + _FRAME))
    chart.line((chart.middle, height - _FRAME), (chart.middle, height), arrow=False)
    return chart

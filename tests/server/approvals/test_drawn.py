"""A program in pieces and as a chart: nothing is lost, and nothing lies over anything else."""

from itertools import combinations

import pytest
from hypothesis import given, settings

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import Program
from guideway.dsl.parser import parse
from guideway.dsl.printer import format_one_line, format_program
from guideway.server.approvals.flow import MOST_COMMANDS, Box, Chart, flow
from guideway.server.approvals.highlight import highlighted
from tests.strategies import programs

EDGE = 1e-6


@given(programs())
@settings(max_examples=100, deadline=None)
def test_the_pieces_are_the_text_and_what_changes_state_is_marked(program: Program) -> None:
    program = parse(format_one_line(program))
    canonical = format_program(program)
    pieces = list(highlighted(canonical))
    assert "".join(piece for _, piece in pieces) == canonical
    marked = [piece for kind, piece in pieces if kind == "mutation"]
    mutations = [command for command in analyze(program).commands if command.mutates]
    assert marked == [part for command in mutations for part in (command.keyword, f'"{command.target}"')]


@given(programs())
@settings(max_examples=100, deadline=None)
def test_each_command_has_a_box_of_its_own_inside_of_the_chart(program: Program) -> None:
    commands = analyze(program).commands
    chart = flow(program)
    if len(commands) > MOST_COMMANDS:
        assert chart is None
        return
    assert chart is not None
    drawn = sorted(box.name for box in chart.boxes)
    assert drawn == sorted(f'{command.keyword} "{command.target}"' for command in commands)
    assert sum(box.kind == "mutation" for box in chart.boxes) == sum(each.mutates for each in commands)
    require_apart(chart)


def require_apart(chart: Chart) -> None:
    """Hold a chart to have each box in it, beside the others, and each line within its bounds."""
    for box in chart.boxes:
        assert -EDGE <= box.x <= box.x + box.width <= chart.width + EDGE, box
        assert -EDGE <= box.y <= box.y + box.height <= chart.height + EDGE, box
    for one, other in combinations(chart.boxes, 2):
        assert not overlap(one, other), (one, other)
    for line in chart.lines:
        for x, y in line.points:
            assert -EDGE <= x <= chart.width + EDGE, line
            assert -EDGE <= y <= chart.height + EDGE, line


def overlap(one: Box, other: Box) -> bool:
    """Say whether two boxes share anything but an edge."""
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return across > EDGE and down > EDGE


def test_a_name_that_is_too_long_for_its_box_is_whole_in_its_title() -> None:
    name = "a" * 200
    program: Program = parse(f'RESTART "{name}"')
    chart = flow(program)
    assert chart is not None
    [box] = chart.boxes
    assert box.name == f'RESTART "{name}"'
    assert len(box.label) == 30


@pytest.mark.parametrize("count", [MOST_COMMANDS, MOST_COMMANDS + 1])
def test_what_nobody_would_see_anything_in_is_not_drawn(count: int) -> None:
    assert (flow(parse('PING "a" ' * count)) is None) == (count > MOST_COMMANDS)

"""A program within every limit can still be much work to look at.

The story: each caller, a read-only one too, has the most that a program can do worked out before it runs. Six hundred
bytes, written so that each level asks twice for the one below it, would keep the whole server busy for ever.
"""

import pytest

from guideway.dsl import analyze, parse
from guideway.dsl.ast import Command

DEPTH = 20
LEVELS = {
    "what can be contained, before what can fail": ("TRY { ", ' } CATCH { } PING "a"'),
    "what can fail, before what can be contained": ('PING "a" TRY { ', " } CATCH { }"),
    "in the handler": ('TRY PING "a" CATCH { ', ' PING "a" }'),
    "in body and handler": ("TRY { TRY { ", ' } CATCH { PING "a" } PING "a" } CATCH { PING "a" } PING "a"'),
    "in a branch": ('IF_RUNNING "a" THEN { TRY { ', ' } CATCH { } PING "a" } PING "a"'),
    "in the other branch": ('TRY IF_RUNNING "a" THEN { } ELSE { ', ' PING "a" } CATCH { } PING "a"'),
    "in a block": ("{ TRY { { ", ' } PING "a" } CATCH { } PING "a" }'),
}


@pytest.mark.parametrize("level", LEVELS)
def test_the_worst_case_is_asked_of_each_command_a_few_times(level: str) -> None:
    before, after = LEVELS[level]
    analysis = analyze(parse(before * DEPTH + 'PING "a"' + after * DEPTH))
    asked = 0

    def deadline(_: Command) -> float:
        nonlocal asked
        asked += 1
        assert asked <= 4 * len(analysis.commands), "each level asks again for all that is inside"
        return 1.0

    analysis.worst_case(deadline)

"""Every example runs, on real processes, in the situation that its first lines describe."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from guideway.dsl.parser import parse
from guideway.dsl.printer import format_program
from guideway.interpreter.results import Report, Status
from guideway.server import wiring
from guideway.server.config import load
from guideway.server.demo.world import World, world

EXAMPLES = Path(__file__).parents[2] / "examples"

# example, what is broken first, how the program ends, and its commands with their outcomes
SITUATIONS = [
    ("01-api-down", "", "completed", "IF_RUNNING:ok PING:ok"),
    ("01-api-down", "kill database", "completed", "IF_RUNNING:ok RESTART:ok"),
    ("01-api-down", "kill api", "contained", "IF_RUNNING:ok PING:failed RESTART:ok"),
    (
        "02-morning-check",
        "",
        "completed",
        "GET_STATUS:ok GET_STATUS:ok GET_STATUS:ok GET_STATUS:ok PING:ok PING:ok PING:ok",
    ),
    (
        "02-morning-check",
        "stop cache",
        "failed",
        "GET_STATUS:ok GET_STATUS:ok GET_STATUS:ok GET_STATUS:ok PING:ok PING:failed",
    ),
    ("03-which-layer", "", "completed", "PING:ok"),
    (
        "03-which-layer",
        "kill database",
        "contained",
        "PING:failed GET_STATUS:ok PING:failed GET_STATUS:ok PING:ok",
    ),
    (
        "04-cold-start",
        "stop worker, stop api, stop cache, stop database",
        "completed",
        "IF_RUNNING:ok RESTART:ok IF_RUNNING:ok RESTART:ok IF_RUNNING:ok RESTART:ok IF_RUNNING:ok RESTART:ok PING:ok",
    ),
    ("04-cold-start", "", "completed", "IF_RUNNING:ok IF_RUNNING:ok IF_RUNNING:ok IF_RUNNING:ok PING:ok"),
    ("05-empty-the-cache", "", "completed", "PING:ok RESTART:ok PING:ok PING:ok"),
    (
        "06-worker-will-not-start",
        "kill worker, kill cache",
        "contained",
        "RESTART:failed IF_RUNNING:ok RESTART:ok RESTART:ok",
    ),
    (
        "07-api-degraded",
        "kill database",
        "contained",
        "GET_STATUS:ok PING:failed IF_RUNNING:ok RESTART:ok PING:ok",
    ),
    (
        "08-restart-with-care",
        "",
        "completed",
        "PING:ok PING:ok IF_RUNNING:ok IF_RUNNING:ok RESTART:ok PING:ok",
    ),
    ("08-restart-with-care", "stop cache", "failed", "PING:ok PING:failed"),
    (
        "09-escalate",
        "kill database",
        "contained",
        "PING:failed RESTART:failed RESTART:ok PING:ok",
    ),
    (
        "10-after-a-crash",
        "kill database",
        "completed",
        "IF_RUNNING:ok RESTART:ok PING:ok RESTART:ok RESTART:ok PING:ok",
    ),
]


@pytest.fixture(scope="module")
def running() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.mark.anyio
@pytest.mark.parametrize(("example", "broken", "status", "outcomes"), SITUATIONS)
async def test_an_example_does_what_its_first_lines_say(
    running: World, example: str, broken: str, status: str, outcomes: str
) -> None:
    running.mend()
    for act in filter(None, broken.split(", ")):
        verb, program = act.split()
        running.kill(program) if verb == "kill" else running.stop(program)
    report = await run(running, (EXAMPLES / f"{example}.diag").read_text())
    assert " ".join(f"{step.command}:{step.outcome}" for step in report.steps) == outcomes, report
    assert report.status is Status(status)


async def run(running: World, program: str) -> Report:
    config = load(running.configuration)
    pipeline = wiring.build(config)
    try:
        return await pipeline.run(program, wiring.caller(config))
    finally:
        await pipeline.close()


def test_every_example_has_a_situation_and_is_in_its_canonical_form() -> None:
    assert {example for example, *_ in SITUATIONS} == {path.stem for path in EXAMPLES.glob("*.diag")}
    for path in EXAMPLES.glob("*.diag"):
        assert format_program(parse(path.read_text(), name=path.name)) == path.read_text()

"""Whoever may only read fills no disk with records: a list of one has a bound, and what changes something is in it."""

import json
from collections.abc import Sequence

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.facts import MOST_LISTED
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import Report
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from tests.interpreter.test_recorder import TrailInMemory, Watched

pytestmark = pytest.mark.anyio

COMMANDS = 1_000
NAMES = [f"host-{number}.{'a' * 40}.internal" for number in range(COMMANDS)]


async def run(program: str, scopes: Sequence[Scope] = (Scope.READ, Scope.WRITE)) -> tuple[Report, TrailInMemory]:
    trail = TrailInMemory()
    hosts = [Host(name, MemoryProbe(answers=name != NAMES[-1])) for name in NAMES]
    service = Service("database", Watched(trail), settle=0.0, risk=HARMLESS)
    pipeline = Pipeline(Inventory(hosts, [service]), trail=trail)
    return await pipeline.run(program, Principal("mona", frozenset(scopes), "https://login.example", "agent")), trail


async def test_a_thousand_reads_are_no_quarter_of_a_megabyte() -> None:
    program = " ".join([f'PING "{NAMES[0]}"'] * (COMMANDS - 1))
    report, trail = await run(program)
    assert len(report.steps) == COMMANDS - 1
    [ended] = trail.facts(Kind.RUN_ENDED)
    assert len(json.dumps(ended["steps"])) <= MOST_LISTED + 2
    assert ended["steps_left_out"] == {"ok": COMMANDS - 1 - len(ended["steps"])}
    assert [step["number"] for step in ended["steps"]] == list(range(1, len(ended["steps"]) + 1))
    assert all(len(json.dumps(dict(entry.facts))) < 65_536 + 2 * MOST_LISTED for entry in trail.entries)


async def test_of_as_many_commands_what_restarts_and_what_failed_is_there() -> None:
    """However deep a restart is buried among reads, the record names it, and why a step failed."""
    reads = [f'PING "{name}"' for name in NAMES[:600]]
    program = " ".join([*reads, 'RESTART "database"', f'TRY {{ PING "{NAMES[-1]}" }} CATCH {{ PING "{NAMES[0]}" }}'])
    report, trail = await run(program)
    assert report.status.value == "contained"
    [begun] = trail.facts(Kind.RUN_BEGUN)
    [ended] = trail.facts(Kind.RUN_ENDED)
    assert ("RESTART", "database") in {(each["command"], each["target"]) for each in begun["commands"]}
    assert {("RESTART", "ok"), ("PING", "failed")} <= {(each["command"], each["outcome"]) for each in ended["steps"]}
    assert begun["commands_left_out"] == {"allowed": 602 - len(begun["commands"])}
    for listed in (begun["commands"], ended["steps"]):
        assert len(json.dumps(listed)) <= MOST_LISTED + 2
    numbers = [each["number"] for each in ended["steps"]]
    assert numbers == sorted(numbers)


async def test_of_as_many_refused_commands_those_are_listed_that_were_refused() -> None:
    program = " ".join([*(f'PING "{name}"' for name in NAMES[:600]), 'RESTART "database"'])
    _, trail = await run(program, [Scope.READ])
    [refused] = trail.facts(Kind.RUN_REFUSED)
    assert ("RESTART", "refused") in {(each["command"], each["decision"]) for each in refused["commands"]}
    assert set(refused["commands_left_out"]) == {"not_run"}

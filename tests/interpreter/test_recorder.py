"""What is recorded of a call, in which order, and what does not go on without a record. The trail is kept in memory."""

import hashlib
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from guideway.dsl.errors import Code
from guideway.dsl.scopes import Scope
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.evaluator import Evaluator
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Reason, Report, Status
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.interpreter.weighing import Asked

pytestmark = pytest.mark.anyio

MONA = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), issuer="https://login.example", client="an-agent")


class TrailInMemory:
    """Keeps what is put, and notes what was on disk when. ``away`` is why nothing can be written now."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.on_disk = 0
        self.away: str | None = None
        self.failing: str | None = None

    def put(self, entries: Sequence[Entry]) -> None:
        self.entries += entries

    async def written(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.away is not None:
            raise StoreUnavailable(self.away)
        self.on_disk = len(self.entries)

    def kinds(self) -> list[Kind]:
        return [entry.kind for entry in self.entries]

    def facts(self, kind: Kind) -> list[dict[str, Any]]:
        return [dict(entry.facts) for entry in self.entries if entry.kind is kind]


class Watched(MemoryDriver):
    """A service that notes what was on disk when it was touched."""

    def __init__(self, trail: TrailInMemory) -> None:
        super().__init__()
        self._trail = trail
        self.touched: list[list[Kind]] = []
        self.fault: Fault | None = None
        self.block = False

    async def restart(self, *arguments: Any, **named: Any) -> None:
        self.touched.append(self._trail.kinds()[: self._trail.on_disk])
        if self.fault is not None:
            raise self.fault
        if self.block:
            await anyio.sleep_forever()
        await super().restart(*arguments, **named)


class World:
    def __init__(self, *, reads_without_trail: bool = False) -> None:
        self.trail = TrailInMemory()
        self.driver = Watched(self.trail)
        inventory = Inventory(
            [Host("host", MemoryProbe())], [Service("database", self.driver, settle=0.0, risk=HARMLESS)]
        )
        self.pipeline = Pipeline(
            inventory, tenants={"red": inventory}, trail=self.trail, reads_without_trail=reads_without_trail
        )

    async def run(self, program: str, caller: Principal = MONA, **asked: Any) -> Report:
        return await self.pipeline.run(program, caller, asked=Asked(**asked))


async def test_an_intent_is_on_disk_before_its_service_is_touched() -> None:
    world = World()
    report = await world.run('GET_STATUS "database" RESTART "database" RESTART "database"')
    assert report.status is Status.COMPLETED
    first, second = world.driver.touched
    assert first == [Kind.RUN_BEGUN, Kind.RESTART_BEGUN]
    assert second == [Kind.RUN_BEGUN, Kind.RESTART_BEGUN, Kind.RESTART_ENDED, Kind.RESTART_BEGUN]
    assert world.trail.kinds() == [
        Kind.RUN_BEGUN,
        *(Kind.RESTART_BEGUN, Kind.RESTART_ENDED) * 2,
        Kind.RUN_ENDED,
    ]
    assert world.trail.on_disk == len(world.trail.entries), "the answer was given before its record was on disk"
    assert [facts["number"] for facts in world.trail.facts(Kind.RESTART_ENDED)] == [1, 2]


async def test_a_record_says_who_asked_for_what_and_why_it_was_allowed() -> None:
    world = World()
    text = 'PING "host"   RESTART "database"  # please\n'
    report = await world.run(text, client_says="an agent 2.1", model_says="a-model", door="http")
    [begun] = world.trail.facts(Kind.RUN_BEGUN)
    assert begun["run"] == report.run_id
    assert begun["caller"] == {
        "issuer": "https://login.example",
        "subject": "mona",
        "client": "an-agent",
        "tenant": None,
        "scopes": ["mcp:diag:read", "mcp:diag:write"],
    }
    assert (begun["client_says"], begun["model_says"], begun["door"]) == ("an agent 2.1", "a-model", "http")
    assert begun["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert begun["program"] == 'PING "host" RESTART "database"'
    assert [(each["command"], each["tier"], each["decision"]) for each in begun["commands"]] == [
        ("PING", 0, "allowed"),
        ("RESTART", 1, "allowed"),
    ]
    assert begun["tier"] == 1
    [ended] = world.trail.facts(Kind.RUN_ENDED)
    assert ended["status"] == "completed"
    assert [(step["command"], step["outcome"]) for step in ended["steps"]] == [("PING", "ok"), ("RESTART", "ok")]


@pytest.mark.parametrize(
    ("program", "scopes", "code", "decisions"),
    [
        ("RESTART", {Scope.READ, Scope.WRITE}, "syntax", None),
        ('PING "host" RESTART "database"', {Scope.READ}, "insufficient_scope", ["not_run", "refused"]),
        ('PING "host" PING "nowhere"', {Scope.READ}, "unknown_target", ["not_run", "refused"]),
    ],
)
async def test_what_is_refused_is_recorded_with_each_command_and_its_decision(
    program: str, scopes: set[Scope], code: str, decisions: list[str] | None
) -> None:
    world = World()
    caller = Principal("rita", frozenset(scopes), tenant="red")
    report = await world.run(program, caller)
    assert report.status is Status.REFUSED
    [entry] = world.trail.entries
    assert (entry.kind, entry.tenant) == (Kind.RUN_REFUSED, "red")
    assert entry.facts["refusal"]["code"] == code
    assert world.trail.on_disk == 1
    if decisions is None:
        assert "program" not in entry.facts
    else:
        assert [each["decision"] for each in entry.facts["commands"]] == decisions


async def test_without_a_trail_nothing_mutates_and_no_catch_swallows_that() -> None:
    world = World(reads_without_trail=True)
    world.trail.away = "the disk is full"
    report = await world.run('TRY { RESTART "database" } CATCH { PING "host" }')
    assert report.status is Status.REFUSED
    assert report.refusal is not None
    assert report.refusal.code is Code.AUDIT_UNAVAILABLE
    assert not world.driver.touched
    assert [step.command for step in report.steps] == ["RESTART"]
    [ended] = world.trail.facts(Kind.RESTART_ENDED)
    assert ended["outcome"] == "not_begun"


async def test_what_was_read_without_a_record_is_withheld_unless_the_operator_lets_it_go_on() -> None:
    for lets, status in ((False, Status.REFUSED), (True, Status.COMPLETED)):
        world = World(reads_without_trail=lets)
        world.trail.away = "the disk is full"
        report = await world.run('GET_STATUS "database"')
        assert report.status is status
        assert bool(report.steps) is lets
        assert world.trail.kinds() == [Kind.RUN_BEGUN, Kind.RUN_ENDED], "what waits is written later"


async def test_a_trail_that_is_known_to_fail_lets_nothing_begin() -> None:
    world = World()
    world.trail.failing = world.trail.away = "the database is away"
    report = await world.run('GET_STATUS "database"')
    assert report.refusal is not None
    assert report.refusal.code is Code.AUDIT_UNAVAILABLE
    assert world.trail.kinds() == [Kind.RUN_REFUSED]


async def test_a_restart_that_was_done_is_told_even_if_its_end_cannot_be_written() -> None:
    world = World()
    restart = world.driver.restart

    async def then_away(*arguments: Any, **named: Any) -> None:
        await restart(*arguments, **named)
        world.trail.away = "the disk is full"

    world.driver.restart = then_away  # type: ignore[method-assign]
    report = await world.run('RESTART "database"')
    assert report.status is Status.COMPLETED
    assert [step.command for step in report.steps] == ["RESTART"]


async def test_how_a_restart_ended_is_recorded_in_each_way() -> None:
    world = World()
    world.driver.fault = Fault(Reason.START_FAILED, "it ended\x1b[31m at once")
    assert (await world.run('RESTART "database"')).status is Status.FAILED
    [failed] = world.trail.facts(Kind.RESTART_ENDED)
    assert failed["outcome"] == "start_failed"
    assert "\x1b" not in failed["message"]

    world = World()
    world.driver.block = True
    with anyio.move_on_after(0.05):
        await world.run('RESTART "database"')
    assert world.trail.kinds() == [Kind.RUN_BEGUN, Kind.RESTART_BEGUN, Kind.RESTART_ENDED, Kind.RUN_ENDED]
    [cancelled] = world.trail.facts(Kind.RESTART_ENDED)
    assert cancelled["outcome"] == "cancelled"
    assert world.trail.facts(Kind.RUN_ENDED)[0]["status"] == "cancelled"


async def test_what_a_service_says_is_in_no_record() -> None:
    world = World()
    world.driver.output = "password=hunter2"
    await world.run('GET_STATUS "database"')
    assert "hunter2" not in str([entry.facts for entry in world.trail.entries])


async def test_a_restart_says_when_it_has_ended_in_any_case() -> None:
    world = World()
    await world.run('RESTART "database"')
    begun, ended = (entry.mutation for entry in world.trail.entries if entry.mutation is not None)
    assert begun.until is not None
    assert begun.until - begun.started_at == pytest.approx(60 + 12 + 15)
    assert (begun.outcome, ended.outcome, ended.number) == (None, "ok", 1)


async def test_an_error_of_this_program_ends_its_run_in_the_trail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It left an intent for ever: the trail did not say that anything had gone wrong, nor what was done before."""
    world = World()

    async def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Evaluator, "_ask", breaks)
    with pytest.raises(ZeroDivisionError):
        await world.run('RESTART "database" PING "host"')
    assert world.trail.kinds() == [Kind.RUN_BEGUN, Kind.RESTART_BEGUN, Kind.RESTART_ENDED, Kind.RUN_ENDED]
    [ended] = world.trail.facts(Kind.RUN_ENDED)
    assert (ended["status"], ended["internal_error"]) == ("failed", "ZeroDivisionError")
    assert [step["command"] for step in ended["steps"]] == ["RESTART"]

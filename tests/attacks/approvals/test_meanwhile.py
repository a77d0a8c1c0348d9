"""What changes between a yes and the run that it is for, or while a run waits for its turn.

The story: an agent has everything that it needs, and then takes its time. It has a restart wait behind another until
its token is over, or keeps a yes to one freeze for the next one. What was good when it asked counts for nothing: each
mutation is looked at again when it has its turn.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from guideway.interpreter.leases import Place, ProcessLeases, Waited
from guideway.interpreter.results import Report
from guideway.interpreter.windows import Calendar, Freeze
from tests.interpreter.gated import MONA, Clock, code, gated

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def freeze(name: str, begins: float, ends: float) -> Freeze:
    """Return a freeze whose bounds are in seconds from now."""
    now = datetime.now(UTC)
    return Freeze(name, now + timedelta(seconds=begins), now + timedelta(seconds=ends), f"for {name}")


async def test_a_token_that_ends_while_its_restart_waits(tmp_path: Path, clock: Clock) -> None:
    """It was let in with a minute left, behind a restart that takes longer."""
    async with gated(tmp_path) as world:
        reports: list[Report] = []

        async def run() -> None:
            caller = replace(MONA, expires_at=time.time() + 60)
            reports.append(await world.run('TRY { RESTART "harmless" } CATCH { RESTART "other" }', caller))

        held = world.gate.leases.hold([Place("service harmless", 1, "service `harmless`")], "another", 0)
        async with anyio.create_task_group() as tasks, held:
            tasks.start_soon(run)
            await anyio.sleep(0.1)
            clock.pass_(90)
        assert code(reports[0]) == "expired"
        assert [step.outcome.value for step in reports[0].steps] == ["refused"]
        assert world.restarts == 0


class Slow(ProcessLeases):
    """Leases in a store that takes its time, though nobody holds what is wanted."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        async with super().hold(places, run_id, wait) as waited:
            self._clock.pass_(90)
            yield waited


async def test_a_token_that_ends_while_the_store_of_locks_is_slow(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path) as world:
        world.gate.leases = Slow(clock)
        assert code(await world.run('RESTART "harmless"', replace(MONA, expires_at=time.time() + 60))) == "expired"
        assert world.restarts == 0


async def test_a_freeze_that_begins_while_the_store_of_locks_is_slow(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path, calendar=Calendar((), (freeze("the sale", 60, 3_600),))) as world:
        world.gate.leases = Slow(clock)
        assert code(await world.run('RESTART "harmless"')) == "frozen"
        assert world.restarts == 0


@pytest.mark.parametrize("when", ["before it is used", "while it runs"])
async def test_a_yes_to_one_freeze_breaks_no_other_one_of_the_same_service(
    tmp_path: Path, clock: Clock, when: str
) -> None:
    """A person let a restart break the freeze for a sale. The next one is for a migration, of which nobody spoke."""
    calendar = Calendar((), (freeze("the sale", -60, 60), freeze("the migration", 60, 3_600)))
    async with gated(tmp_path, calendar=calendar) as world:
        ticket = await world.ask('RESTART "harmless"', break_glass="it burns")
        await world.decide(ticket, reason="the sale can bear it")
        if when == "while it runs":
            world.gate.leases = Slow(clock)
        else:
            clock.pass_(90)
        report = await world.run('RESTART "harmless"', ticket=ticket.id)
        assert code(report) == "frozen"
        assert "for the migration" in str(report.refusal)
        assert world.restarts == 0
        later = await world.ask('RESTART "harmless"', break_glass="it burns")
        assert later.id != ticket.id
        assert "for the migration" in later.question.causes[-1].source

"""The gate for impact as a whole, with a store: what runs, what asks a person first, and what is refused, by name."""

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from tests.interpreter.gated import MONA, Clock, code, gated

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.leases import Place
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.results import Reason, Report, Status
from guideway.interpreter.risk import Quota
from guideway.interpreter.weighing import Bounds
from guideway.interpreter.windows import Calendar, Freeze

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_tiers_decide_who_is_asked_and_who_is_told(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        for program, told in (('RESTART "harmless"', 0), ('RESTART "easy"', 0), ('RESTART "review"', 1)):
            assert (await world.run(program)).status is Status.COMPLETED
            await world.store.outbox.undelivered(1)  # what waits is written before
            notices = await world.store.outbox.claim(time.time(), 10, "ops")
            assert [notice.event["event"] for notice in notices] == ["review"] * told
        report = await world.run('PING "api.internal" IF_RUNNING "other" THEN { } ELSE { RESTART "hard" }')
        assert code(report) == "approval_required"
        assert report.ran == {}
        assert world.restarts == 3


async def test_a_program_that_a_person_approved_runs_once_in_whatever_spelling(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        ticket = await world.ask('RESTART "hard"  PING "api.internal"')
        assert ticket.question.program == 'RESTART "hard" PING "api.internal"'
        for _ in range(2):  # nobody is asked twice
            assert (await world.ask('RESTART "hard" PING "api.internal"')).id == ticket.id
        assert code(await world.run('RESTART "hard" PING "api.internal"', ticket=ticket.id)) == "approval_required"
        await world.decide(ticket)
        again = await world.run('RESTART "hard" PING "api.internal"')
        assert again.refusal is not None
        assert "a person has approved this" in again.refusal.diagnostics[0].message
        report = await world.run('RESTART "hard" # now\n\n  PING "api.internal"', ticket=ticket.id)
        assert (report.status, world.restarts) == (Status.COMPLETED, 1)
        for _ in range(3):
            assert code(await world.run('RESTART "hard" PING "api.internal"', ticket=ticket.id)) == "approval_used"
        kept = await world.store.ticket(ticket.id, time.time())
        assert kept is not None
        assert (kept.state, kept.run_id, kept.outcome) == (TicketState.USED, report.run_id, "completed")
        assert world.restarts == 1


async def test_each_reason_not_to_run_has_its_own_code_and_none_uses_the_ticket_up(
    tmp_path: Path, clock: Clock
) -> None:
    async with gated(tmp_path, policy={None: "1", "red": "1"}) as world:
        program = 'RESTART "hard"'
        ticket = await world.approved(program)
        for caller in (
            replace(MONA, subject="olga"),
            replace(MONA, client="another-agent"),
            replace(MONA, tenant="red"),
        ):
            assert code(await world.run(program, caller, ticket=ticket)) == "approval_other_caller"
        assert code(await world.run('RESTART "hard" RESTART "hard"', ticket=ticket)) == "approval_other_program"
        assert code(await world.run('RESTART "harmless"', ticket=ticket)) == "approval_other_program"
        assert code(await world.run(program, ticket="guessed")) == "approval_unknown"
        world.gate.rules = replace(world.gate.rules, policy={None: "2"})
        assert code(await world.run(program, ticket=ticket)) == "approval_outdated"
        world.gate.rules = replace(world.gate.rules, policy={None: "1"})
        clock.pass_(301)
        assert code(await world.run(program, ticket=ticket)) == "approval_expired"
        refused = await world.ask(program)
        assert refused.id != ticket
        await world.decide(refused, approve=False, reason="not before five")
        report = await world.run(program, ticket=refused.id)
        assert code(report) == "approval_denied"
        assert report.refusal is not None
        assert report.refusal.diagnostics[0].message == "a person refused this: not before five"
        assert world.restarts == 0


async def test_where_nobody_can_be_asked_or_too_many_are_it_says_so(tmp_path: Path) -> None:
    async with gated(tmp_path, can_ask=lambda caller: caller.tenant is None, most_open=2) as world:
        assert code(await world.run('RESTART "hard"', replace(MONA, tenant="red"))) == "nobody_to_ask"
        for count in (1, 2):
            await world.ask(" ".join(['RESTART "hard"'] * count))
        assert code(await world.run('PING "api.internal" RESTART "hard"')) == "budget_exceeded"


async def test_the_sixth_restart_within_an_hour_asks_a_person(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path) as world:
        for _ in range(5):
            assert (await world.run('RESTART "hourly"')).status is Status.COMPLETED
        report = await world.run('RESTART "hourly"')
        assert isinstance(report.refusal, NeedsApproval)
        (cause,) = report.refusal.ticket.question.causes
        assert (cause.target, cause.source) == (
            "hourly",
            "5 within an hour and 1 more would be above its quota of 5",
        )
        await world.decide(report.refusal.ticket)
        assert (await world.run('RESTART "hourly"', ticket=report.refusal.ticket.id)).status is Status.COMPLETED
        assert (await world.run('RESTART "other"')).status is Status.COMPLETED
        clock.pass_(3_601)
        assert (await world.run('RESTART "hourly"')).status is Status.COMPLETED


async def test_between_two_restarts_there_is_the_cool_down_counted_from_the_end(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path) as world:
        world.drivers["easy"].stop_seconds = 0.3
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.run, 'RESTART "easy"')
            while not world.restarts:
                await anyio.sleep(0.01)
            clock.pass_(59.9)  # it is still restarting
        clock.pass_(10)
        assert "cool-down" in str((await world.ask('RESTART "easy"')).question.causes[0].source)
        clock.pass_(50.2)
        assert (await world.run('RESTART "easy"')).status is Status.COMPLETED


async def test_what_a_program_did_not_do_is_given_back(tmp_path: Path) -> None:
    five = 'TRY { IF_RUNNING "other" THEN { PING "api.internal" } ELSE { ' + 'RESTART "hourly" ' * 5 + "} } CATCH { }"
    async with gated(tmp_path) as world:
        for _ in range(3):
            assert (await world.run(five)).status is Status.COMPLETED
        assert (await world.run('RESTART "hourly" ' * 3)).status is Status.COMPLETED
        assert code(await world.run('RESTART "hourly" ' * 3)) == "approval_required"
        assert (await world.run('RESTART "hourly" ' * 2)).status is Status.COMPLETED


async def test_a_restart_that_never_had_its_turn_is_given_back_and_is_no_history(tmp_path: Path) -> None:
    async with gated(tmp_path, wait=0.05) as world:
        async with world.gate.leases.hold([Place("service hourly", 1, "service `hourly`")], "another", 0):
            busy = await world.run('RESTART "hourly" ' * 5)
            assert busy.steps[0].reason is Reason.BUSY
            world.gate.rules = replace(world.gate.rules, wait=60)
            with anyio.move_on_after(0.1):  # cancelled while it waits
                await world.run('RESTART "hourly" ' * 5)
        assert await world.store.history(None, ["hourly"]) == []
        assert (await world.run('RESTART "hourly" ' * 5)).status is Status.COMPLETED
        assert len(await world.store.history(None, ["hourly"], most=9)) == 5


async def test_a_restart_that_was_cancelled_on_its_way_counts(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        world.drivers["hourly"].stop_seconds = 60
        with anyio.move_on_after(1) as scope:

            async def cancel() -> None:
                while not world.restarts:
                    await anyio.sleep(0.01)
                scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel)
                await world.run('RESTART "hourly" ' * 5)
        (mutation,) = await world.store.history(None, ["hourly"])
        assert mutation.outcome == "cancelled"
        world.drivers["hourly"].stop_seconds = 0
        assert code(await world.run('RESTART "hourly" ' * 5)) == "approval_required"
        assert (await world.run('RESTART "hourly" ' * 4)).status in (Status.COMPLETED, Status.FAILED)


async def test_a_tenant_has_bounds_of_its_own(tmp_path: Path) -> None:
    red = replace(MONA, tenant="red")
    async with gated(tmp_path, bounds={"red": Bounds(Quota(per_hour=2))}) as world:
        assert (await world.run('RESTART "harmless" RESTART "other"', red)).status is Status.COMPLETED
        assert (await world.ask('RESTART "harmless"', red)).question.causes[0].target == "the tenant's restarts"
        assert (await world.run('RESTART "harmless"')).status is Status.COMPLETED


@pytest.mark.parametrize("bound", ["group", "tenant"])
async def test_never_more_at_once_than_a_group_or_a_tenant_may(tmp_path: Path, bound: str) -> None:
    rules = {"groups": {"all": 1}} if bound == "group" else {"bounds": {None: Bounds(at_once=1)}}
    async with gated(tmp_path, group="all", **rules) as world:
        for name in ("harmless", "other"):
            world.drivers[name].stop_seconds = 0.05
        reports: list[Report] = []

        async def run(name: str) -> None:
            reports.append(await world.run(f'RESTART "{name}"'))

        async with anyio.create_task_group() as tasks:
            for name in ("harmless", "other"):
                tasks.start_soon(run, name)
        first, second = reports
        assert first.steps[0].message is None
        assert second.steps[0].message is not None
        assert second.steps[0].message.endswith(f"which run {first.run_id} held")
        assert [report.status for report in reports] == [Status.COMPLETED] * 2


def frozen(after: float = -60, until: float = 3_600) -> Calendar:
    now = datetime.now(UTC)
    begins, ends = now + timedelta(seconds=after), now + timedelta(seconds=until)
    return Calendar(freezes=(Freeze("launch", begins, ends, "launch week"),))


async def test_a_freeze_refuses_and_a_person_with_a_reason_breaks_the_glass(tmp_path: Path) -> None:
    async with gated(tmp_path, calendar=frozen()) as world:
        assert code(await world.run('RESTART "harmless"')) == "frozen"
        ticket = await world.ask('RESTART "harmless"', break_glass="it \x1b burns\n" + "x" * 900)
        assert ticket.question.break_glass is not None
        assert ticket.question.break_glass.startswith("it \ufffd burns xxx")
        assert len(ticket.question.break_glass) == 500
        assert code(await world.run('RESTART "harmless"', ticket=ticket.id)) == "approval_required"
        await world.decide(ticket, reason="I see smoke")
        assert (await world.run('RESTART "harmless"', ticket=ticket.id)).status is Status.COMPLETED
        await world.store.outbox.undelivered(1)
        events = [each.event for each in await world.store.outbox.claim(time.time(), 10, "ops")]
        assert [each["event"] for each in events] == ["pending", "decided", "break_glass"]
        assert [(each["tier"], each["needs_person"]) for each in events] == [(1, ["frozen"])] * 3
        broken = events[-1]
        assert (broken["ticket"], broken["break_glass"]) == (ticket.id, ticket.question.break_glass)
        assert (broken["decided_by"]["subject"], broken["reason"]) == ("ada", "I see smoke")


async def test_the_tier_of_a_program_above_its_quota_is_still_that_of_its_commands(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        assert (await world.run('RESTART "easy"')).status is Status.COMPLETED
        asked = await world.ask('RESTART "easy" RESTART "review"')
        kept = await world.store.ticket(asked.id, time.time())
        assert kept is not None
        assert kept.question.tier == 2
        told = kept.to_json()
        assert (told["tier"], told["needs_person"]) == (2, ["above its quota"])
        [cause] = told["causes"]
        assert (cause["target"], cause["tier"], cause["needs"]) == ("easy", 1, "above its quota")
        [made] = (await world.gate.uses([(None, world.inventory.service("easy"))], time.time())).values()
        assert len(made) == 1


async def test_every_door_has_the_same_worst_case(tmp_path: Path) -> None:
    async with gated(tmp_path, wait=7) as world:
        inventory = world.pipeline.inventory
        for program, seconds in (('PING "api.internal"', 5), ('RESTART "hard"', 67), ('RESTART "hard" ' * 9, 300)):
            admitted = world.pipeline.admit(program, MONA)
            assert admitted.worst_case == world.pipeline.worst_case(admitted.analysis, inventory)
            assert admitted.worst_case.seconds == seconds


async def test_a_ticket_from_before_a_freeze_does_not_break_it(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path, calendar=frozen(after=60)) as world:
        ticket = await world.approved('RESTART "hard"')
        clock.pass_(90)
        assert code(await world.run('RESTART "hard"', ticket=ticket)) == "frozen"
        other = await world.ask('RESTART "hard"', break_glass="it burns")
        assert other.id != ticket
        assert world.restarts == 0


async def test_a_person_breaks_the_glass_that_they_saw_and_no_other(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path) as world:
        world.inventory.service("harmless").calendar = frozen()
        world.inventory.service("other").calendar = frozen(after=60)
        program = 'RESTART "harmless" RESTART "other"'
        ticket = await world.ask(program, break_glass="it burns")
        await world.decide(ticket, reason="I see smoke")
        clock.pass_(90)
        report = await world.run(program, ticket=ticket.id)
        assert code(report) == "frozen"
        assert report.refusal is not None
        assert [each.message.split()[0] for each in report.refusal.diagnostics] == ["`other`"]
        assert world.restarts == 0


async def test_a_freeze_that_begins_while_a_restart_waits_holds_for_it(tmp_path: Path, clock: Clock) -> None:
    async with gated(tmp_path, calendar=frozen(after=60)) as world:
        reports: list[Report] = []

        async def run() -> None:
            reports.append(await world.run('TRY { RESTART "harmless" } CATCH { PING "api.internal" }'))

        async with (
            anyio.create_task_group() as tasks,
            world.gate.leases.hold([Place("service harmless", 1, "service `harmless`")], "another", 0),
        ):
            tasks.start_soon(run)
            await anyio.sleep(0.1)
            clock.pass_(90)
        assert code(reports[0]) == "frozen"
        assert [step.outcome.value for step in reports[0].steps] == ["refused"]
        assert world.restarts == 0


async def test_where_the_store_is_away_nothing_changes_and_reads_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    async with gated(tmp_path / "file") as world:
        world.without_trail()
        for program in ('RESTART "hard"', 'RESTART "easy"', 'PING "api.internal" RESTART "hourly"'):
            assert code(await world.run(program)) == "store_unavailable"
        assert code(await world.run('RESTART "harmless"', ticket="x" * 24)) == "store_unavailable"
        harmless = await world.run('RESTART "harmless"')
        assert harmless.steps[0].message == "nothing was done to it: the store of locks cannot be reached"
        assert world.restarts == 0
        assert (await world.run('PING "api.internal" GET_STATUS "hard"')).status is Status.COMPLETED
    assert str(tmp_path / "file") in caplog.text
    assert all(record.levelno >= logging.ERROR for record in caplog.records if record.name.startswith("guideway"))


async def test_programs_that_read_ask_nothing_of_the_store_but_a_record(tmp_path: Path) -> None:
    async with gated(tmp_path / "store") as world:
        world.without_trail()
        program = 'PING "api.internal" GET_STATUS "hard" IF_RUNNING "easy" THEN { PING "api.internal" }'
        assert (await world.run(program)).status is Status.COMPLETED
        assert (await world.run(program, ticket="x" * 24)).status is Status.COMPLETED
    assert not (tmp_path / "store").exists()


async def test_history_tells_what_the_last_runs_did(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        report = await world.run('RESTART "harmless"')
        (mutation,) = await world.store.history(None, ["harmless", "other"])
        assert (mutation.run_id, mutation.who.subject, mutation.outcome) == (report.run_id, "mona", "ok")
        assert await world.store.history("red", ["harmless"]) == []


async def test_a_clock_set_back_revives_no_ticket_and_bars_nothing_for_longer_than_it_has_to(
    tmp_path: Path, clock: Clock
) -> None:
    async with gated(tmp_path) as world:
        program = 'RESTART "hard"'
        ticket = await world.approved(program)
        clock.pass_(86_400)
        assert code(await world.run(program, ticket=ticket)) == "approval_expired"
        ahead = await world.approved(program)
        for _ in range(5):
            assert (await world.run('RESTART "hourly"')).status is Status.COMPLETED
        clock.pass_(-86_400)
        for each in (ticket, ahead):
            assert code(await world.run(program, ticket=each)) == "approval_expired"
        assert code(await world.run('RESTART "hourly"')) == "approval_required"
        assert (await world.run(program, ticket=await world.approved(program))).status is Status.COMPLETED
        clock.pass_(3_601)
        assert (await world.run('RESTART "hourly"')).status is Status.COMPLETED


async def test_without_a_store_what_needs_one_is_refused(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        bare = Pipeline(world.inventory, deadlines=Deadlines())
        assert code(await bare.run('RESTART "easy"', MONA)) == "store_unavailable"
        assert code(await bare.run('RESTART "hard"', MONA)) == "nobody_to_ask"
        assert (await bare.run('RESTART "harmless"', MONA)).status is Status.COMPLETED

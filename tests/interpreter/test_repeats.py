"""A call that is sent again with its idempotency key: its program runs once, and nobody is told more than is known."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.interpreter.gated import MONA, Clock, Gated, code, gated

from guideway.dsl.scopes import Scope
from guideway.interpreter import repeats
from guideway.interpreter.drivers.memory import Behaviour
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Outcome, Report, Status, Step
from guideway.interpreter.weighing import Asked

pytestmark = pytest.mark.anyio

TEXT = 'PING "api.internal" RESTART "harmless"'
KEY = "night-1"


async def run(world: Gated, text: str = TEXT, caller: Principal = MONA, key: str = KEY, **asked: Any) -> Report:
    return await world.run(text, caller, idempotency_key=key, **asked)


async def test_it_runs_once_and_is_told_the_same_again(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        first = await run(world)
        again = await run(world)
        assert world.restarts == 1
        assert first.status is Status.COMPLETED
        assert (first.replayed, again.replayed) == (False, True)
        assert again.to_json() == first.to_json() | {"replayed": True}
        assert "replayed" not in first.to_json()
    async with gated(tmp_path) as world:  # as another replica, or the same one after it was started again
        assert (await run(world)).run_id == first.run_id
        assert world.restarts == 0


async def test_a_failure_is_a_result_too(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        world.drivers["harmless"].behaviour = Behaviour.DIES_AT_ONCE
        first, again = await run(world), await run(world)
        assert first.status is again.status is Status.FAILED
        assert again.steps == first.steps
        assert world.restarts == 1


async def test_another_person_or_tenant_has_keys_of_their_own(tmp_path: Path) -> None:
    """Another client of the same person does not."""
    async with gated(tmp_path) as world:
        await run(world)
        mike = Principal("mike", MONA.scopes, issuer=MONA.issuer)
        red = Principal("mona", MONA.scopes, issuer=MONA.issuer, tenant="red")
        other = Principal("mona", MONA.scopes, issuer=MONA.issuer, client="a-shell")
        assert not (await run(world, caller=mike)).replayed
        assert not (await run(world, caller=red)).replayed
        assert (await run(world, caller=other)).replayed
        assert world.restarts == 3


async def test_a_key_is_for_one_text(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        first = await run(world)
        other = await run(world, 'RESTART "other"')
        assert code(other) == "idempotency_conflict"
        assert other.refusal is not None
        assert other.refusal.to_json()["earlier"] == {"run_id": first.run_id, "retry_after": None}
        assert code(await run(world, f"{TEXT}\n")) == "idempotency_conflict", "places in a result are in its own text"
        assert world.restarts == 1


async def test_a_result_is_told_to_nobody_who_may_not_run_the_program(tmp_path: Path) -> None:
    """Their scopes are looked at before the key is."""
    async with gated(tmp_path) as world:
        await run(world)
        reader = Principal(MONA.subject, frozenset({Scope.READ}), issuer=MONA.issuer)
        assert code(await run(world, caller=reader)) == "insufficient_scope"


@pytest.mark.parametrize(
    ("text", "refused"),
    [("RESTRT", "syntax"), ('RESTART "harmles"', "unknown_target"), ('RESTART "hard"', "approval_required")],
)
async def test_what_was_refused_before_it_did_anything_leaves_the_key_free(
    tmp_path: Path, text: str, refused: str
) -> None:
    async with gated(tmp_path) as world:
        assert code(await run(world, text)) == refused
        assert (await run(world)).status is Status.COMPLETED


async def test_after_a_persons_yes_the_same_key_runs_it_once(tmp_path: Path) -> None:
    text = 'RESTART "hard"'
    async with gated(tmp_path) as world:
        ticket = await world.ask(text, idempotency_key=KEY)
        await world.decide(ticket)
        first = await run(world, text, ticket=ticket.id)
        again = await run(world, text, ticket=ticket.id)
        assert first.status is Status.COMPLETED
        assert (again.replayed, again.run_id) == (True, first.run_id), "and not that its ticket was used"
        assert world.restarts == 1


async def test_while_the_first_is_under_way_the_second_is_told_when_to_come_again(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        world.drivers["harmless"].behaviour = Behaviour.NEVER_STARTS
        cancelled: list[Report] = []

        async def begin() -> None:
            await world.pipeline.run(TEXT, MONA, asked=Asked(idempotency_key=KEY), on_cancel=cancelled.append)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            with anyio.fail_after(10):
                while not world.restarts:
                    await anyio.sleep(0.01)
            busy = await run(world)
            tasks.cancel_scope.cancel()
        assert code(busy) == "idempotency_in_progress"
        assert busy.refusal is not None
        assert busy.refusal.to_json()["earlier"]["retry_after"] == 30
        assert "call again in 30 s" in str(busy.refusal.diagnostics[0].help)
        [first] = cancelled
        again = await run(world)
        assert (again.status, again.run_id, again.replayed) == (Status.CANCELLED, first.run_id, True)
        assert [step.outcome for step in again.steps] == [step.outcome for step in first.steps]
        assert world.restarts == 1


async def test_what_a_lost_process_did_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said to be done, nor run again: its caller is told whose run it was, and to look."""
    clock = Clock(monkeypatch)
    async with gated(tmp_path) as world:

        async def lost(*_: object) -> None:
            """The process was killed before it could say anything."""

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.store.repeats, "end", lost)
            first = await run(world)
        assert code(await run(world)) == "idempotency_in_progress"
        clock.pass_(400)
        unknown = await run(world)
        assert code(unknown) == "idempotency_unknown"
        assert unknown.refusal is not None
        assert unknown.refusal.to_json()["earlier"] == {"run_id": first.run_id, "retry_after": None}
        assert world.restarts == 1
        assert (await run(world, key="night-2")).status is Status.COMPLETED


async def test_a_key_is_remembered_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    async with gated(tmp_path) as world:
        await run(world)
        clock.pass_(repeats.LIFETIME - 60)
        assert (await run(world)).replayed
        clock.pass_(600)
        assert not (await run(world)).replayed
        assert world.restarts == 2


async def test_without_a_store_nothing_changes_and_reads_go_on(tmp_path: Path) -> None:
    async with gated(tmp_path) as world:
        pipeline = Pipeline(world.inventory)
        asked = Asked(idempotency_key=KEY)
        assert code(await pipeline.run(TEXT, MONA, asked=asked)) == "store_unavailable"
        assert world.restarts == 0
        for _ in range(2):
            read = await pipeline.run('PING "api.internal"', MONA, asked=asked)
            assert (read.status, read.replayed) == (Status.COMPLETED, False)


def test_a_result_that_is_kept_is_bounded() -> None:
    began = "2026-11-30T11:59:36.190+00:00"

    def report(steps: int, output: str) -> Report:
        done = tuple(
            Step(number, 1, 1, "GET_STATUS", "web", Outcome.OK, began, untrusted_output=output)
            for number in range(1, steps + 1)
        )
        return Report("run", Status.COMPLETED, done, (), None, {"GET_STATUS": steps}, began, 1.0)

    whole, said, long = (
        repeats._bounded(report(*each)) for each in ((10, "x" * 100), (500, "x" * 2_000), (10_000, ""))
    )
    assert whole == report(10, "x" * 100).to_json()
    assert len(said["steps"]) == 500
    assert {each["untrusted_output"] for each in said["steps"]} == {None}
    assert (long["steps"], long["ran"]) == ([], {"GET_STATUS": 10_000})
    assert all(len(json.dumps(each)) <= repeats.MOST_BYTES for each in (whole, said, long))


def test_what_a_key_is() -> None:
    for good in ("a", "x" * 200, "with spaces and !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}"):
        assert repeats.KEY.fullmatch(good), good
    for bad in ("", "x" * 201, "é", "a\n", "\t", "a\x7f", "\u202e"):
        assert not repeats.KEY.fullmatch(bad), bad

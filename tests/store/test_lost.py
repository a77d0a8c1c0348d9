"""Restarts in the history from their beginning, and what becomes of those whose process was lost."""

import pytest

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.store import Store, mutations, sweeping
from tests.store.conftest import Place
from tests.store.questions import APPROVER, BINDING, NOW, allowance, question
from tests.store.trails import restart, whole

pytestmark = pytest.mark.anyio


async def outcomes(store: Store, tenant: str | None = None) -> list[tuple[str, int, str | None]]:
    """Return how the restarts of the service ended, the newest first."""
    found = await store.history(tenant, ["database"], most=99)
    return [(each.run_id, each.number, each.outcome) for each in found]


async def kinds(store: Store, trail: str = "") -> list[str]:
    return [body["kind"] for body in await whole(store, trail)]


async def test_a_restart_is_in_the_history_from_its_beginning_to_its_end(place: Place) -> None:
    store = place.store
    store.trail.put([restart(Kind.RESTART_BEGUN)])
    (begun,) = await store.history(None, ["database"])
    assert (begun.outcome, begun.ended_at, begun.until, begun.key, begun.number) == (None, None, NOW + 60, "db", 1)
    store.trail.put([restart(Kind.RESTART_ENDED, ended_at=NOW + 2, outcome="ok", message="it is well")])
    (ended,) = await store.history(None, ["database"])
    assert (ended.outcome, ended.ended_at, ended.until, ended.message) == ("ok", NOW + 2, None, "it is well")
    store.trail.put([restart(Kind.RESTART_BEGUN, number=2)])
    assert await outcomes(store) == [("run-1", 2, None), ("run-1", 1, "ok")]
    assert await kinds(store) == ["restart.begun", "restart.ended", "restart.begun"]
    await store.close()


async def test_what_has_not_ended_in_time_is_unknown_in_its_own_tenants_trail_until_it_says_how(place: Place) -> None:
    store, other = place.store, place.store
    store.trail.put([restart(Kind.RESTART_BEGUN), restart(Kind.RESTART_BEGUN, "red-1", tenant="red", until=NOW + 90)])
    await store.trail.written()
    await other.sweep(NOW + 60)
    assert await outcomes(other) == [("run-1", 1, None)]
    await other.sweep(NOW + 61)
    assert await outcomes(other) == [("run-1", 1, "unknown")]
    assert await outcomes(other, "red") == [("red-1", 1, None)]
    await other.sweep(NOW + 91)
    await other.sweep(NOW + 92)
    unknown = (await whole(other))[-1]
    assert (unknown["kind"], unknown["run"], unknown["number"], unknown["unit"], unknown["service"]) == (
        "restart.unknown",
        "run-1",
        1,
        "db",
        "database",
    )
    assert (unknown["caller"]["subject"], unknown["begun"]) == ("mona", "2030-03-17T17:46:40.000000Z")
    assert await kinds(other) == ["restart.begun", "restart.unknown"]
    assert await kinds(other, "red") == ["restart.begun", "restart.unknown"]
    store.trail.put([restart(Kind.RESTART_ENDED, ended_at=NOW + 99, outcome="ok")])  # it was only slow
    assert await outcomes(store) == [("run-1", 1, "ok")]
    for each in (store, other):
        await each.close()


async def test_whoever_opens_the_store_finds_what_was_lost_before(place: Place) -> None:
    store, later = place.store, place.store
    store.trail.put([restart(Kind.RESTART_BEGUN)])
    await store.trail.written()
    await later.reserve("run-2", [allowance()], NOW + 100)
    assert await outcomes(later) == [("run-1", 1, "unknown")]
    for each in (store, later):
        await each.close()


async def test_a_lost_holder_of_a_lease_is_recorded_only_where_it_was_restarting_that(place: Place) -> None:
    store = place.store
    store.trail.put(
        [
            restart(Kind.RESTART_BEGUN, "red-1", tenant="red"),
            restart(Kind.RESTART_BEGUN, "run-2"),
            restart(Kind.RESTART_ENDED, "run-2", ended_at=NOW + 1, outcome="ok"),
        ]
    )
    for run, key in (("red-1", "cache"), ("run-2", "db"), ("none", "db"), ("red-1", "db"), ("red-1", "db")):
        store.trail.put([restart(Kind.RESTART_UNKNOWN, run, key=key, number=0)])
    await store.trail.written()
    assert await outcomes(store, "red") == [("red-1", 1, "unknown")]
    assert await kinds(store) == ["restart.begun", "restart.ended"]
    red = await whole(store, "red")  # it is told where it began, whoever found it
    assert [body["kind"] for body in red] == ["restart.begun", "restart.unknown"]
    assert (red[1]["run"], red[1]["caller"]["tenant"]) == ("red-1", "red")
    await store.close()


async def test_the_ticket_of_a_lost_run_has_an_unknown_outcome(place: Place) -> None:
    store = place.store
    for number in range(3):
        made = await store.ask(question(digest=str(number)), NOW, lifetime=300, most_open=20)
        await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW)
        binding = question(digest=str(number)).binding
        assert binding != BINDING
        await store.use(made.id, binding, f"run-{number}", [], NOW + 1)
    await store.settle("run-0", {}, "completed", NOW + 2)
    store.trail.put([restart(Kind.RESTART_BEGUN, until=NOW + 30)])
    await store.trail.written()
    await store.sweep(NOW + 31)

    async def told() -> dict[str | None, str | None]:
        return {each.run_id: each.outcome for each in await store.tickets(None, NOW + 31)}

    assert await told() == {"run-0": "completed", "run-1": "unknown", "run-2": None}
    await store.sweep(NOW + 122)  # a minute behind the longest that it may take
    assert await told() == {"run-0": "completed", "run-1": "unknown", "run-2": "unknown"}
    await store.settle("run-2", {}, "completed", NOW + 123)
    assert await told() == {"run-0": "completed", "run-1": "unknown", "run-2": "completed"}
    await store.close()


async def test_a_sweep_goes_on_until_nothing_is_left_and_forgets_what_is_old(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "MOST", 2)
    store = place.store
    store.trail.put([restart(Kind.RESTART_BEGUN, f"run-{number}") for number in range(5)])
    await store.trail.written()
    await store.sweep(NOW + 61)
    assert {outcome for _, _, outcome in await outcomes(store)} == {"unknown"}
    assert len(await whole(store)) == 10
    await store.sweep(NOW + mutations.KEPT_SECONDS + 1)
    assert await outcomes(store) == []
    await store.close()


async def test_a_clock_that_is_set_back_keeps_no_restart_open_for_longer(place: Place) -> None:
    store = place.store
    ahead = 1_000_000.0
    await store.reserve("run", [allowance()], NOW + ahead)
    store.trail.put([restart(Kind.RESTART_BEGUN, started_at=NOW + ahead, until=NOW + ahead + 60)])
    await store.trail.written()
    await store.sweep(NOW)
    assert await outcomes(store) == [("run-1", 1, None)]
    await store.sweep(NOW + 61)
    assert await outcomes(store) == [("run-1", 1, "unknown")]
    await store.close()


async def test_the_ticket_of_a_run_that_could_not_settle_has_the_outcome_that_the_trail_has(place: Place) -> None:
    store = place.store
    made = await store.ask(question(), NOW, lifetime=300, most_open=20)
    await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW)
    await store.use(made.id, BINDING, "run-1", [], NOW + 1)
    store.trail.put([Entry(Kind.RUN_ENDED, None, NOW + 2, {"run": "run-1", "status": "contained"})])
    await store.trail.written()
    await store.sweep(NOW + 122)
    assert [each.outcome for each in await store.tickets(None, NOW + 122)] == ["contained"]
    await store.close()

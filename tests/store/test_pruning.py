"""Checkpoints, and old records that go: what is left is proven, and a wrong clock removes nothing."""

import re
import time

import pytest

from guideway.interpreter.audit.sealed import unproven
from guideway.interpreter.store import Store, pruning
from tests.store.conftest import Place
from tests.store.questions import NOW
from tests.store.trails import entry, keeping, whole

pytestmark = pytest.mark.anyio


async def add(store: Store, *numbers: int, tenant: str | None = None) -> None:
    """Add records, each in a transaction of its own."""
    for number in numbers:
        store.trail.put([entry(number, tenant)])
        await store.trail.written()


async def sealed(store: Store, trail: str = "") -> int:
    return len(await store.checkpoints(trail))


async def test_a_checkpoint_is_kept_after_so_many_records_and_given_away(place: Place) -> None:
    anchored: list[str] = []
    store = place.open(keeping=keeping(checkpoint_records=3, anchor=anchored.append))[0]
    await add(store, *range(8))
    assert anchored == await store.checkpoints("")
    assert [unproven(seal).seq for seal in anchored] == [1, 4, 7]  # the first, so that a trail is known to be there
    await add(store, 1, 2, tenant="red")
    assert await sealed(store, "red") == 1
    await whole(store)
    await store.close()
    assert [unproven(seal).seq for seal in anchored[3:]] == [1, 8, 2]  # the end of each


async def test_a_checkpoint_is_kept_after_so_much_time_also_where_nothing_happens(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: str) -> None:
        raise OSError("nobody is there")

    store = place.open(keeping=keeping(checkpoint_seconds=60, anchor=broken))[0]
    await add(store, 1, 2)
    assert await sealed(store) == 1
    await store.sweep(NOW)  # years later, by the clock that the records were sealed by
    await store.sweep(NOW + 59)
    assert await sealed(store) == 2
    assert "could not be brought out of the store" in caplog.text
    await whole(store)
    await store.close()


async def test_records_that_are_too_old_go_up_to_a_checkpoint_and_the_rest_is_proven(place: Place) -> None:
    store = place.open(keeping=keeping(checkpoint_records=4, keep_seconds=100))[0]
    await add(store, *range(1, 13))
    await add(store, *range(1, 4), tenant="red")
    await store.sweep(NOW + 50)
    await store.sweep(NOW + 105)
    assert (await whole(store))[0]["seq"] == 2  # the sixth is too young, and the fifth not older than what is kept
    await store.sweep(NOW + 106)
    bodies = await whole(store)
    assert [body["seq"] for body in bodies] == [6, 7, 8, 9, 10, 11, 12, 13, 14]
    pruned = bodies[-1]
    assert (pruned["kind"], pruned["removed_to"], pruned["first"], pruned["records"]) == ("trail.pruned", 5, 6, 4)
    assert pruned["hash"] == bodies[0]["prev"]
    await store.sweep(NOW + 106)
    assert len(await whole(store)) == 9
    await add(store, 13)
    await store.sweep(NOW + 1_000)
    for trail in ("", "red"):
        assert [body["kind"] for body in await whole(store, trail)] == ["trail.pruned"]
    await store.close()


async def test_much_goes_in_bounded_transactions(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "MOST", 5)
    store = place.open(keeping=keeping(checkpoint_records=5, keep_seconds=100))[0]
    await add(store, *range(1, 41))
    await store.sweep(NOW + 900)
    await store.sweep(NOW + 900)
    bodies = await whole(store)
    assert [body["kind"] for body in bodies] == ["trail.pruned"] * len(bodies)
    assert bodies[-1]["removed_to"] == 40
    assert len(bodies) >= 4
    await store.close()


async def test_without_a_key_or_a_bound_nothing_goes(place: Place) -> None:
    for number, kept in enumerate((keeping(sealer=None, keep_seconds=1), keeping(checkpoint_records=2))):
        store = place.open(keeping=kept)[0]
        await add(store, 1, 2, 3)
        await store.sweep(NOW + 1_000)
        await store.sweep(NOW + 1_000)
        kinds = [body["kind"] for body in await whole(store)]
        assert [kind for kind in kinds if kind != "trail.signed"] == ["run.begun"] * 3 * (number + 1)
        await store.close()


async def test_a_clock_that_is_set_removes_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    store = place.open(keeping=keeping(checkpoint_records=2, keep_seconds=86_400 * 90))[0]
    await add(store, 1, 2, 3, 4)
    for now in (NOW + 5, NOW + 86_400 * 365, NOW + 6, NOW - 86_400 * 365):
        await store.sweep(now)
        assert len(await whole(store)) == 4
    assert re.search(r"the clock was set by 315359\d\d s", caplog.text)  # less what this has taken
    await store.close()
    later = place.open(keeping=keeping(checkpoint_records=2, keep_seconds=86_400 * 90))[0]
    await later.sweep(NOW + 86_400 * 365)  # the first of a process
    assert len(await whole(later)) == 4
    await later.close()


DAY = 86_400.0
MONTH = keeping(checkpoint_records=1, keep_seconds=30 * DAY)


async def swept(place: Place, *times: float) -> list[str]:
    """Sweep as a server does that starts at the first of some times; return which runs have a record then."""
    store = place.open(keeping=MONTH)[0]
    clock = time.clock_gettime

    for now in times:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "clock_gettime", lambda which, passed=now - times[0]: clock(which) + passed)
            await store.sweep(now)
    runs = [body["run"] for body in await whole(store) if body["kind"] == "run.begun"]
    await store.close()
    return runs


async def test_a_clock_that_is_wrong_from_the_start_on_does_not_empty_the_trail(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts with the clock 400 days ahead, each of which keeps a record with that time, and its own monotonic time."""
    store = place.open(keeping=MONTH)[0]
    await add(store, *(int(day * DAY) for day in range(10)))
    ahead = 400 * DAY
    for start in (ahead, ahead + 300, ahead + 600):
        await add(store, int(start))
        found = await swept(place, NOW + start, NOW + start + 30, NOW + start + 7_200)
        assert len(found) == 10 + [ahead, ahead + 300, ahead + 600].index(start) + 1
    assert "the clock may be wrong" in caplog.text
    # Days later, still wrong: of a month a week has been believed, and no more.
    assert len(await swept(place, NOW + ahead + 900, NOW + ahead + 3 * DAY)) == 13
    await store.close()


async def test_an_installation_that_was_off_removes_what_is_old_when_so_much_time_has_been_seen(place: Place) -> None:
    store = place.open(keeping=MONTH)[0]
    await add(store, *(int(day * DAY) for day in range(10)))
    await store.close()
    on = NOW + 60 * DAY
    assert len(await swept(place, on, on + 60)) == 10
    assert len(await swept(place, on, on + 20 * DAY)) == 4  # 20 days, a week of those before, three of records
    assert await swept(place, on, on + 31 * DAY) == []


async def test_records_that_follow_each_other_are_removed_by_the_clock(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    store = place.open(keeping=MONTH)[0]
    await add(store, *(int(day * DAY) for day in range(0, 60, 5)))
    await store.close()
    found = await swept(place, NOW + 56 * DAY, NOW + 56 * DAY + 60)
    assert found == [f"run-{int(day * DAY)}" for day in range(30, 60, 5)]
    assert "clock" not in caplog.text

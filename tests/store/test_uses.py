"""Quotas in the store: reserved whole or not at all, given back, and never gone beyond by many at once."""

import anyio
import pytest

from guideway.interpreter.quotas import DAY, HOUR
from tests.store.conftest import Place
from tests.store.questions import NOW, allowance

pytestmark = pytest.mark.anyio


async def test_of_several_allowances_all_suffice_or_nothing_is_reserved(place: Place) -> None:
    store = place.store
    both = [allowance(3), allowance(3, key="tenant ", per_day=4)]
    assert await store.reserve("1", both, NOW) == []
    beyond = await store.reserve("2", both, NOW)
    assert [each.message for each in beyond] == [
        "3 within an hour and 3 more would be above its quota of 5",
        "3 within a day and 3 more would be above its quota of 4",
    ]
    assert await store.reserve("3", [allowance(2)], NOW) == []
    await store.close()


async def test_two_quotas_of_one_thing_count_it_once(place: Place) -> None:
    store = place.store
    assert await store.reserve("1", [allowance(2, per_hour=4), allowance(2, per_hour=9)], NOW) == []
    assert await store.reserve("2", [allowance(2, per_hour=4)], NOW) == []
    assert len(await store.reserve("3", [allowance(1, per_hour=4)], NOW)) == 1
    await store.close()


async def test_what_did_not_run_is_given_back_and_what_did_counts_from_the_end(place: Place) -> None:
    store = place.store
    await store.reserve("1", [allowance(5, seconds=600), allowance(5, key="b", seconds=600)], NOW)
    assert len(await store.reserve("2", [allowance(1)], NOW + 1)) == 1
    await store.settle("1", {"service a": 4}, "completed", NOW + 500)
    assert await store.reserve("3", [allowance(5, key="b")], NOW + 501) == []
    assert len(await store.reserve("4", [allowance(2)], NOW + 501)) == 1
    assert await store.reserve("5", [allowance(1)], NOW + 501) == []
    assert len(await store.reserve("6", [allowance(5)], NOW + 499 + HOUR)) == 1
    await store.settle("1", {"service a": 4}, "completed", NOW + 5_000)  # a second time changes nothing
    assert await store.reserve("7", [allowance(5)], NOW + 501 + HOUR) == []
    await store.close()


async def test_what_a_dead_process_had_reserved_counts_as_made_when_it_would_have_ended(place: Place) -> None:
    store = place.store
    await store.reserve("dead", [allowance(1, cooldown=60, seconds=100)], NOW)
    (over,) = await store.reserve("1", [allowance(1, cooldown=60)], NOW + 90)
    assert "the last one was 0 s ago" in over.message
    (over,) = await store.reserve("2", [allowance(1, cooldown=60)], NOW + 130)
    assert "the last one was 30 s ago" in over.message
    assert await store.reserve("3", [allowance(1, cooldown=60)], NOW + 160) == []
    await store.close()


async def test_what_no_quota_looks_back_to_is_forgotten(place: Place) -> None:
    store = place.store
    await store.reserve("1", [allowance(1, per_day=1)], NOW)
    assert len(await store.reserve("2", [allowance(1, per_day=1)], NOW + DAY - 1)) == 1
    await store.reserve("3", [allowance(1, key="other")], NOW + 3 * DAY)

    def kept(calls: object, connection: object) -> int:
        del calls
        return len(connection.exec_driver_sql("SELECT * FROM guideway_uses").all())  # type: ignore[attr-defined]

    assert await store.opened.look(kept) == 1
    await store.close()


async def test_many_at_once_never_go_beyond(place: Place) -> None:
    """Five replicas and eighty programs that each want two places, in either order."""
    stores = [place.store for _ in range(5)]
    granted: list[str] = []

    async def one(number: int) -> None:
        wanted = [allowance(1, per_hour=10), allowance(1, key="service b", per_hour=7)]
        if number % 2:
            wanted.reverse()
        if not await stores[number % 5].reserve(str(number), wanted, NOW):
            granted.append(str(number))

    async with anyio.create_task_group() as tasks:
        for number in range(80):
            tasks.start_soon(one, number)
    assert len(granted) == 7
    for store in stores:
        await store.close()

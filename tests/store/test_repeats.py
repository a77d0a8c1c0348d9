"""Idempotency keys in both kinds of store: one call takes a key, whoever comes later is told of that one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from guideway.interpreter.repeats import Call, Earlier
from guideway.interpreter.store import Store
from guideway.interpreter.store.tables import CALLS
from tests.store import postgresql
from tests.store.conftest import Place
from tests.store.questions import NOW

pytestmark = pytest.mark.anyio

CALL = Call("https://login.example", "mona", "", "night-1", "d" * 64, "run-1", 60.0, 3_600.0)
RESULT: Mapping[str, Any] = {"run_id": "run-1", "status": "completed", "steps": [{"message": "é ☃"}]}


def again(**other: Any) -> Call:
    """Return the call as it is sent once more: by a run of its own."""
    return replace(CALL, run_id="run-2", **other)


async def test_the_first_result_is_kept_for_who_calls_again(place: Place) -> None:
    store, later = place.store, place.store
    assert await store.repeats.begin(CALL, NOW) is None
    assert await later.repeats.begin(again(), NOW + 1) == Earlier(CALL.digest, "run-1", 59.0, None)
    await store.repeats.end(CALL, RESULT)
    await store.close()
    found = await later.repeats.begin(again(), NOW + 100)
    assert found is not None
    assert (found.run_id, found.result) == ("run-1", RESULT)
    await later.close()


async def test_a_key_is_of_one_person_in_one_tenant(place: Place) -> None:
    store = place.store
    assert await store.repeats.begin(CALL, NOW) is None
    for other in (
        {"issuer": "https://other.example"},
        {"subject": "mike"},
        {"tenant": "red"},
        {"key": "night-2"},
        {"key": "NIGHT-1"},
    ):
        assert await store.repeats.begin(again(**other), NOW) is None, other
    found = await store.repeats.begin(again(digest="e" * 64), NOW)
    assert found is not None
    assert found.digest == CALL.digest
    await store.close()


async def test_of_many_at_once_one_takes_it(place: Place) -> None:
    stores = [place.store for _ in range(3)]
    assert await stores[0].repeats.begin(replace(CALL, key="before"), NOW) is None
    found: list[Earlier | None] = []

    async def call(store: Store, number: int) -> None:
        found.append(await store.repeats.begin(replace(CALL, run_id=f"run-{number}"), NOW))

    async with anyio.create_task_group() as tasks:
        for number in range(24):
            tasks.start_soon(call, stores[number % 3], number)
    assert found.count(None) == 1
    assert len({earlier.run_id for earlier in found if earlier is not None}) == 1
    for store in stores:
        await store.close()


async def test_what_did_nothing_leaves_its_key_free(place: Place) -> None:
    store = place.store
    assert await store.repeats.begin(CALL, NOW) is None
    await store.repeats.forget(CALL)
    assert await store.repeats.begin(again(), NOW) is None
    await store.repeats.forget(CALL)  # the key is another run's by now
    await store.repeats.end(CALL, RESULT)
    assert await store.repeats.begin(CALL, NOW) == Earlier(CALL.digest, "run-2", 60.0, None)
    await store.close()


async def test_a_lost_process_leaves_its_key_taken_until_it_is_forgotten(place: Place) -> None:
    store = place.store
    assert await store.repeats.begin(CALL, NOW) is None
    await store.close()
    store = place.store
    found = await store.repeats.begin(again(), NOW + 61)
    assert found is not None
    assert (found.run_id, found.result) == ("run-1", None)
    assert found.left <= 0
    assert await store.repeats.begin(again(), NOW + 60 + 3_600) is None, "its time is over"

    def count(_: object, connection: sa.Connection) -> Any:
        return connection.scalar(sa.select(sa.func.count()).select_from(CALLS))

    assert store.opened.look_here(count) == 1
    await store.close()


async def test_a_result_waits_for_a_store_that_is_away(server: postgresql.Server) -> None:
    place = Place({"url": server.database()})
    store = place.store
    assert await store.repeats.begin(CALL, NOW) is None
    server.stop()
    try:
        await store.repeats.end(CALL, RESULT)
    finally:
        server.start()
    found = await store.repeats.begin(again(), NOW)
    assert found is not None
    assert found.result == RESULT
    await store.close()

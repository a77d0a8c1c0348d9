"""What those who read trails are told of them, whatever somebody else has written into the tables of a database."""

from typing import Any

import pytest
import sqlalchemy as sa

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.store import Store
from guideway.interpreter.store.trail_pages import status
from tests.store.conftest import Place
from tests.store.questions import NOW
from tests.store.trails import entry, keeping

pytestmark = pytest.mark.anyio


async def written(place: Place, *entries: Entry) -> Store:
    """Return a store with signed records."""
    store = place.open(keeping=keeping())[0]
    store.trail.put(entries)
    await store.trail.written()
    return store


async def change(store: Store, *statements: str) -> None:
    """Write into the tables, as whoever may."""

    def run(_: object, connection: sa.Connection) -> None:
        for statement in statements:
            assert connection.execute(sa.text(statement)).rowcount > 0

    await store.opened.change(run)


async def told(store: Store) -> list[tuple[str, int | None, str]]:
    """Return what is odd."""
    return [(odd.trail, odd.seq, odd.words) for odd in await store.oddities()]


async def test_nothing_is_odd_where_nobody_else_wrote(place: Place) -> None:
    store = place.store
    assert (await store.names(), await store.oddities()) == ([], [])
    await store.close()
    store = await written(place, entry(1), entry(2, "red"), entry(3, "blue"))
    assert (await store.names(), await store.oddities()) == (["", "blue", "red"], [])
    await store.close()


@pytest.mark.parametrize("left", ["guideway_trail", "guideway_trails", "guideway_checkpoints"])
async def test_a_trail_has_a_name_wherever_anything_is_left_of_it(left: str, place: Place) -> None:
    store = await written(place, *(entry(number, f"tenant {number}") for number in range(30)))
    tables = {"guideway_trail", "guideway_trails", "guideway_checkpoints"} - {left}
    await change(store, *(f"DELETE FROM {table}" for table in tables))  # noqa: S608  # of this file
    assert await store.names() == sorted(f"tenant {number}" for number in range(30))
    await store.close()


@pytest.mark.parametrize("seq", [0, -5])
async def test_what_stands_before_the_first_place_is_told(seq: int, place: Place) -> None:
    store = await written(place, entry(1), entry(2, "red"))
    columns = "body, hash, at, kind, run_id, subject FROM guideway_trail WHERE trail = 'red'"
    await change(
        store,
        f"INSERT INTO guideway_trail SELECT trail, {seq}, {columns}",
        f"UPDATE guideway_trails SET seq = {seq} WHERE trail = ''",  # noqa: S608  # of this file
    )
    assert await told(store) == [
        ("red", seq, f"record {seq} stands before the first place"),
        ("", None, "the head says that the trail ends before it begins"),
    ]
    assert await store.oddities(passed_over=True) == await store.oddities()
    await store.close()


async def test_a_checkpoint_in_another_ones_place_is_told(place: Place) -> None:
    store = await written(place, entry(1, "red"), entry(2, "red"))
    await change(store, "UPDATE guideway_checkpoints SET seq = 7 WHERE trail = 'red'")
    assert await told(store) == [("red", 2, "checkpoint 7 stands in another one's place: it is of record 2")]
    assert await store.oddities(passed_over=True) == []
    await store.close()


@pytest.mark.parametrize("body", ["", "{", "[]", "[" * 100_000, '{"status":"completed"}'])
async def test_a_record_that_does_not_read_says_of_no_run_how_it_ended(body: str, place: Place) -> None:
    facts: dict[str, Any] = {"run": "run-1", "status": "completed"}
    store = await written(place, Entry(Kind.RUN_ENDED, None, NOW, facts))

    async def ended() -> str | None:
        return await store.opened.look(lambda _, connection: status(connection, "run-1"))

    assert await ended() == "completed"
    await change(store, f"UPDATE guideway_trail SET body = '{body}'")  # noqa: S608  # of this file
    assert await ended() is None
    await store.close()

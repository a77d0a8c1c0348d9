"""A trail is gone on with only where it is the one that was written: nobody's history is signed for them.

Each story changes the database as somebody can who may write it, and then lets the server record something.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from joserfc.jwk import OKPKey

from guideway.interpreter.audit.chain import hash_of, link
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.audit.sealed import Seal, unproven
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import Store
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS
from guideway.server.audit_anchor import Anchor, furthest
from tests.store.conftest import Place
from tests.store.questions import NOW
from tests.store.test_pruning import add
from tests.store.trails import KEY, entry, keeping, whole

pytestmark = pytest.mark.anyio

Change = Callable[[sa.Connection], object]

MALLORY = Signer(OKPKey.generate_key("Ed25519"))


async def changed(store: Store, change: Change) -> None:
    """Write the database as its owner can."""
    await store.opened.change(lambda _, connection: change(connection))


async def written(place: Place, *, kept: Keeping | None = None, records: int = 5) -> None:
    store = place.open(keeping=kept or keeping())[0]
    await add(store, *range(records))
    await store.close()


async def bodies(store: Store) -> Sequence[str]:
    return [record.body for record in await store.records("")]


def forged(connection: sa.Connection, seal: str | None = None) -> None:
    """Write all of the trail anew, with one word changed in its first record, each hash right, and the head with it."""
    prev = "0" * 64
    for row in connection.execute(sa.select(TRAIL).order_by(TRAIL.c.seq)).all():
        made = link(replace(entry(row.seq), facts={"run": "forged"}), row.seq, prev)
        prev = made.hash
        connection.execute(TRAIL.update().where(TRAIL.c.seq == row.seq).values(body=made.body, hash=made.hash))
    connection.execute(TRAILS.update().values(hash=prev, seal=seal))


def forged_with_another_key(connection: sa.Connection) -> None:
    forged(connection)
    head = connection.execute(sa.select(TRAILS)).one()
    connection.execute(TRAILS.update().values(seal=MALLORY.seal("", head.seq, head.hash, NOW)))


def forged_with_the_seal_that_was_there(connection: sa.Connection) -> None:
    forged(connection, connection.scalar(sa.select(TRAILS.c.seal)))


def forged_without_a_checkpoint(connection: sa.Connection) -> None:
    forged(connection)
    connection.execute(CHECKPOINTS.delete())
    connection.execute(TRAILS.update().values(checkpoint_seq=0))


def cut_off(connection: sa.Connection) -> None:
    """Take the last records away, and put the checkpoint's seal to the head: all of it was signed."""
    seal = unproven(connection.scalars(sa.select(CHECKPOINTS.c.seal).order_by(CHECKPOINTS.c.seq)).first() or "")
    text = connection.scalar(sa.select(CHECKPOINTS.c.seal).where(CHECKPOINTS.c.seq == seal.seq))
    connection.execute(TRAIL.delete().where(TRAIL.c.seq > seal.seq))
    connection.execute(CHECKPOINTS.delete().where(CHECKPOINTS.c.seq > seal.seq))
    connection.execute(TRAILS.update().values(seq=seal.seq, hash=seal.hash, seal=text, checkpoint_seq=seal.seq))


def headless(connection: sa.Connection) -> None:
    connection.execute(TRAILS.delete())


def gone(connection: sa.Connection) -> None:
    for table in (TRAILS, TRAIL, CHECKPOINTS):
        connection.execute(table.delete())


#: What is done, and why nothing is added, for a process that has only the store.
STORIES: Mapping[Change, str] = {
    forged_with_another_key: "no key that is believed has sealed its end, record 5, as it is",
    forged_with_the_seal_that_was_there: "no key that is believed has sealed its end, record 5, as it is",
    forged: "its end, record 5, is not signed, and it was before",
    headless: "the store does not say any more where it ends",
}
#: The same for one that knows how far the trail had come.
STORIES_TO_WHO_KNOWS: Mapping[Change, str] = {
    **STORIES,
    forged_without_a_checkpoint: "its end, record 5, is not signed, and it was before",
    cut_off: "it ends with record 1, and had record 5: an old copy of it was put back",
    gone: "the store does not say any more where it ends",
}


async def refused(store: Store, why: str) -> None:
    """Let a server record something: it fails, and nothing is there that was not."""
    before = await bodies(store)
    with pytest.raises(StoreUnavailable, match=why):
        await add(store, 9)
    assert await bodies(store) == before
    assert why in (store.trail.failing or "")


@pytest.mark.parametrize("change", STORIES, ids=lambda change: change.__name__)
async def test_a_history_of_somebody_else_is_not_signed(
    place: Place, change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    await written(place)
    store = place.open(keeping=keeping())[0]
    await changed(store, change)
    await refused(store, STORIES[change])
    await store.close()
    said = [record.message for record in caplog.records if "no record is added" in record.message]
    assert len(said) == 1  # and not each five seconds
    assert STORIES[change] in said[0]


@pytest.mark.parametrize("change", STORIES_TO_WHO_KNOWS, ids=lambda change: change.__name__)
async def test_nor_by_a_process_that_lives_while_it_is_written(place: Place, change: Change) -> None:
    store = place.open(keeping=keeping())[0]
    await add(store, *range(5))
    await changed(store, change)
    await refused(store, STORIES_TO_WHO_KNOWS[change])
    await store.close()


@pytest.mark.parametrize("change", STORIES_TO_WHO_KNOWS, ids=lambda change: change.__name__)
async def test_nor_where_checkpoints_are_kept_outside(place: Place, change: Change, tmp_path: Path) -> None:
    file, belief = tmp_path / "checkpoints", Believed([KEY])
    kept = keeping(anchor=Anchor(file), reached=lambda: furthest(file, belief))
    await written(place, kept=kept)
    store = place.open(keeping=kept)[0]
    await changed(store, change)
    await refused(store, STORIES_TO_WHO_KNOWS[change])
    await store.close()


async def test_what_another_replica_signed_is_gone_on_with(place: Place) -> None:
    """With the key of the other one, and not without it."""
    other = OKPKey.generate_key("Ed25519")
    ours = keeping(belief=Believed([KEY, other]))
    theirs = Keeping(Signer(other), Believed([other, KEY]))
    first, second = (place.open(keeping=each)[0] for each in (ours, theirs))
    for number in range(4):
        await add((first, second)[number % 2], number)
    alone = place.open(keeping=keeping())[0]
    await refused(alone, "no key that is believed has sealed its end, record 4, as it is")
    for store in (first, second, alone):
        await store.close()


async def test_a_trail_that_was_not_signed_is_from_its_next_record_on_and_says_so(place: Place) -> None:
    store = place.open(keeping=keeping(sealer=None))[0]
    await add(store, 1, 2, 3)
    await store.close()
    anchored: list[str] = []
    store = place.open(keeping=keeping(anchor=anchored.append))[0]
    await add(store, 4)
    found = await whole(store)
    assert [body["kind"] for body in found] == ["run.begun"] * 3 + ["trail.signed", "run.begun"]
    assert (found[3]["unsigned_to"], found[3]["kid"]) == (3, Signer(KEY).kid)
    assert [unproven(seal).seq for seal in anchored] == [5]
    await add(store, 5)
    assert [body["kind"] for body in await whole(store)][3:] == ["trail.signed", "run.begun", "run.begun"]
    await store.close()


async def test_a_process_without_the_key_adds_nothing_to_a_signed_trail(place: Place) -> None:
    await written(place)
    store = place.open(keeping=keeping(sealer=None))[0]
    await refused(store, "it is signed, and this process has no key")
    await store.close()
    store = place.open(keeping=keeping())[0]
    await add(store, 6)
    assert len(await whole(store)) == 6
    await store.close()


async def test_one_trail_that_is_not_gone_on_with_leaves_no_doubt_about_others(place: Place) -> None:
    await written(place)
    store = place.open(keeping=keeping())[0]
    await changed(store, forged)
    store.trail.put([entry(1, "red"), entry(2)])
    with pytest.raises(StoreUnavailable, match="cannot be gone on with"):
        await store.trail.written()
    assert await whole(store, "red") == []
    await store.close()


async def test_checkpoints_outside_that_cannot_be_read_let_nothing_be_added(place: Place) -> None:
    def unreadable() -> Mapping[str, Seal]:
        raise PermissionError(13, "Permission denied")

    store = place.open(keeping=keeping(reached=unreadable))[0]
    await refused(store, "the checkpoints that are kept outside cannot be read")
    await store.close()


async def test_what_stands_in_a_head_goes_into_no_log_and_no_file(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A seal with line breaks would write lines of its own choice where checkpoints are kept."""
    anchored: list[str] = []
    store = place.open(keeping=keeping(anchor=anchored.append))[0]
    await add(store, 1, 2)
    line = "x\n2026-12-01 checkpoint of the audit trail: forged"
    await changed(store, lambda connection: connection.execute(TRAILS.update().values(seal=line)))
    await store.close()  # which keeps a last checkpoint
    assert [unproven(seal).seq for seal in anchored] == [1]
    assert "forged" not in caplog.text


async def test_a_head_that_says_to_have_a_checkpoint_far_ahead_gets_one(place: Place) -> None:
    store = place.open(keeping=keeping(checkpoint_records=3))[0]
    await add(store, 1)
    await changed(store, lambda connection: connection.execute(TRAILS.update().values(checkpoint_seq=1_000_000)))
    await add(store, 2)
    assert [unproven(seal).seq for seal in await store.checkpoints("")] == [1, 2]
    await store.close()


async def test_records_that_are_said_to_be_old_are_not_removed_by_that(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time beside a record is not signed: that of the seal is."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    kept = keeping(checkpoint_records=2, keep_seconds=100)
    store = place.open(keeping=kept)[0]
    await add(store, 1, 2, 3, 4)
    await changed(store, lambda connection: connection.execute(TRAIL.update().values(at=NOW - 200)))
    await store.sweep(NOW)
    await store.sweep(NOW)
    assert len(await bodies(store)) == 4
    assert "no seal proves that record 3 is that old" in caplog.text
    await store.close()


def test_the_furthest_checkpoint_of_a_file_is_found_among_what_is_none(tmp_path: Path) -> None:
    file, signer = tmp_path / "checkpoints", Signer(KEY)
    seals = [signer.seal(trail, seq, hash_of(str(seq)), NOW) for trail, seq in (("", 3), ("red", 7), ("", 5), ("", 4))]
    lines: list[Any] = [*seals, "nonsense", "", "a.b.c", MALLORY.seal("", 99, hash_of("99"), NOW), "x" * 100_000]
    file.write_text("".join(f"2026-12-01 INFO {line}\n" for line in lines) + seals[0][:50])
    found = furthest(file, Believed([KEY]))
    assert {trail: seal.seq for trail, seal in found.items()} == {"": 5, "red": 7}
    assert furthest(tmp_path / "missing", Believed([KEY])) == {}


@pytest.mark.parametrize("column", ["seq", "checkpoint_seq", "checkpoint_at"])
async def test_a_head_with_a_value_of_no_place_or_time_lets_nothing_be_added_and_says_so(
    tmp_path: Path, column: str
) -> None:
    place = Place({"folder": tmp_path / "store"})  # PostgreSQL keeps no such value
    await written(place)
    store = place.open(keeping=keeping())[0]
    change = sa.update(TRAILS).values({column: sa.literal_column("'x'")})
    await changed(store, lambda connection: connection.execute(change))
    with pytest.raises(StoreUnavailable, match=r"cannot be gone on with|holds a row that cannot be read"):
        await add(store, 9)
    await store.close()


@pytest.mark.parametrize("at", ["'x'", "x'00'", "1e300", "-1e300", "1e999"])
async def test_a_record_with_a_time_that_is_none_stops_no_sweep(tmp_path: Path, at: str) -> None:
    """What clears up runs as long as the server does: an error of it would be the server's end."""
    place = Place({"folder": tmp_path / "store"})
    kept = keeping(checkpoint_records=2, keep_seconds=86_400.0)
    store = place.open(keeping=kept)[0]
    await add(store, 1, 2, 3, 4)
    change = sa.update(TRAIL).where(TRAIL.c.seq == 2).values(at=sa.literal_column(at))
    await changed(store, lambda connection: connection.execute(change))
    await store.sweep(NOW)
    await store.sweep(NOW + 60)
    assert len(await bodies(store)) == 4
    await store.close()

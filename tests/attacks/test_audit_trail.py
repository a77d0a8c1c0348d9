"""Somebody who can write the store bends the record of what they did: changes it, drops it, adds to it, moves it.

They have the database and all the time that they want; they do not have the key, nor what was written elsewhere. Each
time ``audit verify`` fails, and names the first record that is not as it was written, or the place behind which one of
them must be. What can only be told by what is kept elsewhere is told by that.
"""

# ruff: noqa: S608  # the statements are this file's own

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shutil import copyfile

import anyio
import pytest

from guideway.interpreter.audit.chain import hash_of
from guideway.interpreter.audit.findings import Verdict, What
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.audit.verifying import by_trail, verify_store
from guideway.interpreter.store import open_store
from guideway.interpreter.store.folder import FILE
from tests.interpreter.trails import NOW, restarts, signer

RECORDS, EVERY = 10_000, 1_000
MIDDLE = 5_500  # between two checkpoints
OWN, TENANT = "", "acme"

Tamper = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True)
class Kept:
    """A store of two trails, closed, with its key and what was kept outside of it."""

    folder: Path
    signer: Signer
    outside: list[str]
    pruned: Path

    def verify(self, folder: Path, *, outside: bool = True) -> dict[str, Verdict]:
        """Return the verdict of each trail of a store."""

        async def run() -> dict[str, Verdict]:
            store, leases = open_store(folder=folder)
            seals = by_trail(self.outside if outside else [])
            found = {
                verdict.trail: verdict async for verdict in verify_store(store, Believed([self.signer.public]), seals)
            }
            await leases.close()
            await store.close()
            return found

        return anyio.run(run)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Write the trails once: each test gets a copy."""
    folder, pruned = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("pruned")
    made, outside = signer(), list[str]()
    keeping = Keeping(
        made, Believed([made.public]), checkpoint_records=EVERY, anchor=outside.append, keep_seconds=4_000.0
    )

    async def build() -> None:
        store, leases = open_store(folder=folder, keeping=keeping)
        entries = islice(restarts(RECORDS), RECORDS)
        while batch := list(islice(entries, EVERY)):
            store.trail.put(batch)
            await store.trail.written()
        store.trail.put(list(restarts(100, tenant=TENANT)))
        await leases.close()
        await store.close()
        copyfile(folder / FILE, pruned / FILE)
        (pruned / FILE).chmod(0o600)
        store, leases = open_store(folder=pruned, keeping=replace(keeping, anchor=None))
        await store.opened.write(
            lambda calls, work: calls.sweep(work, store.opened.heads, before=NOW + 5_000), NOW + 5_000
        )
        await leases.close()
        await store.close()

    anyio.run(build)
    return Kept(folder, made, outside, pruned)


@pytest.fixture
def copy(kept: Kept, tmp_path: Path) -> Path:
    """Return a copy of the store."""
    return _copied(kept.folder, tmp_path)


def _copied(folder: Path, to: Path) -> Path:
    copyfile(folder / FILE, to / FILE)
    (to / FILE).chmod(0o600)
    return to


def tampered(folder: Path, tamper: Tamper) -> None:
    """Do something in the database."""
    connection = sqlite3.connect(folder / FILE)
    with connection:
        tamper(connection)
    connection.close()


def sql(*statements: str) -> Tamper:
    """Return what carries out statements."""

    def tamper(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return tamper


def body(connection: sqlite3.Connection, seq: int, trail: str = OWN) -> str:
    """Return the body of a record."""
    query = "SELECT body FROM guideway_trail WHERE trail = ? AND seq = ?"
    return str(connection.execute(query, (trail, seq)).fetchone()[0])


def put(connection: sqlite3.Connection, seq: int, text: str, *, with_hash: bool = True) -> None:
    """Put another body in a record's place, and its hash."""
    connection.execute("UPDATE guideway_trail SET body = ? WHERE trail = '' AND seq = ?", (text, seq))
    if with_hash:
        connection.execute("UPDATE guideway_trail SET hash = ? WHERE trail = '' AND seq = ?", (hash_of(text), seq))


def lied(text: str) -> str:
    """Return a body that says that it was done through another client."""
    assert "an-agent" in text
    return text.replace("an-agent", "a-person")


def change(seq: int, *, with_hash: bool) -> Tamper:
    """Return what changes through which client something was done."""
    return lambda connection: put(connection, seq, lied(body(connection, seq)), with_hash=with_hash)


def swap(column: str, one: int, other: int) -> Tamper:
    """Return what lets two records change places."""
    if column == "seq":
        return sql(
            f"UPDATE guideway_trail SET seq = -1 WHERE trail = '' AND seq = {one}",
            f"UPDATE guideway_trail SET seq = {one} WHERE trail = '' AND seq = {other}",
            f"UPDATE guideway_trail SET seq = {other} WHERE trail = '' AND seq = -1",
        )

    def tamper(connection: sqlite3.Connection) -> None:
        first, second = body(connection, one), body(connection, other)
        put(connection, one, second)
        put(connection, other, first)

    return tamper


def shift(by: int, behind: int) -> tuple[str, str]:
    """Return what moves all records behind a place."""
    return (
        f"UPDATE guideway_trail SET seq = -seq WHERE trail = '' AND seq > {behind}",
        f"UPDATE guideway_trail SET seq = {by} - seq WHERE trail = '' AND seq < 0",
    )


def insert(seq: int) -> Tamper:
    """Return what puts a record of one's own in, with all that it takes to fit what is before it."""

    def tamper(connection: sqlite3.Connection) -> None:
        sql(*shift(1, seq - 1))(connection)
        said = json.loads(body(connection, seq + 1))
        text = json.dumps(said | {"seq": seq, "caller": None}, separators=(",", ":"))
        columns = "trail, ?, ?, ?, at, kind, run_id, NULL FROM guideway_trail WHERE trail = '' AND seq = ?"
        connection.execute(f"INSERT INTO guideway_trail SELECT {columns}", (seq, text, hash_of(text), seq + 1))
        connection.execute("UPDATE guideway_trails SET seq = seq + 1 WHERE trail = ''")

    return tamper


def rewrite(seq: int, by: Signer | None = None) -> Tamper:
    """Return what changes a record and computes all behind it anew, and signs that with another key if there is one."""

    def tamper(connection: sqlite3.Connection) -> None:
        text = lied(body(connection, seq))
        put(connection, seq, text)
        prev, last = hash_of(text), seq
        rows = connection.execute(
            "SELECT seq, body FROM guideway_trail WHERE trail = '' AND seq > ? ORDER BY seq", (seq,)
        ).fetchall()
        for place, old in rows:
            new = json.dumps(json.loads(old) | {"prev": prev}, separators=(",", ":"))
            put(connection, place, new)
            prev, last = hash_of(new), place
            if by is not None and place % EVERY == 0:
                seal = by.seal(OWN, place, prev, NOW)
                change = "UPDATE guideway_checkpoints SET seal = ? WHERE trail = '' AND seq = ?"
                connection.execute(change, (seal, place))
        connection.execute("UPDATE guideway_trails SET hash = ? WHERE trail = ''", (prev,))
        if by is not None:
            connection.execute("UPDATE guideway_trails SET seal = ? WHERE trail = ''", (by.seal(OWN, last, prev, NOW),))

    return tamper


def end_at(seq: int) -> Tamper:
    """Return what cuts the end off, and lets the store say that the trail ends there."""
    return sql(
        f"DELETE FROM guideway_trail WHERE trail = '' AND seq > {seq}",
        f"DELETE FROM guideway_checkpoints WHERE trail = '' AND seq > {seq}",
        f"UPDATE guideway_trails SET seq = {seq}, hash = (SELECT hash FROM guideway_trail WHERE trail = '' AND "
        f"seq = {seq}), seal = (SELECT seal FROM guideway_checkpoints WHERE trail = '' AND seq = {seq}), "
        f"checkpoint_seq = {seq} WHERE trail = ''",
    )


def append(connection: sqlite3.Connection) -> None:
    """Add a record that fits, and let the store say that the trail ends with it."""
    text = body(connection, RECORDS)
    text = json.dumps(json.loads(text) | {"seq": RECORDS + 1, "prev": hash_of(text)}, separators=(",", ":"))
    columns = f"'', {RECORDS + 1}, ?, ?, at, kind, run_id, subject"
    connection.execute(
        f"INSERT INTO guideway_trail SELECT {columns} FROM guideway_trail WHERE trail = '' AND seq = {RECORDS}",
        (text, hash_of(text)),
    )
    change = f"UPDATE guideway_trails SET seq = {RECORDS + 1}, hash = ? WHERE trail = ''"
    connection.execute(change, (hash_of(text),))


def record(change: str, seq: int = MIDDLE) -> Tamper:
    """Return what changes the row of a record."""
    return sql(f"UPDATE guideway_trail SET {change} WHERE trail = '' AND seq = {seq}")


OTHERS = signer()

#: What is done, what it is found to be, and the place that is named.
TAMPERINGS: dict[str, tuple[Tamper, What, int | None]] = {
    "a byte of a body is flipped": (change(MIDDLE, with_hash=False), What.CHANGED, MIDDLE),
    "a body is changed, with its hash": (change(MIDDLE, with_hash=True), What.CHANGED, MIDDLE),
    "the first body is changed, with its hash": (change(1, with_hash=True), What.CHANGED, 1),
    "the last body is changed, with its hash": (change(RECORDS, with_hash=True), What.CHANGED, RECORDS),
    "a hash is changed": (record(f"hash = '{'0' * 64}'"), What.CHANGED, MIDDLE),
    "a body is no JSON any more": (record("body = '{'"), What.CHANGED, MIDDLE),
    "the time by which a record is found": (record("at = at - 86400"), What.INDEX, MIDDLE),
    "the kind by which a record is found": (record("kind = 'server.started'"), What.INDEX, MIDDLE),
    "the run by which a record is found": (record("run_id = 'another'"), What.INDEX, MIDDLE),
    "the person by whom a record is found": (record("subject = 'eve'"), What.INDEX, MIDDLE),
    "a record is deleted": (
        sql(f"DELETE FROM guideway_trail WHERE trail = '' AND seq = {MIDDLE}"),
        What.DROPPED,
        MIDDLE,
    ),
    "a record is deleted, and those behind it moved up": (
        sql(
            f"DELETE FROM guideway_trail WHERE trail = '' AND seq = {MIDDLE}",
            *shift(-1, MIDDLE),
            "UPDATE guideway_trails SET seq = seq - 1 WHERE trail = ''",
        ),
        What.DROPPED,
        MIDDLE,
    ),
    "the first record is deleted": (
        sql("DELETE FROM guideway_trail WHERE trail = '' AND seq = 1"),
        What.DROPPED,
        1,
    ),
    "all up to a checkpoint is deleted, as if by age": (
        sql("DELETE FROM guideway_trail WHERE trail = '' AND seq <= 2000"),
        What.DROPPED,
        1,
    ),
    "a record is inserted": (insert(MIDDLE), What.ADDED, MIDDLE),
    "a record is added at the end": (append, What.REWRITTEN, RECORDS + 1),
    "two bodies change places": (swap("body", MIDDLE, MIDDLE + 9), What.MOVED, MIDDLE),
    "two records change places": (swap("seq", MIDDLE, MIDDLE + 9), What.MOVED, MIDDLE),
    "the end is cut off": (
        sql("DELETE FROM guideway_trail WHERE trail = '' AND seq > 9500"),
        What.CUT_OFF,
        9_501,
    ),
    "the end is cut off, and the store says so": (end_at(9_000), What.CUT_OFF, 9_001),
    "all from a record on is written anew without the key": (rewrite(MIDDLE), What.REWRITTEN, 5_001),
    "the record behind a checkpoint, and all from there on": (rewrite(5_001), What.REWRITTEN, 5_001),
    "all from a record on is written anew, and signed": (rewrite(MIDDLE, OTHERS), What.REWRITTEN, 5_001),
    "a checkpoint is dropped": (
        sql("DELETE FROM guideway_checkpoints WHERE trail = '' AND seq = 5000"),
        What.CHECKPOINT,
        5_000,
    ),
    "a checkpoint is flipped": (
        sql("UPDATE guideway_checkpoints SET seal = substr(seal, 1, 300) || 'AAAA' WHERE trail = '' AND seq = 5000"),
        What.SEAL,
        5_000,
    ),
    "a checkpoint is another trail's": (
        sql(
            f"UPDATE guideway_checkpoints SET seal = (SELECT seal FROM guideway_checkpoints WHERE trail = '{TENANT}') "
            "WHERE trail = '' AND seq = 5000"
        ),
        What.SEAL,
        300,
    ),
    "the head names another hash": (
        sql(f"UPDATE guideway_trails SET hash = '{'0' * 64}' WHERE trail = ''"),
        What.HEAD,
        RECORDS,
    ),
    "the seal of the end is taken away": (
        sql(
            "UPDATE guideway_trails SET seal = NULL WHERE trail = ''",
            f"DELETE FROM guideway_checkpoints WHERE seq = {RECORDS}",
        ),
        What.CHECKPOINT,
        RECORDS,
    ),
}


def test_untouched_each_trail_is_whole_and_proven(kept: Kept) -> None:
    for folder in (kept.folder, kept.pruned):
        verdicts = kept.verify(folder)
        assert verdicts.keys() == {OWN, TENANT}
        for verdict in verdicts.values():
            assert verdict.finding is None, verdict
            assert verdict.proven, verdict
    assert kept.verify(kept.folder)[OWN].records == RECORDS
    assert verdicts[OWN].first == 3_001


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found_where_it_is(name: str, kept: Kept, copy: Path) -> None:
    tamper, what, seq = TAMPERINGS[name]
    tampered(copy, tamper)
    verdicts = kept.verify(copy)
    finding = verdicts[OWN].finding
    assert finding is not None, verdicts
    assert (finding.what, finding.seq) == (what, seq), finding
    assert str(seq) in finding.words or seq != finding.seq
    assert not verdicts[OWN].proven
    assert verdicts[TENANT].whole, verdicts[TENANT]


def test_without_what_is_kept_outside_the_store_proves_what_its_own_seals_prove(kept: Kept, tmp_path: Path) -> None:
    """Of all from a record on, signed by another key, and of seals that are taken away, the store itself tells."""
    for number, (tamper, what) in enumerate(
        (
            (rewrite(MIDDLE, OTHERS), What.SEAL),
            (rewrite(MIDDLE), What.REWRITTEN),
            (sql("DELETE FROM guideway_checkpoints", "UPDATE guideway_trails SET seal = NULL"), What.UNSIGNED),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        tampered(_copied(kept.folder, folder), tamper)
        finding = kept.verify(folder, outside=False)[OWN].finding
        assert finding is not None
        assert finding.what is what, finding


def test_an_old_copy_is_told_by_what_is_kept_outside(kept: Kept, copy: Path) -> None:
    """By itself it is whole: nothing in it is not as it was written once."""
    tampered(copy, end_at(9_000))
    assert kept.verify(copy, outside=False)[OWN].whole
    finding = kept.verify(copy)[OWN].finding
    assert finding is not None
    assert (finding.what, finding.seq) == (What.CUT_OFF, 9_001)
    assert "old copy" in finding.words


def test_an_old_copy_that_the_server_has_gone_on_with_is_told(kept: Kept, copy: Path) -> None:
    """The server itself signed what came after: each record fits, and only what is kept outside names another."""
    tampered(copy, end_at(9_000))

    async def go_on() -> None:
        keeping = Keeping(kept.signer, Believed([kept.signer.public]), checkpoint_records=EVERY)
        store, leases = open_store(folder=copy, keeping=keeping)
        store.trail.put(list(restarts(500)))
        await leases.close()
        await store.close()

    anyio.run(go_on)
    assert kept.verify(copy, outside=False)[OWN].whole
    finding = kept.verify(copy)[OWN].finding
    assert finding is not None
    assert (finding.what, finding.seq) == (What.REWRITTEN, 9_001), finding


def test_a_record_that_was_moved_to_another_trail_is_missed_in_one_and_found_in_the_other(
    kept: Kept, copy: Path
) -> None:
    tampered(copy, record(f"trail = '{TENANT}', seq = 301"))
    verdicts = kept.verify(copy)
    missing, moved = verdicts[OWN].finding, verdicts[TENANT].finding
    assert missing is not None
    assert moved is not None
    assert (missing.what, missing.seq) == (What.DROPPED, MIDDLE)
    assert (moved.what, moved.seq) == (What.MOVED, 301)


def test_a_whole_trail_that_is_deleted_is_missed(kept: Kept, copy: Path) -> None:
    tables = ("guideway_trail", "guideway_trails", "guideway_checkpoints")
    tampered(copy, sql(*(f"DELETE FROM {table} WHERE trail = '{TENANT}'" for table in tables)))
    verdicts = kept.verify(copy)
    finding = verdicts[TENANT].finding
    assert finding is not None
    assert finding.what is What.DELETED
    assert verdicts[OWN].whole


@pytest.mark.parametrize(
    ("tamper", "what", "seq"),
    [
        (sql("UPDATE guideway_trail SET body = replace(body, '\"removed_to\":3000', '\"removed_to\":4000') "
             f"WHERE trail = '' AND seq = {RECORDS + 1}"), What.CHANGED, RECORDS + 1),
        (sql("DELETE FROM guideway_trail WHERE trail = '' AND seq <= 4000"), What.DROPPED, 3_001),
        (sql("DELETE FROM guideway_trail WHERE trail = '' AND seq = 3001"), What.DROPPED, 3_001),
        (sql("DELETE FROM guideway_checkpoints WHERE trail = '' AND seq = 3000"), What.DROPPED, 1),
        (change(3_001, with_hash=True), What.CHANGED, 3_001),
    ],
    ids=["mark edited", "more removed", "one more removed", "proof removed", "first changed"],
)  # fmt: skip
def test_a_beginning_that_was_removed_by_age_covers_nothing_else(
    tamper: Tamper, what: What, seq: int, kept: Kept, tmp_path: Path
) -> None:
    tampered(_copied(kept.pruned, tmp_path), tamper)
    finding = kept.verify(tmp_path, outside=False)[OWN].finding
    assert finding is not None
    assert (finding.what, finding.seq) == (what, seq), finding

"""What a store meets in the end: numbers beyond 31 and 53 bits, full and read-only disks, damage, clocks, a server that
goes away: the trail says what is wrong, loses nothing silently, and goes on when it is mended.
"""

import contextlib
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.notices import Event
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import Store, open_store, stored_trail
from guideway.interpreter.store.folder import FILE
from tests.store.conftest import Place
from tests.store.postgresql import Server
from tests.store.questions import NOW, allowance, question
from tests.store.trails import entry, keeping, restart, whole
from tests.system import machine

ROOT = Path(__file__).parents[2]


async def add(store: Store, *numbers: int) -> None:
    store.trail.put([entry(number) for number in numbers])
    await store.trail.written()


@pytest.mark.anyio
@pytest.mark.parametrize("bits", [31, 53])
async def test_a_trail_goes_on_beyond_any_count(place: Place, bits: int) -> None:
    """As if all before had been written, and removed: the head is set there, with a seal of its own."""
    kept = keeping(checkpoint_records=3)
    store = place.open(keeping=kept)[0]
    assert kept.sealer is not None
    last = 2**bits - 2
    seal = kept.sealer.seal("", last, "f" * 64, NOW)
    begun = {"trail": "", "seq": last, "hash": "f" * 64, "seal": seal, "at": NOW}

    def set_there(_: object, connection: sa.Connection) -> None:
        head = "INSERT INTO guideway_trails VALUES (:trail, :seq, :hash, :seal, :at, :seq, :at)"
        connection.execute(sa.text(head), begun)
        connection.execute(sa.text("INSERT INTO guideway_checkpoints VALUES (:trail, :seq, :seal)"), begun)

    await store.opened.change(set_there)
    await add(store, 1, 2, 3)
    await add(store, 4)
    found = await store.records("")
    assert [each.seq for each in found] == [last + 1, last + 2, last + 3, last + 4]
    assert [each.seq for each in await store.records("", after=last + 2, most=1)] == [last + 3]
    assert f'"seq":{last + 3},' in found[2].body
    assert (await store.trails())[0].seq == last + 4
    assert len(await store.checkpoints("")) == 2
    await store.close()


@pytest.mark.anyio
async def test_numbers_of_restarts_and_notices_go_beyond_31_bits(place: Place) -> None:
    store = place.open({"ops": set(Event)})[0]

    def set_there(_: object, connection: sa.Connection) -> None:
        for table in ("guideway_mutations", "guideway_notices"):
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SELECT setval('{table}_id_seq', {2**31 - 1})"))
        if connection.dialect.name == "sqlite":
            connection.execute(sa.text("INSERT INTO sqlite_sequence VALUES ('guideway_notices', 2147483647)"))

    await store.opened.change(set_there)
    store.trail.put([restart(Kind.RESTART_BEGUN), restart(Kind.RESTART_BEGUN, "run-2")])
    assert len(await store.history(None, ["database"])) == 2
    await store.ask(question(), NOW, lifetime=300, most_open=9)
    (notice,) = await store.outbox.claim(NOW, 9, "ops")
    assert int(notice.id) == 2**31
    await store.outbox.done(notice.id)
    await store.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    machine.need("a disk of its own", {"mount": "mount", "umount": "mount"})
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.anyio
async def test_a_trail_on_a_full_disk_waits_and_goes_on_when_there_is_room(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    store, _ = open_store(folder=small / "store", keeping=keeping())
    await add(store, 1)
    ballast = small / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    for number in (2, 3):
        store.trail.put([entry(number, words="x" * 20_000)])
        with pytest.raises(StoreUnavailable, match="cannot be written: the disk is full"):
            await store.trail.written()
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await store.reserve("run", [allowance()], NOW)
    assert "the disk is full" in str(store.trail.failing)
    ballast.unlink()
    await add(store, 4)
    assert store.trail.failing is None
    assert [body["run"] for body in await whole(store)] == ["run-1", "run-2", "run-3", "run-4"]
    await store.close()


@pytest.mark.anyio
async def test_a_trail_on_a_disk_that_can_only_be_read_waits_and_goes_on_when_it_can_be_written(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    before, _ = open_store(folder=small / "store", keeping=keeping())
    await add(before, 1)
    await before.close()
    await anyio.run_process(["mount", "-o", "remount,ro", str(small)])
    store, _ = open_store(folder=small / "store", keeping=keeping())
    store.trail.put([entry(2)])
    with pytest.raises(StoreUnavailable, match="can only be read"):
        await store.trail.written()
    await anyio.run_process(["mount", "-o", "remount,rw", str(small)])
    await add(store, 3)
    assert [body["run"] for body in await whole(store)] == ["run-1", "run-2", "run-3"]
    await store.close()


def kept_by_a_process_that_died(folder: Path) -> Path:
    """Make a trail of which much is in the log of SQLite (WAL) still; return its database."""
    program = f"""
        import os
        from pathlib import Path
        import anyio
        from guideway.interpreter.store import open_store
        from tests.store.trails import entry

        async def main():
            store, _ = open_store(folder=Path({str(folder)!r}))
            for number in range(30):
                store.trail.put([entry(number, words="x" * 500)])
                await store.trail.written()
            os._exit(0)

        anyio.run(main)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, check=True)
    return folder / FILE


@pytest.mark.anyio
async def test_what_is_left_of_a_log_that_lost_its_end_is_a_whole_trail(tmp_path: Path) -> None:
    """The log has lost its end, within what was written last: all before is kept, and the trail goes on from there."""
    database = kept_by_a_process_that_died(tmp_path / "store")
    log = database.with_name(f"{FILE}-wal")
    os.truncate(log, log.stat().st_size - 5_000)
    store, _ = open_store(folder=database.parent)
    assert len(await whole(store)) == 29
    await add(store, 99)
    assert (await whole(store))[-1]["run"] == "run-99"
    await store.close()


@pytest.mark.anyio
async def test_a_database_that_is_damaged_is_told_to_be_and_written_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes in the middle are not what they were: every page behind the first ones, as a disk that dies leaves it."""
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    database = kept_by_a_process_that_died(tmp_path / "store")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole_file = database.read_bytes()
    database.write_bytes(whole_file[:8192] + b"\xa5" * (len(whole_file) - 8192))
    store, _ = open_store(folder=database.parent)
    store.trail.put([entry(1)])
    with pytest.raises(StoreUnavailable, match="is damaged: restore it, or move it away"):
        await store.trail.written()
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await store.records("")
    await store.close()


@pytest.mark.anyio
async def test_clocks_that_jump_change_neither_the_order_nor_the_chain(place: Place) -> None:
    year = 366 * 86_400
    store = place.open(keeping=keeping(checkpoint_records=2))[0]
    await add(store, 1, 2 + year, 3, 4 - year)
    await store.reserve("run", [allowance()], NOW + year)
    await store.ask(question(), NOW, lifetime=300, most_open=9)
    assert [(body["kind"], body["time"][:4]) for body in await whole(store)] == [
        ("run.begun", "2030"),
        ("run.begun", "2031"),
        ("run.begun", "2030"),
        ("run.begun", "2029"),
        ("ticket.asked", "2030"),
    ]
    assert [kept.seq for kept in await store.records("", since=NOW + year)] == [2]
    await store.close()


@pytest.mark.anyio
async def test_a_server_that_goes_away_in_the_midst_costs_no_record(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "RETRY", 0.05)
    store, _ = open_store(url=server.database(), keeping=keeping())
    refused: list[str] = []
    kept = anyio.Event()

    async def write(first: int) -> None:
        for number in range(first, first + 40):
            store.trail.put([entry(number)])
            try:
                await store.trail.written()
                kept.set()
            except StoreUnavailable as error:
                refused.append(str(error))
                await anyio.sleep(0.05)

    async with anyio.create_task_group() as tasks:
        for first in (100, 200, 300):
            tasks.start_soon(write, first)
        await kept.wait()
        await anyio.to_thread.run_sync(server.stop)
        try:
            with pytest.raises(StoreUnavailable):
                await store.reserve("run", [allowance()], NOW)
        finally:
            await anyio.to_thread.run_sync(server.start)
    await store.trail.written()
    assert refused
    assert store.trail.failing is None
    bodies = await whole(store)
    assert len(bodies) == 120
    for first in (100, 200, 300):
        mine = [body["run"] for body in bodies if body["run"].startswith(f"run-{first // 100}")]
        assert mine == [f"run-{number}" for number in range(first, first + 40)]
    await store.close()

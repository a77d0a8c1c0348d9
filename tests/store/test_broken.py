"""A store that cannot be used says so, in words for operators, and lets nothing happen."""

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from guideway.interpreter.approvals import Ticket
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.store.database import look_at_sqlite
from guideway.interpreter.store.folder import FILE
from tests.store.postgresql import Server
from tests.store.questions import BINDING, NOW, allowance, question
from tests.system import machine

ROOT = Path(__file__).parents[2]


async def _ask(store: Store) -> Ticket:
    return await store.ask(question(), NOW, lifetime=300, most_open=9)


def used(folder: Path) -> Path:
    """Make a store with a ticket in it; return its database."""

    async def main() -> None:
        store, leases = open_store(folder=folder)
        await _ask(store)
        await leases.close()
        await store.close()

    anyio.run(main)
    return folder / FILE


def why(**where: object) -> str:
    """Return why every kind of call to a store fails."""

    async def main() -> set[str]:
        store, _ = open_store(**where)  # type: ignore[arg-type]
        said = set()
        for call in (
            lambda: _ask(store),
            lambda: store.ticket("x", NOW),
            lambda: store.reserve("run", [allowance()], NOW),
            lambda: store.use("x", BINDING, "run", [], NOW),
            lambda: store.sessions.get("x", NOW),
            lambda: store.outbox.claim(NOW, 1, "ops"),
            lambda: store.check(NOW),
        ):
            with pytest.raises(StoreUnavailable) as unavailable:
                await call()
            said.add(str(unavailable.value))
        await store.close()
        return said

    said = anyio.run(main)
    assert len(said) == 1, said
    return said.pop()


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = used(tmp_path / "deep" / "store")
    finally:
        os.umask(before)
    for folder in (tmp_path / "deep", tmp_path / "deep" / "store"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in database.parent.iterdir()} == {0o600}


def no_database(database: Path) -> None:
    database.write_bytes(b"this is no database" * 1_000)


def torn(database: Path) -> None:
    whole = database.read_bytes()
    database.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


def newer(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE guideway_store SET schema_version = 99")
    connection.close()


def of_no_version(version: object) -> Callable[[Path], None]:
    def harm(database: Path) -> None:
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE guideway_store SET schema_version = ?", (version,))
        connection.close()

    return harm


def open_to_others(database: Path) -> None:
    database.chmod(0o644)


def folder_open_to_others(database: Path) -> None:
    database.parent.chmod(0o770)


def link(database: Path) -> None:
    database.rename(database.with_name("elsewhere"))
    database.symlink_to(database.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (no_database, "is no database: name another folder, or restore it"),
        (torn, "is damaged: restore it, or move it away and every open ticket with it"),
        (newer, "has schema version 99, and this release knows 2: run the newer release, or name another store"),
        *((of_no_version(odd), "does not say which schema version it has: restore it") for odd in ("x", 1.5, b"2", 0)),
        (open_to_others, "can be used by others: chmod 600 "),
        (folder_open_to_others, "others can write in"),
        (link, "is no file: name another folder for the store"),
    ],
)
def test_a_store_that_is_not_as_it_was_left_is_not_used(
    tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    database = used(tmp_path / "store")
    harm(database)
    assert said in why(folder=tmp_path / "store")


def test_a_folder_that_others_could_exchange_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert f"others can write in `{shared}`" in why(folder=shared / "store")
    (tmp_path / "file").write_text("")
    assert "not a directory" in why(folder=tmp_path / "file" / "store")


def test_a_row_that_cannot_be_read_is_no_ticket(tmp_path: Path) -> None:
    with sqlite3.connect(used(tmp_path)) as connection:
        connection.execute("UPDATE guideway_tickets SET causes = '{'")
    connection.close()

    async def main() -> None:
        store, _ = open_store(folder=tmp_path)
        with pytest.raises(StoreUnavailable, match="holds a row that cannot be read"):
            await store.tickets(None, NOW)
        await store.close()

    anyio.run(main)


def test_a_store_that_is_removed_under_a_process_is_not_used_by_it(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = open_store(folder=tmp_path)
        await _ask(store)
        (tmp_path / FILE).unlink()
        with pytest.raises(StoreUnavailable, match="was exchanged or removed under this process: restart it"):
            await _ask(store)
        await store.close()

    anyio.run(main)


def test_a_store_that_is_mended_is_used(tmp_path: Path) -> None:
    others_may, only_i_may = partial(tmp_path.chmod, 0o777), partial(tmp_path.chmod, 0o700)

    async def main() -> None:
        others_may()
        store, _ = open_store(folder=tmp_path)
        with pytest.raises(StoreUnavailable):
            await _ask(store)
        only_i_may()
        await _ask(store)
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await _ask(store)

    anyio.run(main)


def test_a_store_that_can_only_be_read_or_is_held_or_full_says_so(tmp_path: Path) -> None:
    """On a small disk of its own, which is full soon, and can be mounted to be read alone: root may write anywhere."""
    machine.need("a disk of its own", {"mount": "mount", "umount": "mount"})
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,mode=0700", "tmpfs", small], check=True)
    try:
        database = used(small / "store")
        assert "the disk is full" in why_writing(small / "store")
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        assert "can only be read" in why_writing(small / "store")
        subprocess.run(["mount", "-o", "remount,rw", small], check=True)
        blocker = sqlite3.connect(database, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        assert "was held by another process for" in why_writing(small / "store", busy_seconds=0.1)
        blocker.close()
    finally:
        subprocess.run(["umount", small], check=True)


def why_writing(folder: Path, *, busy_seconds: float = 5) -> str:
    """Return why a process that has just started cannot ask for many tickets."""
    program = f"""
        import anyio
        from pathlib import Path
        from guideway.interpreter.records import StoreUnavailable
        from guideway.interpreter.store import database, open_store
        from tests.store.questions import NOW, question

        async def main():
            database.BUSY_SECONDS = {busy_seconds}
            store, _ = open_store(folder=Path({str(folder)!r}))
            try:
                for number in range(2_000):
                    await store.ask(question(digest=str(number)), NOW, lifetime=300, most_open=9_999)
            except StoreUnavailable as error:
                print(error)
            await store.close()

        anyio.run(main)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://root:hunter2@db.example/x", "a store at `mysql:` is not supported"),
        ("no url", "the store's URL is none"),
        ("postgresql://root:hunter2@127.0.0.1:1/x", "***@127.0.0.1:1/x cannot be used: connection failed"),
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str, said: str) -> None:
    message = why(url=url)
    assert said in message
    assert "hunter2" not in message


def test_a_database_that_went_away_is_told_and_used_again_when_it_is_back(server: Server) -> None:
    url = server.database()

    async def main() -> None:
        store, leases = open_store(url=url)
        made = await _ask(store)
        server.stop()
        try:
            with pytest.raises(StoreUnavailable):
                await _ask(store)
            with pytest.raises(StoreUnavailable):
                await store.ticket(made.id, NOW)
        finally:
            server.start()
        assert (await _ask(store)).id == made.id
        await leases.close()
        await store.close()

    anyio.run(main)


_ANOTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("UPDATE guideway_store SET seen = seen")
connection.commit()
connection.close()
"""


def test_a_store_that_is_opened_twice_in_a_process_keeps_its_locks(tmp_path: Path) -> None:
    """Without them another process takes itself for the last one, and removes the log that this one writes into."""
    database = used(tmp_path / "store")

    async def main() -> None:
        first = open_store(folder=tmp_path / "store")[0]
        await first.check(NOW)
        second = open_store(folder=tmp_path / "store")[0]
        await second.check(NOW)
        looked = look_at_sqlite(tmp_path / "store")
        assert looked is not None
        looked.close()
        await anyio.run_process([sys.executable, "-c", _ANOTHER, str(database)])
        assert database.with_name(f"{database.name}-wal").exists()
        await second.close()
        await first.close()

    anyio.run(main)
    assert not database.with_name(f"{database.name}-wal").exists()

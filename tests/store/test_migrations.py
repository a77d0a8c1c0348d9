"""Stores of older releases: brought to what this one knows, whole or not at all."""

import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.migration import MigrationContext

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import migrations, open_store
from guideway.interpreter.store.database import Database, look_at_sqlite, open_postgresql, open_sqlite
from guideway.interpreter.store.folder import FILE
from guideway.interpreter.store.tables import METADATA, SCHEMA_VERSION
from tests.store import older
from tests.store.postgresql import Server
from tests.store.questions import NOW, question

ROOT = Path(__file__).parents[2]
Open = Callable[[], Database]


@pytest.fixture(params=["sqlite", "postgresql"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """What opens a store of version 1 with rows in it, as this release does it."""
    if request.param == "sqlite":
        folder = older.in_folder(tmp_path / "store").parent
        return lambda: open_sqlite(folder)
    url = older.in_database(request.getfixturevalue("server"))
    return lambda: open_postgresql(url, upgrade=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A store that has just been made."""
    where = tmp_path / "new" if request.param == "sqlite" else request.getfixturevalue("server").database()
    made = open_sqlite(where) if isinstance(where, Path) else open_postgresql(where)
    yield made
    made.close()


def differences(database: Database) -> list[Any]:
    """Return how a store's tables differ from those that this release knows."""
    with database.read() as connection:
        options = {"version_table": migrations.VERSION_TABLE, "compare_type": True}
        return list(autogenerate.compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def rows(database: Database, table: str, order: str) -> list[Any]:
    with database.read() as connection:
        query = sa.select(sa.text("*")).select_from(sa.text(table)).order_by(sa.text(order))
        return list(connection.execute(query).mappings())


def test_an_older_store_has_its_rows_and_the_tables_of_this_release(upgraded: Open) -> None:
    database = upgraded()
    assert database.schema_version() == SCHEMA_VERSION
    assert differences(database) == []
    history = rows(database, "guideway_mutations", "run_id, number")
    told = [(row["run_id"], row["number"], row["service"], row["key"], row["until"], row["outcome"]) for row in history]
    assert told == [
        ("run-1", 1, "cache", "", None, "ok"),
        ("run-2", 1, "cache", "", None, "ok"),
        ("run-2", 2, "database", "", None, "timeout"),
        ("run-3", 1, "database", "", None, "unknown"),
    ]
    assert [row["state"] for row in rows(database, "guideway_tickets", "id")] == ["approved", "used"]
    for table, count in (("uses", 1), ("notices", 1), ("sessions", 1), ("leases", 1), ("trail", 0)):
        assert len(rows(database, f"guideway_{table}", "1")) == count, table
    database.close()
    again = upgraded()  # now it is current
    assert again.schema_version() == SCHEMA_VERSION
    again.close()


def test_what_is_made_at_once_and_what_migrations_make_are_the_same(empty: Database) -> None:
    assert differences(empty) == []
    with empty.write() as connection:
        for table in reversed(METADATA.sorted_tables):
            table.drop(connection)
        migrations.upgrade(connection, None)
    assert differences(empty) == []
    assert empty.schema_version() == SCHEMA_VERSION


def test_an_older_store_in_a_folder_is_used_at_once_and_copied_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = older.in_folder(tmp_path / "store").parent

    async def main() -> None:
        store, _ = open_store(folder=folder)
        (ticket,) = await store.tickets(None, NOW + 200, states=[TicketState.APPROVED])
        assert (ticket.id, ticket.question.program) == ("a" * 24, 'RESTART "database"')
        assert [each.run_id for each in await store.history(None, ["database"])] == ["run-3", "run-2"]
        await store.ask(question(digest="new"), NOW + 200, lifetime=300, most_open=9)
        assert [each.kind for each in await store.records("")] == ["ticket.asked"]
        await store.close()

    anyio.run(main)
    copy = folder / f"{FILE}.v1.bak"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT schema_version FROM guideway_store").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM guideway_mutations").fetchall() == [(4,)]
    assert f"it was copied to `{copy}`, and is changed now" in caplog.text
    assert {each.name for each in folder.iterdir()} <= {FILE, copy.name, "opening.lock", f"{FILE}-wal", f"{FILE}-shm"}


def test_an_older_database_of_replicas_is_changed_only_by_command(server: Server) -> None:
    url = older.in_database(server)

    async def main() -> None:
        store, _ = open_store(url=url)
        with pytest.raises(StoreUnavailable) as refused:
            await store.tickets(None, NOW)
        assert "has schema version 1, and this release needs 2" in str(refused.value)
        assert "run `guideway store upgrade`" in str(refused.value)
        open_postgresql(url, upgrade=True).close()
        assert len(await store.tickets(None, NOW)) == 1  # the same process goes on with it
        await store.close()

    anyio.run(main)


def test_a_newer_store_is_refused_and_left_alone(upgraded: Open) -> None:
    database = upgraded()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE guideway_store SET schema_version = 3"))
    database.close()
    with pytest.raises(StoreUnavailable, match="has schema version 3, and this release knows 2: run the newer release"):
        upgraded()


def test_of_two_that_change_a_store_at_once_one_does(upgraded: Open) -> None:
    opened: list[Database | BaseException] = []

    def go() -> None:
        try:
            opened.append(upgraded())
        except BaseException as error:  # noqa: BLE001  # told below
            opened.append(error)

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(each, Database) for each in opened), opened
    for each in opened:
        assert isinstance(each, Database)
        assert differences(each) == []
        assert len(rows(each, "guideway_mutations", "1")) == 4
        each.close()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import sqlalchemy as sa
    from guideway.interpreter.store import database

    seen = 0

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def count(connection, cursor, statement, *rest):
        global seen
        if "guideway_mutations" in statement or seen:
            seen += 1
        if seen > int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    where = sys.argv[1]
    if "://" in where:
        database.open_postgresql(where, upgrade=True)
    else:
        database.open_sqlite(Path(where))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("statements", [3, 18])
def test_a_change_that_is_killed_midway_leaves_the_old_store_whole(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, statements: int
) -> None:
    if kind == "sqlite":
        where = str(older.in_folder(tmp_path / "store").parent)
    else:
        where = older.in_database(request.getfixturevalue("server"))
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), where, str(statements)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -9, ended.stderr
    if kind == "sqlite":
        found = look_at_sqlite(Path(where))
        assert found is not None
        assert found.schema_version() == 1
        assert len(rows(found, "guideway_mutations", "1")) == 4
        assert "number" not in rows(found, "guideway_mutations", "1")[0]
        found.close()
        database = open_sqlite(Path(where))
    else:
        with psycopg.connect(where) as connection:
            assert connection.execute("SELECT schema_version FROM guideway_store").fetchall() == [(1,)]
        database = open_postgresql(where, upgrade=True)
    assert differences(database) == []
    assert len(rows(database, "guideway_mutations", "1")) == 4
    database.close()


def test_a_store_that_is_current_loads_no_alembic(tmp_path: Path) -> None:
    program = f"""
        import sys
        from pathlib import Path
        from guideway.interpreter.store import database
        for _ in range(2):
            database.open_sqlite(Path({str(tmp_path / "store")!r})).close()
        assert "sqlalchemy" in sys.modules
        assert "alembic" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, check=True)

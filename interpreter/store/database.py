"""The database under the store: how it is opened, what a transaction there is, and how its errors are told.

A transaction that writes has the store to itself, in SQLite by ``BEGIN IMMEDIATE`` and in PostgreSQL by one advisory
lock. They take milliseconds and happen where people decide or services restart, so that nothing is gained by less; and
with one lock nothing can deadlock, and both databases decide alike.
"""

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.extras import install
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.folder import FILE, private_file, private_folder
from guideway.interpreter.store.tables import METADATA, SCHEMA_VERSION, STORE

_log = logging.getLogger(__name__)

BUSY_SECONDS: Final = 10
"""How long a transaction waits for others, and how long one may keep others waiting."""

_LOCK: Final = 0x6775_6964_6577_6179  # any number that nobody else takes: "guideway"
_WRITES: Final = "guideway_writes"

Begin = Callable[[sa.Connection], None]


class Database:
    """A database. ``place`` names it to operators. Before it is used, ``require_schema`` has to be called."""

    def __init__(self, engine: sa.Engine, place: str) -> None:
        self._engine = engine
        self._writer = engine.execution_options(**{_WRITES: True})
        self._errors: type[Exception] = engine.dialect.loaded_dbapi.Error
        self.one_writer = engine.dialect.name == "sqlite"  # a second of this process would only wait
        self.place = place
        self._turn = threading.Lock()  # of the one that writes, in SQLite
        self._kept: sa.Connection | None = None

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Give a transaction that reads. Raises ``StoreUnavailable``."""
        with told(self.place, self._errors), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Give a transaction that has the store to itself. Raises ``StoreUnavailable``."""
        with told(self.place, self._errors), self._in_turn() if self.one_writer else self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _in_turn(self) -> Iterator[sa.Connection]:
        """Give a transaction on the one connection that is kept for those that write: SQLite lets one at a time.

        To take one from the pool each time is a fifth of what a small transaction takes; and threads that wait for each
        other here are woken at once, where SQLite would look again and again.
        """
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise StoreUnavailable(f"{self.place} was held by another thread for {BUSY_SECONDS} s")
        try:
            if self._kept is None:
                self._kept = self._writer.connect()
            with self._kept.begin():
                yield self._kept
        except BaseException:
            self._let_go()  # whatever it was, the next one begins anew
            raise
        finally:
            self._turn.release()

    def _let_go(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def close(self) -> None:
        """Let go of the connections."""
        is_ours = self._turn.acquire(timeout=BUSY_SECONDS)
        try:
            self._let_go()
        finally:
            if is_ours:
                self._turn.release()
        self._engine.dispose()

    def schema_version(self) -> int | None:
        """Return the version of its tables, None where there are none."""
        with self.read() as connection:
            return _version(connection, self.place)

    def require_schema(self, before_upgrade: Callable[[int], None] | None) -> None:
        """See that it has the tables that this release knows: make them in an empty one, and change an older one's.

        ``before_upgrade`` is called before that, with the older version; without it an older store is refused. Raises
        ``StoreUnavailable``.
        """
        found = self.schema_version()
        if found == SCHEMA_VERSION:
            return
        if found is not None and found < SCHEMA_VERSION:
            if before_upgrade is None:
                raise StoreUnavailable(
                    f"{self.place} has schema version {found}, and this release needs {SCHEMA_VERSION}: stop what runs "
                    "of the older release, make a backup, and run `guideway store upgrade`"
                )
            before_upgrade(found)
        with self.write() as connection:
            found = _version(connection, self.place)  # another process may have come first
            if found is None:
                METADATA.create_all(connection)
                connection.execute(STORE.insert().values(id=1, schema_version=SCHEMA_VERSION, seen=0.0))
            elif found < SCHEMA_VERSION:
                from guideway.interpreter.store import migrations  # noqa: PLC0415  # loads Alembic

                migrations.upgrade(connection, found)
            elif found > SCHEMA_VERSION:
                raise StoreUnavailable(
                    f"{self.place} has schema version {found}, and this release knows {SCHEMA_VERSION}: "
                    "run the newer release, or name another store"
                )


def _version(connection: sa.Connection, place: str) -> int | None:
    if not sa.inspect(connection).has_table(STORE.name):
        return None
    found: object = connection.scalar(sa.select(STORE.c.schema_version))
    if found is not None and (type(found) is not int or found < 1):  # SQLite keeps a value of any type
        raise StoreUnavailable(f"{place} does not say which schema version it has: restore it")
    return found


@contextmanager
def _closed_unless_used(database: Database) -> Iterator[Database]:
    try:
        yield database
    except BaseException:
        database.close()
        raise


def open_sqlite(folder: Path) -> Database:
    """Open the database in a folder, and make both where they are missing. Raises ``StoreUnavailable``.

    One of an older release is copied beside itself, and then brought to what this one knows.
    """
    path = private_folder(folder) / FILE
    # Of two that make a database at once, SQLite tells one that it is locked, whatever the time it would wait.
    with told(f"the store `{path}`"), _alone(path.with_name("opening.lock")):
        with _closed_unless_used(_sqlite(private_file(path))) as database:
            database.require_schema(partial(_copy, path, database.place))
        return database


def look_at_sqlite(folder: Path) -> Database | None:
    """Return the database in a folder as it is, also where its tables are not known; None where there is none."""
    path = folder / FILE
    return _sqlite(private_file(private_folder(folder) / FILE)) if path.exists() else None


def _sqlite(path: Path) -> Database:
    url = sa.URL.create("sqlite", database=str(path))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS}, hide_parameters=True)
    place = f"the store `{path}`"
    opened = _identity(path)

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, and by nobody else
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    def begin(connection: sa.Connection) -> None:
        if _identity(path) != opened:  # what is written to the old one nobody would find
            raise StoreUnavailable(f"{place} was exchanged or removed under this process: restart it")
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", begin)
    return Database(engine, place)


def _copy(path: Path, place: str, version: int) -> None:
    """Copy a database beside itself, whole and durably, for its owner alone."""
    copy = path.with_name(f"{path.name}.v{version}.bak")
    unfinished = private_file(path.with_name(f"{copy.name}.new"))
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(copy)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _log.warning("%s has schema version %d: it was copied to `%s`, and is changed now", place, version, copy)


def open_postgresql(url: str, *, upgrade: bool = False) -> Database:
    """Open a PostgreSQL database. One of an older release is changed only with ``upgrade``.

    Raises ``StoreUnavailable``.
    """
    with _closed_unless_used(look_at_postgresql(url)) as database:
        database.require_schema((lambda _: None) if upgrade else None)
    return database


def look_at_postgresql(url: str) -> Database:
    """Return a PostgreSQL database as it is, also where its tables are not known. Raises ``StoreUnavailable``."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise StoreUnavailable("the store's URL is none: postgresql://USER:PASSWORD@HOST/DATABASE") from None
    if parsed.drivername not in ("postgresql", "postgres"):
        raise StoreUnavailable(f"a store at `{parsed.drivername}:` is not supported: use postgresql://…, or a folder")
    place = f"the store {parsed.render_as_string(hide_password=True)}"
    try:
        engine = sa.create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            connect_args={"connect_timeout": BUSY_SECONDS, "tcp_user_timeout": BUSY_SECONDS * 1000},
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except ImportError:
        raise StoreUnavailable(f"{place} needs the package psycopg: {install('postgres')}") from None
    wait = BUSY_SECONDS * 1000
    bounds = (
        f"SET LOCAL statement_timeout = {wait}; SET LOCAL lock_timeout = {wait};"
        f"SET LOCAL idle_in_transaction_session_timeout = {wait}; SET LOCAL synchronous_commit = on"
    )

    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(bounds)
        if connection.get_execution_options().get(_WRITES, False):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    sa.event.listen(engine, "begin", begin)
    return Database(engine, place)


@contextmanager
def told(place: str, errors: type[Exception] = sa.exc.DBAPIError) -> Iterator[None]:
    """Raise ``StoreUnavailable``, in words for operators, for whatever a database can raise.

    ``errors`` are those of its driver, for what runs on that directly.
    """
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error, errors) as error:
        said = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        raise StoreUnavailable(_words(place, " ".join(str(said).split()))) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreUnavailable(f"{place} cannot be used: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise StoreUnavailable(f"{place} cannot be used: {error.strerror or type(error).__name__}") from error
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:  # SQLite keeps a value of any type
        raise StoreUnavailable(f"{place} holds a row that cannot be read, or was asked to: {error!r}") from error


def _words(place: str, message: str) -> str:
    for mark, meaning in (
        ("file is not a database", "is no database: name another folder, or restore it"),
        ("malformed", "is damaged: restore it, or move it away and every open ticket with it"),
        ("readonly", "can only be read: look at its owner, its mode and how it is mounted"),
        ("disk is full", "cannot be written: the disk is full"),
        ("database is locked", f"was held by another process for {BUSY_SECONDS} s"),
        ("lock timeout", f"was held by another process for {BUSY_SECONDS} s"),
    ):
        if mark in message:
            return f"{place} {meaning} ({message})"
    return f"{place} cannot be used: {message}"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # at each transaction: half the time
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with private_file(path).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

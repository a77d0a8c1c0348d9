"""Stores of older releases, made by the SQL that those made them with."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from guideway.interpreter.store.folder import FILE
from tests.store.postgresql import Server

HERE = Path(__file__).parent


def _sql(name: str) -> str:
    return (HERE / f"version_1_{name}.sql").read_text()


def in_folder(folder: Path) -> Path:
    """Make a store of schema version 1 with rows in it; return its database."""
    folder.mkdir(mode=0o700)
    path = folder / FILE
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_sql("sqlite") + _sql("rows"))
    return path


def in_database(server: Server) -> str:
    """Make a store of schema version 1 with rows in it; return its URL."""
    url = server.database()
    with psycopg.connect(url) as connection:
        connection.execute((_sql("postgresql") + _sql("rows")).encode())
    return url

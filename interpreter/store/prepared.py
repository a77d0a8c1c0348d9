"""Statements that are compiled once for a driver and run on it directly: for what each call waits for.

SQLAlchemy takes several times as long to look a statement up and to wrap its result as SQLite takes to run it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa


class Prepared:
    """A statement with named parameters. ``columns`` are those that an insert or an update gives a value each."""

    def __init__(self, statement: Any, *columns: str) -> None:
        self._statement: Final = statement
        self._columns: Final = list(columns) or None
        self._by_dialect: Final[dict[str, tuple[str, list[str] | None]]] = {}

    def run(self, connection: sa.Connection, **values: Any) -> Any:
        """Run it in a connection's transaction; return the driver's cursor. Raises the driver's errors."""
        sql, order = self._compiled(connection.dialect)
        cursor = connection.connection.cursor()
        cursor.execute(sql, values if order is None else [values[name] for name in order])
        return cursor

    def run_many(self, connection: sa.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run it for each row."""
        sql, order = self._compiled(connection.dialect)
        cursor = connection.connection.cursor()
        cursor.executemany(sql, list(rows) if order is None else [[row[name] for name in order] for row in rows])

    def _compiled(self, dialect: sa.Dialect) -> tuple[str, list[str] | None]:
        found = self._by_dialect.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect, column_keys=self._columns)
            order = compiled.positiontup
            found = self._by_dialect[dialect.name] = str(compiled), None if order is None else list(order)
        return found

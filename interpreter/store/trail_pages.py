"""What the store has of trails, for those who verify and those who look.

SQLite keeps any value in any column, and a text that is none. Whoever can write the store could let a reader stumble
over that, and see nothing of what is behind it. So texts are read as bytes there, and what is odd is told
(``oddities``).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.audit.chain import read_body
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Head, Kept, Oddity
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS

_HEAD: Final = ("trail", "seq", "hash", "seal", "checkpoint_seq")
_RECORD: Final = ("trail", "seq", "body", "hash", "at", "kind", "run_id", "subject")
_NO_TIME: Final = -1.0
_LAST_TIME: Final = 253_402_300_799.0  # the last second of the year 9999

#: What SQLite may call the type of each column's values.
_TEXT, _PLACE, _TIME = ("text",), ("integer",), ("real", "integer")
_TYPES: Final[Mapping[sa.Table, Mapping[str, tuple[str, ...]]]] = {
    TRAIL: {
        "trail": _TEXT,
        "seq": _PLACE,
        "body": _TEXT,
        "hash": _TEXT,
        "at": _TIME,
        "kind": _TEXT,
        "run_id": ("text", "null"),
        "subject": ("text", "null"),
    },
    TRAILS: {
        "trail": _TEXT,
        "seq": _PLACE,
        "hash": _TEXT,
        "seal": ("text", "null"),
        "sealed_at": ("real", "integer", "null"),
        "checkpoint_seq": _PLACE,
        "checkpoint_at": _TIME,
    },
    CHECKPOINTS: {"trail": _TEXT, "seq": _PLACE, "seal": _TEXT},
}
_CALLED: Final = {TRAIL: "record", CHECKPOINTS: "checkpoint"}


def heads(connection: sa.Connection) -> list[Head]:
    """Return the head of every trail that has one, by name."""
    query = sa.select(*_as_it_is(connection, TRAILS, _HEAD)).order_by(TRAILS.c.trail)
    made = []
    for trail, seq, digest, seal, checkpoint in connection.execute(query):
        if type(seq) is int:
            kept = checkpoint if type(checkpoint) is int else 0
            made.append(Head(_text(trail), seq, _text(digest), None if seal is None else _text(seal), kept))
    return made


def names(connection: sa.Connection) -> list[str]:
    """Return the names of all trails of which anything is there."""
    return sorted({name for table in (TRAIL, TRAILS, CHECKPOINTS) for name in _names(connection, table)})


def _names(connection: sa.Connection, table: sa.Table) -> Iterator[str]:
    """Yield the names in one table, from each to the next: there may be a million records, and a few trails."""
    column = table.c.trail
    (name,) = _as_it_is(connection, table, ("trail",))
    query = sa.select(name, _type_of(connection, column)).order_by(column).limit(1)
    found = connection.execute(query).one_or_none()
    while found is not None:
        read, of_type = found
        yield _text(read)
        if of_type != "text":
            return  # those behind it are no texts either: they are oddities, with their names
        found = connection.execute(query.where(column > sa.cast(read, sa.Text))).one_or_none()


def records(
    connection: sa.Connection,
    trail: str,
    *,
    after: int,
    most: int,
    newest: bool,
    since: float | None,
    until: float | None,
) -> list[Kept]:
    """Return records of a trail in their order: the first after a place, or the newest; of a time, if one is given."""
    query = sa.select(*_as_it_is(connection, TRAIL, _RECORD)).where(TRAIL.c.trail == trail, TRAIL.c.seq > after)
    if _is_sqlite(connection):
        query = query.where(sa.func.typeof(TRAIL.c.seq) == "integer")
    if since is not None:
        query = query.where(TRAIL.c.at >= since)
    if until is not None:
        query = query.where(TRAIL.c.at < until)
    found = connection.execute(query.order_by(TRAIL.c.seq.desc() if newest else TRAIL.c.seq).limit(most))
    kept = [_record(row) for row in found]
    return kept[::-1] if newest else kept


def _record(row: Iterable[Any]) -> Kept:
    trail, seq, body, digest, at, kind, run_id, subject = row
    is_time = isinstance(at, float | int) and 0 <= at <= _LAST_TIME
    return Kept(
        _text(trail),
        seq,
        _text(body),
        _text(digest),
        float(at) if is_time else _NO_TIME,
        _text(kind),
        None if run_id is None else _text(run_id),
        None if subject is None else _text(subject),
    )


def oddities(connection: sa.Connection) -> list[Oddity]:
    """Return the first odd row of each trail and table."""
    if not _is_sqlite(connection):
        return []
    return [odd for table, types in _TYPES.items() for odd in _oddities(connection, table, types)]


def _oddities(connection: sa.Connection, table: sa.Table, types: Mapping[str, tuple[str, ...]]) -> Iterator[Oddity]:
    of_types = [sa.func.typeof(table.c[name]) for name in types]
    is_odd = sa.or_(*(found.not_in(allowed) for found, allowed in zip(of_types, types.values(), strict=True)))
    place = sa.func.min(sa.case((sa.func.typeof(table.c.seq) == "integer", table.c.seq)))
    # What stands beside an aggregate is of the row that has the minimum (https://sqlite.org/lang_select.html, bare
    # columns in an aggregate query).
    (trail,) = _as_it_is(connection, table, ("trail",))
    query = sa.select(trail, place, *of_types).where(is_odd).group_by(table.c.trail)
    for whose, seq, *found in connection.execute(query):
        values = zip(types.items(), found, strict=True)
        name, of_type = next((name, of_type) for (name, allowed), of_type in values if of_type not in allowed)
        has = f"has a value of the type `{of_type}` as its `{name}`, which no program of this kind has written"
        if table is TRAILS:
            yield Oddity(_text(whose), None, f"the head {has}")
        elif seq is None:
            yield Oddity(_text(whose), None, f"a {_CALLED[table]} {has}")
        else:
            yield Oddity(_text(whose), seq, f"{_CALLED[table]} {seq} {has}")


def status(connection: sa.Connection, run_id: str) -> str | None:
    """Return how a run ended, None where no record says so."""
    ends = (Kind.RUN_ENDED.value, Kind.RUN_REFUSED.value)
    body = connection.scalar(sa.select(TRAIL.c.body).where(TRAIL.c.run_id == run_id, TRAIL.c.kind.in_(ends)).limit(1))
    found = None if body is None else read_body(body).get("status")
    return found if isinstance(found, str) else None


def checkpoints(connection: sa.Connection, trail: str) -> list[str]:
    """Return the seals that are kept of a trail, in their order."""
    (seal,) = _as_it_is(connection, CHECKPOINTS, ("seal",))
    query = sa.select(seal).where(CHECKPOINTS.c.trail == trail).order_by(CHECKPOINTS.c.seq)
    return [_text(found) for found in connection.scalars(query)]


def _as_it_is(connection: sa.Connection, table: sa.Table, columns: Iterable[str]) -> list[sa.ColumnElement[Any]]:
    """Return columns as whatever they have can be read."""
    found = [table.c[name] for name in columns]
    if not _is_sqlite(connection):
        return list(found)
    return [sa.cast(each, sa.LargeBinary) if isinstance(each.type, sa.Text) else each for each in found]


def _type_of(connection: sa.Connection, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.typeof(column) if _is_sqlite(connection) else sa.literal("text")


def _is_sqlite(connection: sa.Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

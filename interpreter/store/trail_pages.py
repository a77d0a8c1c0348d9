"""What the store has of trails, for those who verify and those who look.

SQLite keeps any value in any column, and a text that is none. Whoever can write the store could let a reader stumble
over that, and see nothing of what is behind it. So texts are read as bytes there, and what is odd is told
(``oddities``).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.audit.chain import LAST_TIME, read_body
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Head, Kept, Oddity
from guideway.interpreter.audit.sealed import Unbelieved, unproven
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS

_HEAD: Final = ("trail", "seq", "hash", "seal", "checkpoint_seq")
_RECORD: Final = ("trail", "seq", "body", "hash", "at", "kind", "run_id", "subject")
_NO_TIME: Final = -1.0

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
_KEY: Final = ("trail", "seq")
_CALLED: Final = {TRAIL: "record", CHECKPOINTS: "checkpoint"}


def heads(connection: sa.Connection) -> list[Head]:
    """Return the head of every trail that has one, by name."""
    query = _named(connection, TRAILS, sa.select(*_as_it_is(connection, TRAILS, _HEAD)).order_by(TRAILS.c.trail))
    made = []
    for trail, seq, digest, seal, checkpoint in connection.execute(query):
        if type(seq) is int:
            kept = checkpoint if type(checkpoint) is int else 0
            made.append(Head(_text(trail), seq, _text(digest), None if seal is None else _text(seal), kept))
    return made


def names(connection: sa.Connection) -> list[str]:
    """Return the names of all trails of which anything is there. What is no text is none: those are oddities."""
    return sorted({_text(name) for table in _TYPES for name in _names(connection, table)})


def _names(connection: sa.Connection, table: sa.Table) -> Iterator[Any]:
    """Yield the names in one table, from each to the next: there may be a million records, and a few trails."""
    column = table.c.trail
    first = sa.select(*_as_it_is(connection, table, ("trail",))).order_by(column).limit(1)
    query = _named(connection, table, first)
    name = connection.scalar(query)
    while name is not None:
        yield name
        name = connection.scalar(query.where(column > sa.cast(name, sa.Text)))


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
    is_time = isinstance(at, float | int) and 0 <= at <= LAST_TIME
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


def oddities(connection: sa.Connection, *, passed_over: bool) -> list[Oddity]:
    """Return the first odd row of each trail and table; of all, or of those that nobody is shown.

    What nobody is shown the index of its table tells: those who only look at the end need not wait for all to be read.
    """
    found: list[Oddity] = []
    for table, types in _TYPES.items():
        looked_at = {name: types[name] for name in (_KEY if passed_over else types)} if _is_sqlite(connection) else {}
        found += _oddities(connection, table, looked_at)
        found += _unreadable_names(connection, table)
    return found if passed_over else [*found, *_displaced(connection)]


def _oddities(connection: sa.Connection, table: sa.Table, types: Mapping[str, tuple[str, ...]]) -> Iterator[Oddity]:
    """Yield rows with values of types that are not theirs, and those before the first place."""
    of_types = [sa.func.typeof(table.c[name]) for name in types]
    is_odd = [found.not_in(allowed) for found, allowed in zip(of_types, types.values(), strict=True)]
    place = sa.case((sa.func.typeof(table.c.seq) == "integer", table.c.seq)) if types else table.c.seq
    # What stands beside an aggregate is of the row that has the minimum (https://sqlite.org/lang_select.html, bare
    # columns in an aggregate query).
    query = sa.select(*_as_it_is(connection, table, ("trail",)), sa.func.min(place), *of_types)
    for trail, seq, *found in connection.execute(query.where(sa.or_(table.c.seq < 1, *is_odd)).group_by(table.c.trail)):
        has = "stands before the first place" if table is not TRAILS else "says that the trail ends before it begins"
        for (name, allowed), of_type in zip(types.items(), found, strict=True):
            if of_type not in allowed:
                has = f"has a value of the type `{of_type}` as its `{name}`, which no program of this kind has written"
                break
        if table is TRAILS:
            yield Oddity(_text(trail), None, f"the head {has}")
        elif seq is None:
            yield Oddity(_text(trail), None, f"a {_CALLED[table]} {has}")
        else:
            yield Oddity(_text(trail), seq, f"{_CALLED[table]} {seq} {has}")


def _unreadable_names(connection: sa.Connection, table: sa.Table) -> Iterator[Oddity]:
    """Yield the trails that nobody can ask for, since their names are no UTF-8."""
    for name in _names(connection, table):
        if isinstance(name, bytes) and _text(name).encode() != name:
            yield Oddity(_text(name), None, f"what `{table.name}` has of it cannot be read: its name is no text")


def _displaced(connection: sa.Connection) -> list[Oddity]:
    """Return the checkpoints that stand in another one's place."""
    found: dict[str, Oddity] = {}
    columns = _as_it_is(connection, CHECKPOINTS, ("trail", "seq", "seal"))
    for name, seq, seal in connection.execute(sa.select(*columns).order_by(CHECKPOINTS.c.trail, CHECKPOINTS.c.seq)):
        try:
            said = unproven(_text(seal))
        except Unbelieved:
            continue  # whoever reads it as a seal says so
        if said.trail == _text(name) and said.seq != seq and type(seq) is int:
            words = f"checkpoint {seq} stands in another one's place: it is of record {said.seq}"
            found.setdefault(said.trail, Oddity(said.trail, min(seq, said.seq), words))
    return list(found.values())


def status(connection: sa.Connection, run_id: str) -> str | None:
    """Return how a run ended, None where no record says so that reads."""
    ends = (Kind.RUN_ENDED.value, Kind.RUN_REFUSED.value)
    (text,) = _as_it_is(connection, TRAIL, ("body",))
    body = connection.scalar(sa.select(text).where(TRAIL.c.run_id == run_id, TRAIL.c.kind.in_(ends)).limit(1))
    try:
        found = None if body is None else read_body(_text(body)).get("status")
    except (ValueError, RecursionError):
        return None
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


def _named(connection: sa.Connection, table: sa.Table, query: sa.Select[Any]) -> sa.Select[Any]:
    """Return a query for those rows alone whose trail has a text for its name."""
    return query.where(sa.func.typeof(table.c.trail) == "text") if _is_sqlite(connection) else query


def _is_sqlite(connection: sa.Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

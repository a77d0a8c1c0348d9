"""The audit trail in the store: entries get their places in it, each inside of one transaction.

The head of a trail is read in the transaction that adds to it, which has the store to itself: so replicas share one
chain. It is gone on with only where it is known, or sealed by a key that is believed (``KnownHeads``).
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.audit.chain import BEGINNING, RESERVED, Link, link, trail_of
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.index import run_in, subject_in
from guideway.interpreter.audit.keeping import Head, Keeping
from guideway.interpreter.audit.known_heads import KnownHeads
from guideway.interpreter.store import mutations
from guideway.interpreter.store.prepared import Prepared
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS

_log = logging.getLogger(__name__)

_COLUMNS: Final = [column.name for column in TRAIL.columns]
_ADD: Final = Prepared(sa.insert(TRAIL), *_COLUMNS)
_HEAD: Final = Prepared(
    sa.select(TRAILS.c.seq, TRAILS.c.hash, TRAILS.c.seal, TRAILS.c.checkpoint_seq, TRAILS.c.checkpoint_at).where(
        TRAILS.c.trail == sa.bindparam("trail")
    )
)
_HEAD_COLUMNS: Final = ("seq", "hash", "seal", "sealed_at", "checkpoint_seq", "checkpoint_at")
_BEGIN: Final = Prepared(sa.insert(TRAILS), "trail", *_HEAD_COLUMNS)
_MOVE: Final = Prepared(sa.update(TRAILS).where(TRAILS.c.trail == sa.bindparam("of")), *_HEAD_COLUMNS)
_CHECKPOINT: Final = Prepared(sa.insert(CHECKPOINTS), "trail", "seq", "seal")


def append(
    connection: sa.Connection,
    entries: Iterable[Entry],
    heads: KnownHeads,
    now: float,
    *,
    made: list[Link],
) -> list[str]:
    """Add entries to their trails, in their order, and what they say of mutations to the history.

    Returns the seals that were kept as checkpoints: whoever commits the transaction gives them to the anchor.
    ``made`` gets the last record of each trail, which ``heads`` learns from whoever commits. Raises
    ``StoreUnavailable`` for a trail that cannot be gone on with.
    """
    by_trail: dict[str, list[Entry]] = {}
    for given in entries:
        for entry in (given,) if given.mutation is None else mutations.keep(connection, given):
            by_trail.setdefault(trail_of(entry.tenant), []).append(entry)
    kept = (_append(connection, trail, added, heads, now, made=made) for trail, added in by_trail.items())
    return [seal for seal in kept if seal is not None]


def _append(
    connection: sa.Connection,
    trail: str,
    entries: Sequence[Entry],
    heads: KnownHeads,
    now: float,
    *,
    made: list[Link],
) -> str | None:
    keeping = heads.keeping
    head = _HEAD.run(connection, trail=trail).fetchone()
    seq, prev, seal_before, checkpoint_seq, checkpoint_at = (0, BEGINNING, None, 0, now) if head is None else head
    if head is None:
        _require_new(connection, trail, heads)
    elif keeping.sealer is not None and seal_before is None and not _was_signed(connection, trail, heads):
        facts = {"kid": keeping.sealer.kid, "unsigned_to": seq}
        entries = [Entry(Kind.TRAIL_SIGNED, trail or None, now, facts), *entries]
    else:
        heads.require(Head(trail, seq, prev, seal_before))
    rows = []
    for entry in entries:
        seq += 1
        last, row = _record(entry, seq, prev, keeping)
        prev = last.hash
        rows.append(row)
    made.append(last)
    _ADD.run_many(connection, rows)
    seal = None if keeping.sealer is None else keeping.sealer.seal(trail, seq, prev, now)
    is_due = seal is not None and (
        seal_before is None  # from its first seal on it is known outside that there is such a trail
        or not 0 <= seq - checkpoint_seq < keeping.checkpoint_records
        or not abs(now - checkpoint_at) < keeping.checkpoint_seconds  # the clock may have been set back; NaN is none
    )
    if is_due:
        _CHECKPOINT.run(connection, trail=trail, seq=seq, seal=seal)
        checkpoint_seq, checkpoint_at = seq, now
    values: dict[str, Any] = {
        "seq": seq,
        "hash": prev,
        "seal": seal,
        "sealed_at": None if seal is None else now,
        "checkpoint_seq": checkpoint_seq,
        "checkpoint_at": checkpoint_at,
    }
    if head is None:
        _BEGIN.run(connection, trail=trail, **values)
    else:
        _MOVE.run(connection, of=trail, **values)
    return seal if is_due else None


def has(connection: sa.Connection, record: Link) -> bool:
    """Say whether a record is kept, as it was made and in its place."""
    query = sa.select(TRAIL.c.hash).where(TRAIL.c.trail == record.trail, TRAIL.c.seq == record.seq)
    return connection.scalar(query) == record.hash


def _require_new(connection: sa.Connection, trail: str, heads: KnownHeads) -> None:
    """Let a trail begin of which there is nothing. Raises ``StoreUnavailable``."""
    if heads.knows(trail) or _has_any(connection, TRAIL, trail) or _has_any(connection, CHECKPOINTS, trail):
        raise heads.refuse(trail, "the store does not say any more where it ends")


def _was_signed(connection: sa.Connection, trail: str, heads: KnownHeads) -> bool:
    """Say whether a trail that has no seal at its end had one."""
    return heads.knows(trail) or _has_any(connection, CHECKPOINTS, trail)


def _has_any(connection: sa.Connection, table: sa.Table, trail: str) -> bool:
    return connection.scalar(sa.select(sa.literal(1)).where(table.c.trail == trail).limit(1)) is not None


def checkpoint(connection: sa.Connection, heads: KnownHeads, now: float, *, before: float | None = None) -> list[str]:
    """Keep the seal of each head that is not kept as a checkpoint yet; return the seals.

    With ``before`` only of those trails whose last one is from before that time. What stands there as a seal and is
    none is left as it is: it goes nowhere else.
    """
    behind = [TRAILS.c.seal.is_not(None), TRAILS.c.checkpoint_seq < TRAILS.c.seq]
    if before is not None:
        behind.append(TRAILS.c.checkpoint_at <= before)
    found = connection.execute(sa.select(TRAILS.c.trail, TRAILS.c.seq, TRAILS.c.hash, TRAILS.c.seal).where(*behind))
    kept = []
    for row in found.all():
        if not heads.believes(row.trail, row.seq, row.hash, row.seal):
            continue
        _CHECKPOINT.run(connection, trail=row.trail, seq=row.seq, seal=row.seal)
        moved = TRAILS.update().where(TRAILS.c.trail == row.trail)
        connection.execute(moved.values(checkpoint_seq=row.seq, checkpoint_at=now))
        kept.append(row.seal)
    return kept


def _record(entry: Entry, seq: int, prev: str, keeping: Keeping) -> tuple[Link, dict[str, Any]]:
    """Return an entry in its place, and its row. One whose facts cannot be written down says that instead of them."""
    try:
        entry = redacted(entry, keeping)
        made = link(entry, seq, prev)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must not keep out all that comes behind it
        # Without the facts: what is private may still be in them.
        _log.error("the facts of a record (%s) cannot be written down: %s", entry.kind.value, type(error).__name__)
        entry = replace(entry, facts={"run": run_in(entry.facts), "facts_lost": type(error).__name__})
        made = link(entry, seq, prev)
    row = {
        "trail": made.trail,
        "seq": seq,
        "body": made.body,
        "hash": made.hash,
        "at": entry.at,
        "kind": entry.kind.value,
        "run_id": run_in(entry.facts),
        "subject": subject_in(entry.facts),
    }
    return made, row


def redacted(entry: Entry, keeping: Keeping) -> Entry:
    """Return an entry without what is private. Raises ``ValueError`` for facts that no record may have."""
    if keeping.private is not None:
        entry = replace(entry, facts=keeping.private(entry.facts))
    if not RESERVED.isdisjoint(entry.facts):
        raise ValueError("facts have a key that is not theirs")
    return entry

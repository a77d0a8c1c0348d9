"""Removes the oldest records of trails, as the configuration says: up to a checkpoint, which stays and proves them.

The trail itself says so in the same transaction: nobody shall take a beginning that was cut off for one that was
removed.
"""

from typing import Final

import sqlalchemy as sa

from guideway.interpreter.audit.chain import LAST_TIME, moment, trail_words
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.known_heads import KnownHeads
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS
from guideway.interpreter.store.work import Work

MOST: Final = 2_000
"""Records that are removed at once, beside those up to the next checkpoint."""


def spans(connection: sa.Connection) -> list[tuple[float, float]]:
    """Return when records were written: the first and the last time of each hour that has any, the newest first.

    What is no time, which ``audit verify`` tells of, says nothing.
    """
    hour = sa.cast(TRAIL.c.at / 3_600, sa.BigInteger)
    times = (
        sa.select(sa.func.min(TRAIL.c.at), sa.func.max(TRAIL.c.at))
        .where(TRAIL.c.at.between(0, LAST_TIME))
        .group_by(hour)
    )
    return sorted(((first, last) for first, last in connection.execute(times)), reverse=True)


def prune(work: Work, heads: KnownHeads, before: float) -> bool:
    """Remove records that are too old and from before a time, of each trail a bounded number; say whether any were."""
    keeping = heads.keeping
    if keeping.keep_seconds is None:
        return False
    connection, removed = work.connection, False
    for trail in connection.scalars(sa.select(TRAILS.c.trail).order_by(TRAILS.c.trail)).all():
        until = min(before, work.now - keeping.keep_seconds)
        place = _place(connection, trail, keeping, until)
        if place is None:
            continue
        behind, last = place
        digest = _proven(connection, trail, last, heads, until)
        if digest is None:
            continue
        facts = {"removed_to": last, "hash": digest, "first": last + 1, "records": last - behind}
        work.record(Entry(Kind.TRAIL_PRUNED, trail or None, work.now, facts))
        connection.execute(TRAIL.delete().where(TRAIL.c.trail == trail, TRAIL.c.seq <= last))
        connection.execute(CHECKPOINTS.delete().where(CHECKPOINTS.c.trail == trail, CHECKPOINTS.c.seq < last))
        removed = True
    return removed


def _proven(connection: sa.Connection, trail: str, seq: int, heads: KnownHeads, before: float) -> str | None:
    """Return a record's hash, where a believed key signed it before a time: the time beside it is anybody's word."""
    digest = connection.scalar(sa.select(TRAIL.c.hash).where(TRAIL.c.trail == trail, TRAIL.c.seq == seq))
    seal = connection.scalar(
        sa.select(CHECKPOINTS.c.seal).where(CHECKPOINTS.c.trail == trail, CHECKPOINTS.c.seq == seq)
    )
    said = heads.believes(trail, seq, str(digest), str(seal))
    if said is not None and said.at < moment(before):
        return said.hash
    heads.tell(f"no old record of {trail_words(trail)} is removed: no seal proves that record {seq} is that old")
    return None


def _place(connection: sa.Connection, trail: str, keeping: Keeping, before: float) -> tuple[int, int] | None:
    """Return the places behind which removal begins, and of the checkpoint up to which it goes; None without one.

    All that are removed are from before a time: one with a later time, by whatever clock, keeps those behind it.
    """
    theirs = TRAIL.c.trail == trail
    first = connection.scalar(sa.select(sa.func.min(TRAIL.c.seq)).where(theirs))
    if first is None:
        return None
    last = first + MOST + keeping.checkpoint_records
    these = (theirs, TRAIL.c.seq <= last, TRAIL.c.at >= before)
    young = connection.scalar(sa.select(TRAIL.c.seq).where(*these).order_by(TRAIL.c.seq).limit(1))
    to = sa.select(sa.func.max(CHECKPOINTS.c.seq)).where(
        CHECKPOINTS.c.trail == trail,
        CHECKPOINTS.c.seq >= first,
        CHECKPOINTS.c.seq < (last + 1 if young is None else young),
    )
    checkpoint = connection.scalar(to)
    return None if checkpoint is None else (first - 1, checkpoint)

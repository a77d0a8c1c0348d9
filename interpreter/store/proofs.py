"""Proofs of possession that any replica was shown, by a digest of each, for as long as one would believe them again.

A proof comes with each request, so that nothing here waits for the store to be free: that no proof is put twice, the
table's key alone decides. How long one is remembered goes by the database's own clock, the only one that all replicas
share: whatever theirs say, a proof that was forgotten is not taken for new.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from guideway.interpreter.store.tables import PROOFS


def put(connection: sa.Connection, digest: str, until: float) -> bool:
    """Remember a proof until a time; say whether nobody has shown it before, and that time is to come."""
    now = sa.extract("epoch", sa.func.clock_timestamp())
    row = sa.select(sa.literal(digest), sa.literal(until, sa.Double)).where(now < until)
    added = postgresql.insert(PROOFS).from_select(["digest", "expires_at"], row).on_conflict_do_nothing()
    return connection.execute(added.returning(PROOFS.c.digest)).first() is not None


def prune(connection: sa.Connection) -> None:
    """Forget each proof that nobody would believe any more."""
    now = sa.extract("epoch", sa.func.clock_timestamp())
    connection.execute(PROOFS.delete().where(PROOFS.c.expires_at <= now))

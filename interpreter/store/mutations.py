"""The history of mutations in the store."""

from collections.abc import Collection, Sequence
from typing import Final

import sqlalchemy as sa

from guideway.interpreter.records import Mutation
from guideway.interpreter.store import rows
from guideway.interpreter.store.tables import MUTATIONS

KEPT_SECONDS: Final = 90 * 86_400.0


def keep(connection: sa.Connection, mutations: Sequence[tuple[str | None, Mutation]]) -> None:
    """Keep mutations, each with its tenant, and forget those that are old beside them."""
    if mutations:
        newest = max(mutation.started_at for _, mutation in mutations)
        connection.execute(MUTATIONS.delete().where(MUTATIONS.c.started_at < newest - KEPT_SECONDS))
        connection.execute(MUTATIONS.insert(), [rows.of_mutation(tenant, kept) for tenant, kept in mutations])


def last(connection: sa.Connection, tenant: str | None, services: Collection[str], most: int) -> list[Mutation]:
    """Return the last mutations of each service, the newest first."""
    theirs = MUTATIONS.c.tenant.is_(None) if tenant is None else MUTATIONS.c.tenant == tenant
    place = sa.func.row_number().over(
        partition_by=MUTATIONS.c.service, order_by=(MUTATIONS.c.started_at.desc(), MUTATIONS.c.id.desc())
    )
    ranked = sa.select(MUTATIONS, place.label("place")).where(theirs, MUTATIONS.c.service.in_(sorted(services)))
    found = ranked.subquery()
    query = sa.select(found).where(found.c.place <= most).order_by(found.c.started_at.desc(), found.c.id.desc())
    return [rows.mutation(row) for row in connection.execute(query)]

"""The history of mutations in the store."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.records import Mutation
from guideway.interpreter.store import rows
from guideway.interpreter.store.tables import MUTATIONS

KEPT_SECONDS: Final = 90 * 86_400.0

_NAMED: Final = 5_000  # services in one statement, which can name only so many


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
    names, found = sorted(services), list[Any]()
    for first in range(0, len(names), _NAMED):
        these = MUTATIONS.c.service.in_(names[first : first + _NAMED])
        ranked = sa.select(MUTATIONS, place.label("place")).where(theirs, these).subquery()
        found += connection.execute(sa.select(ranked).where(ranked.c.place <= most))
    found.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return [rows.mutation(row) for row in found]

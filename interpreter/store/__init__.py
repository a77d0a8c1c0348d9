"""The store: what has to outlive a process, and what replicas share. In a folder (SQLite), or in PostgreSQL.

Opening one costs nothing and touches nothing: the first call that needs it does. Until then no database is loaded.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from guideway.interpreter.audit.keeping import PLAIN, Keeping
from guideway.interpreter.leases import Leases
from guideway.interpreter.notices import Event
from guideway.interpreter.store.file_leases import FileLeases
from guideway.interpreter.store.sql_leases import SqlLeases
from guideway.interpreter.store.store import Store
from guideway.interpreter.store.stored_proofs import StoredProofs

if TYPE_CHECKING:
    from guideway.interpreter.store.database import Database

LEASES: Final = "leases"
_NO_WEBHOOKS: Final[Mapping[str, Collection[Event]]] = MappingProxyType({})


def open_store(
    *,
    folder: Path | None = None,
    url: str | None = None,
    webhooks: Mapping[str, Collection[Event]] = _NO_WEBHOOKS,
    keeping: Keeping = PLAIN,
) -> tuple[Store, Leases]:
    """Return the store in a folder of this machine, or in the PostgreSQL database at a URL, and what gives leases.

    ``webhooks`` says which events go into the outbox, for each webhook by its name, and ``keeping`` how the audit trail
    is kept. Nothing is opened here: a store that cannot be used is told by ``StoreUnavailable`` where it is.
    """
    if (folder is None) == (url is None):
        raise TypeError("a store is in a folder or at a URL")

    def open_database() -> "Database":
        from guideway.interpreter.store import database  # noqa: PLC0415  # only what uses a store loads it

        return database.open_sqlite(folder) if folder is not None else database.open_postgresql(url or "")

    store = Store(open_database, writers=1 if folder is not None else 4, webhooks=webhooks, keeping=keeping)
    if folder is not None:
        return store, FileLeases(folder / LEASES)
    store.proofs = StoredProofs(store.opened)
    return store, SqlLeases(store.opened)


__all__ = ["LEASES", "Store", "open_store"]

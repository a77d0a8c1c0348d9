"""Both kinds of store, for one suite of behaviour."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guideway.interpreter.audit.keeping import PLAIN, Keeping
from guideway.interpreter.leases import Leases
from guideway.interpreter.notices import Event
from guideway.interpreter.store import Store, open_store
from tests.store import postgresql


@dataclass(frozen=True)
class Place:
    """Where a store is: in a folder or at a URL. It can be opened often, as replicas do."""

    where: Mapping[str, Any]

    def open(
        self, webhooks: Mapping[str, set[Event]] | None = None, *, keeping: Keeping = PLAIN
    ) -> tuple[Store, Leases]:
        return open_store(**self.where, webhooks=webhooks or {}, keeping=keeping)

    @property
    def store(self) -> Store:
        return self.open()[0]


@pytest.fixture(scope="session")
def server() -> Iterator[postgresql.Server]:
    """A PostgreSQL server for all tests of a process."""
    with postgresql.running() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return Place({"folder": tmp_path / "store"})
    return Place({"url": request.getfixturevalue("server").database()})

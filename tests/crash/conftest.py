"""Both kinds of store for replicas that are killed."""

from collections.abc import Iterator

import pytest

from tests.store import postgresql


@pytest.fixture(scope="module")
def server() -> Iterator[postgresql.Server]:
    """A PostgreSQL server."""
    with postgresql.running() as running:
        yield running

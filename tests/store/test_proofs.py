"""Proofs of possession in a store that replicas share: one is new once, whichever of them is shown it."""

import time
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from guideway.interpreter.store import Store, open_store, stored_proofs
from guideway.interpreter.store.tables import PROOFS
from tests.store import postgresql
from tests.store.conftest import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def shared(server: postgresql.Server) -> Place:
    return Place({"url": server.database()})


async def put(store: Store, digest: str, seconds: float = 60.0) -> bool:
    assert store.proofs is not None
    return await store.proofs.put(digest, time.time() + seconds)


def kept(store: Store) -> list[str]:
    def ask(_: object, connection: sa.Connection) -> list[str]:
        return list(connection.scalars(sa.select(PROOFS.c.digest).order_by(PROOFS.c.digest)))

    return store.opened.look_here(ask)


async def test_a_proof_is_new_once_wherever_it_is_shown(shared: Place) -> None:
    one, other = shared.store, shared.store
    assert await put(one, "a")
    assert not await put(one, "a")
    assert not await put(other, "a")
    assert await put(other, "b")
    await one.close()
    again = shared.store
    assert not await put(again, "a")
    assert not await put(again, "b")
    await again.close()
    await other.close()


async def test_of_many_at_once_one_is_the_first(shared: Place) -> None:
    stores, first = [shared.store for _ in range(3)], list[bool]()
    assert await put(stores[0], "before")  # the tables are there

    async def show(store: Store) -> None:
        first.append(await put(store, "a"))

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(show, stores[number % 3])
    assert sorted(first) == [False] * 29 + [True]
    for store in stores:
        await store.close()


async def test_one_that_was_forgotten_is_not_new_again(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting goes by the database's clock, and by the same one nobody is let in with a proof that is over."""
    monkeypatch.setattr(stored_proofs, "PRUNE_SECONDS", 0.0)
    store = shared.store
    until = time.time() + 600
    assert store.proofs is not None
    assert await store.proofs.put("short", until)
    assert await put(store, "long")
    assert kept(store) == ["long", "short"]
    passed = sa.text("UPDATE guideway_proofs SET expires_at = expires_at - 1200 WHERE digest = 'short'")
    await store.opened.change(lambda _, connection: connection.execute(passed))
    assert await put(store, "another")  # and what has expired is cleared away
    assert kept(store) == ["another", "long"]
    assert not await store.proofs.put("short", until - 1200)
    assert "long" in kept(store)
    await store.close()


async def test_one_machine_needs_none(tmp_path: Path) -> None:
    store, _ = open_store(folder=tmp_path / "store")
    assert store.proofs is None
    await store.close()

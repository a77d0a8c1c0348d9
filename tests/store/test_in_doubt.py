"""A commit whose answer is lost: whether it happened is not known, and no record is lost or kept twice for it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from guideway.interpreter.approvals import Who
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.records import Mutation, StoreUnavailable
from guideway.interpreter.store import Store, stored_trail
from tests.store.conftest import Place

pytestmark = pytest.mark.anyio


def restart(number: int, kind: Kind = Kind.RESTART_BEGUN, outcome: str | None = None) -> Entry:
    """Return a record of a run's restart, which the history has once."""
    now = time.time()
    who = Who("https://login.example", "mona")
    mutation = Mutation(f"run-{number}", "web", who, now, outcome=outcome, key="web", until=now + 30)
    return Entry(kind, None, now, {"run": f"run-{number}", "service": "web", "number": 1}, mutation)


async def fail_once(store: Store, *, committed: bool) -> None:
    """Let the next transaction that writes fail at its commit, or when that has happened."""
    await store.check(time.time())
    database = store.opened.database()
    write = database.write

    @contextmanager
    def cut_off() -> Iterator[Any]:
        database.write = write  # type: ignore[method-assign]
        with write() as connection:
            yield connection
            if not committed:
                raise StoreUnavailable("it is gone")
        raise StoreUnavailable("it is gone")

    database.write = cut_off  # type: ignore[method-assign]


@pytest.mark.parametrize("committed", [True, False])
async def test_what_may_have_been_committed_is_kept_once(
    place: Place, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 60.0)  # the thread leaves it to whoever waits
    store = place.store
    await fail_once(store, committed=committed)
    store.trail.put([restart(1)])
    with pytest.raises(StoreUnavailable):
        await store.trail.written()
    assert store.trail.failing is not None
    store.trail.put([restart(1, Kind.RESTART_ENDED, "ok"), restart(2)])
    await store.trail.written()
    assert store.trail.failing is None
    assert not store.trail.pending
    assert [(kept.kind, kept.run_id) for kept in await store.records("")] == [
        ("restart.begun", "run-1"),
        ("restart.ended", "run-1"),
        ("restart.begun", "run-2"),
    ]
    assert [mutation.outcome for mutation in await store.history(None, ["web"])] == [None, "ok"]
    await store.close()


@pytest.mark.parametrize("committed", [True, False])
async def test_what_is_in_doubt_is_not_among_what_is_lost(
    place: Place, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 60.0)
    monkeypatch.setattr(stored_trail, "MOST", 2)
    store = place.store
    await fail_once(store, committed=committed)
    store.trail.put([restart(1), restart(2)])
    with pytest.raises(StoreUnavailable):
        await store.trail.written()
    store.trail.put([restart(3)])
    with pytest.raises(StoreUnavailable, match="were lost"):
        await store.trail.written()
    kept = [(each.kind, each.run_id) for each in await store.records("")]
    assert sorted(kept, key=str) == [("restart.begun", "run-1"), ("restart.begun", "run-2"), ("trail.gap", None)]
    await store.close()

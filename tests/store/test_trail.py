"""The audit trail in the store: each entry once, in its order, in one whole chain, or told to be missing."""

from collections.abc import Sequence
from typing import Any

import pytest

from guideway.interpreter.audit.chain import BEGINNING, hash_of, read_body
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.store import Store
from tests.store.conftest import Place
from tests.store.questions import NOW

pytestmark = pytest.mark.anyio


def entry(number: int, tenant: str | None = None, **facts: Any) -> Entry:
    """Return an entry of a run."""
    caller = {"issuer": "https://login.example", "subject": "mona", "client": None, "tenant": tenant}
    return Entry(Kind.RUN_BEGUN, tenant, NOW + number, {"run": f"run-{number}", "caller": caller, **facts})


async def whole(store: Store, trail: str = "") -> Sequence[dict[str, Any]]:
    """Return what a trail's records say, and hold them to be one chain up to its head."""
    found = await store.records(trail, most=100_000)
    prev = BEGINNING if not found or found[0].seq == 1 else read_body(found[0].body)["prev"]
    bodies = []
    for place, kept in enumerate(found):
        body = read_body(kept.body)
        assert kept.hash == hash_of(kept.body)
        assert (body["seq"], body["prev"], body["trail"]) == (kept.seq, prev, trail)
        assert kept.seq == found[0].seq + place
        assert (kept.kind, kept.run_id) == (body["kind"], body.get("run"))
        prev = kept.hash
        bodies.append(body)
    heads = {head.trail: head for head in await store.trails()}
    if found:
        assert (heads[trail].seq, heads[trail].hash) == (found[-1].seq, found[-1].hash)
    return bodies


async def test_what_is_put_is_kept_in_its_order_in_the_trail_of_its_tenant(place: Place) -> None:
    store = place.store
    store.trail.put([entry(1), entry(2, "red"), entry(3)])
    store.trail.put([entry(4)])
    await store.trail.written()
    assert not store.trail.pending
    assert [body["run"] for body in await whole(store)] == ["run-1", "run-3", "run-4"]
    assert [body["run"] for body in await whole(store, "red")] == ["run-2"]
    (first, *_) = await store.records("", most=1)
    assert (first.at, first.subject) == (NOW + 1, "mona")
    await store.close()

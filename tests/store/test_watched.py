"""Who watches a store is told of each transaction, and of what was written when it has been; nobody need watch."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from guideway.interpreter.approvals import Undecidable
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import open_store
from guideway.server.telemetry.metrics import Metrics
from tests.store.conftest import Place
from tests.store.questions import APPROVER, NOW, question

pytestmark = pytest.mark.anyio


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"guideway_{name}", labels)
    assert found is not None, name
    return found


async def test_what_happens_is_counted_when_it_is_written(place: Place) -> None:
    metrics, store = Metrics(), place.store
    store.opened.watch = metrics
    one = await store.ask(question(), NOW, lifetime=300, most_open=9)
    await store.ask(question(), NOW, lifetime=300, most_open=9)
    two = await store.ask(question(digest="e" * 64), NOW, lifetime=300, most_open=9)
    three = await store.ask(question(digest="f" * 64), NOW, lifetime=300, most_open=9)
    await store.decide(one.id, approve=True, by=APPROVER, reason="", now=NOW)
    await store.decide(two.id, approve=False, by=APPROVER, reason="", now=NOW)
    with pytest.raises(Undecidable):
        await store.decide(one.id, approve=True, by=APPROVER, reason="", now=NOW)
    assert await store.open_tickets(NOW) == {"approved": 1, "pending": 1}
    assert await store.open_tickets(NOW + 301) == {}, "their time is over, though nobody has looked"
    assert await store.ticket(three.id, NOW + 301) is not None
    store.trail.put([Entry(Kind.SERVER_STARTED, None, NOW, {})])
    await store.trail.written()
    await store.close()
    registry = metrics.registry
    assert value(registry, "tickets_asked_total") == 3
    assert value(registry, "tickets_decided_total", decision="approved") == 1
    assert value(registry, "tickets_decided_total", decision="denied") == 1
    assert value(registry, "tickets_expired_total") == 2, "the one that was approved and not used among them"
    assert value(registry, "audit_records_total", kind="ticket.asked") == 3
    assert value(registry, "audit_records_total", kind="server.started") == 1
    assert value(registry, "audit_failures_total") == 0
    assert value(registry, "store_transaction_duration_seconds_count", kind="write") >= 7
    assert value(registry, "store_transaction_duration_seconds_count", kind="read") >= 2
    for kind in ("read", "write"):
        assert value(registry, "store_failures_total", kind=kind) == 0, "an answer is no failure"


async def test_a_store_that_cannot_be_used_is_counted(tmp_path: Path) -> None:
    in_the_way = tmp_path / "store"
    in_the_way.write_text("")
    metrics, (store, _) = Metrics(), open_store(folder=in_the_way)
    store.opened.watch = metrics
    with pytest.raises(StoreUnavailable):
        await store.check(NOW)
    store.trail.put([Entry(Kind.SERVER_STARTED, None, NOW, {})])
    with pytest.raises(StoreUnavailable):
        await store.trail.written()
    assert value(metrics.registry, "store_failures_total", kind="write") >= 2
    assert value(metrics.registry, "audit_failures_total") >= 1
    assert value(metrics.registry, "audit_records_total", kind="server.started") == 0
    in_the_way.unlink()
    await store.close()

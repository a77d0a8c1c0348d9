"""Notices with the real store: none is lost, none is held up, and a run never waits for who is told."""

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import LIFETIME
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.notices import Event
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import State, Status
from guideway.interpreter.risk import Impact, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.store import outbox as outbox_module
from guideway.server.webhooks import courier as courier_module
from guideway.server.webhooks.courier import Courier
from guideway.server.webhooks.webhook import Webhook
from tests.server.webhooks.notices import page, ticket, webhook
from tests.server.webhooks.receiver import SILENT, Receiver, receiving

pytestmark = pytest.mark.anyio
CALLER = Principal("mona", frozenset({Scope.READ, Scope.WRITE}))
WEBHOOKS = {"ops": frozenset(Event)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait long for the next look, or the next attempt."""
    monkeypatch.setattr(courier_module, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(courier_module, "_IDLE", 0.05)
    monkeypatch.setattr(courier_module, "_EXPIRING", 0.1)


@asynccontextmanager
async def store_in(folder: Path) -> AsyncIterator[Store]:
    store, leases = open_store(folder=folder, webhooks=WEBHOOKS)
    try:
        yield store
    finally:
        await leases.close()
        await store.close()


@asynccontextmanager
async def delivering(store: Store, hook: Webhook) -> AsyncIterator[None]:
    async def expire() -> None:
        await store.tickets(None, time.time(), most=1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Courier(store.outbox, [hook], page).run, expire)
        yield
        tasks.cancel_scope.cancel()


async def ask(store: Store, lifetime: float = LIFETIME, digest: str = "ab") -> str:
    question = ticket(client=digest).question
    return (await store.ask(question, time.time(), lifetime=lifetime, most_open=1_000)).id


async def received(receiver: Receiver, count: int) -> list[str]:
    """Wait for so many notices; return their ids, sorted."""
    found = await anyio.to_thread.run_sync(receiver.wait_for, count)
    return sorted(each.headers["webhook-id"] for each in found)


async def test_people_are_told_that_a_ticket_waits_and_that_it_expired_although_nobody_looks(tmp_path: Path) -> None:
    with receiving() as receiver:
        async with store_in(tmp_path) as store, delivering(store, webhook(receiver.url)):
            asked = await ask(store, lifetime=0.5)
            assert await received(receiver, 2) == [f"expired_{asked}", f"pending_{asked}"]


async def test_a_deliverer_that_dies_holding_a_notice_does_not_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "CLAIM_SECONDS", 1.0)
    with receiving() as receiver:
        async with store_in(tmp_path) as dies:
            asked = await ask(dies)
            (held,) = await dies.outbox.claim(time.time(), 4, "ops")  # and neither delivers it nor gives it back
            assert held.attempts == 0
        async with store_in(tmp_path) as store:
            assert await store.outbox.claim(time.time(), 4, "ops") == []
            async with delivering(store, webhook(receiver.url)):
                assert await received(receiver, 1) == [f"pending_{asked}"]


async def test_replicas_with_one_store_deliver_each_notice_once(tmp_path: Path) -> None:
    with receiving() as receiver:
        hook = webhook(receiver.url)
        async with store_in(tmp_path) as one, store_in(tmp_path) as two, store_in(tmp_path) as three:
            asked = [await ask(one, digest=f"{number}") for number in range(20)]
            async with delivering(one, hook), delivering(two, hook), delivering(three, hook):
                assert await received(receiver, 20) == sorted(f"pending_{each}" for each in asked)
                await anyio.sleep(0.3)  # some looks of each more
            assert len(receiver.received) == 20


async def test_what_is_undeliverable_stays_as_a_record(tmp_path: Path) -> None:
    with receiving(410) as receiver:
        async with store_in(tmp_path) as store, delivering(store, webhook(receiver.url)):
            asked = await ask(store)
            with anyio.fail_after(30):
                while not (found := await store.outbox.undelivered(10)):
                    await anyio.sleep(0.05)
    (lost,) = found
    assert (lost.notice.event["ticket"], lost.due_at) == (asked, None)
    assert lost.error == "it answered HTTP 410; given up after 1 attempt"


async def test_a_receiver_that_never_answers_does_not_delay_a_run(tmp_path: Path) -> None:
    risk = Risk(impact=Impact.LOW, reversibility=Reversibility.HARD)  # tier 2: it runs, and people are told
    service = Service("cache", MemoryDriver(State.RUNNING), settle=0.0, risk=risk)
    with receiving(*[SILENT] * 10) as receiver:
        async with store_in(tmp_path) as store, delivering(store, webhook(receiver.url)):
            pipeline = Pipeline(Inventory(services=[service]), gate=ImpactGate(records=store, outbox=store.outbox))
            first = await pipeline.run('RESTART "cache"', CALLER)
            assert await received(receiver, 1) == [f"review_{first.run_id}"]
            for _ in range(3):  # while the receiver holds the first
                began = time.monotonic()
                assert (await pipeline.run('RESTART "cache"', CALLER)).status is Status.COMPLETED
                assert time.monotonic() - began < 2.0


async def test_looking_for_what_is_due_writes_nothing(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        await ask(store)
        now = time.time()
        assert len(await store.outbox.claim(now, 4, "ops")) == 1
        before = _changes(tmp_path)
        for _ in range(5):
            assert await store.outbox.claim(now + 20, 4, "ops") == []
        assert _changes(tmp_path) == before


def _changes(folder: Path) -> int:
    """Return a number that each commit to a store's database changes."""
    (path,) = folder.glob("*.sqlite3")
    wal = path.with_name(f"{path.name}-wal")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True):
        return wal.stat().st_size

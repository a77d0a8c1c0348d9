"""What else the store keeps: history, notices on their way, and the page's sessions."""

from dataclasses import replace

import anyio
import pytest

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.notices import CLAIM_SECONDS, Event
from guideway.interpreter.records import Mutation
from tests.store.conftest import Place
from tests.store.questions import APPROVER, ASKER, NOW, question

pytestmark = pytest.mark.anyio


def mutation(number: int, service: str = "database") -> Mutation:
    return Mutation(f"run-{number}", service, ASKER, NOW + number, NOW + number + 2.5, "ok", "it is well")


def ended(kept: Mutation, tenant: str | None = None) -> Entry:
    return Entry(Kind.RESTART_ENDED, tenant, kept.ended_at or NOW, {"run": kept.run_id}, kept)


async def test_history_has_the_last_of_each_service_the_newest_first(place: Place) -> None:
    store = place.store
    for number in range(4):
        of_red = replace(mutation(number), run_id=f"red-{number}", message=None)
        store.trail.put([ended(mutation(number)), ended(of_red, "red")])
    store.trail.put([ended(mutation(9, "cache"))])
    found = await store.history(None, ["database", "cache", "none"], most=2)
    assert found == [mutation(9, "cache"), mutation(3), mutation(2)]
    assert len(await store.history("red", ["database"])) == 4
    await store.close()


async def test_what_happens_to_a_ticket_is_told_to_those_who_want_it(place: Place) -> None:
    store = place.open({"all": set(Event), "some": {Event.DECIDED}})[0]
    made = await store.ask(question(), NOW, lifetime=300, most_open=20)
    await store.ask(question(), NOW, lifetime=300, most_open=20)  # the same: nothing new
    await store.decide(made.id, approve=False, by=APPROVER, reason="no", now=NOW + 1)
    late = await store.ask(question(digest="2"), NOW + 1, lifetime=300, most_open=20)
    store.outbox.enqueue({"event": "review", "run_id": "run", "at": NOW})
    assert await store.tickets(None, NOW + 400, states=()) != []
    await store.history(None, [])
    told = await store.outbox.claim(2 * NOW, 20, "all")
    assert [(each.event["event"], each.event.get("ticket")) for each in told if each.event["event"] != "review"] == [
        ("pending", made.id),
        ("decided", made.id),
        ("pending", late.id),
        ("expired", late.id),
    ]
    assert len(told) == 5
    assert [each.event["reason"] for each in await store.outbox.claim(2 * NOW, 20, "some")] == ["no"]
    assert await store.outbox.claim(2 * NOW, 20, "none") == []
    await store.close()


async def test_without_webhooks_nothing_is_told(place: Place) -> None:
    store = place.store
    await store.ask(question(), NOW, lifetime=300, most_open=20)
    store.outbox.enqueue({"event": "review", "at": NOW})
    await store.close()
    other = place.open({"ops": set(Event)})[0]
    assert await other.outbox.claim(NOW + 1, 20, "ops") == []
    await other.close()


async def test_a_notice_is_one_replicas_for_a_time_and_is_tried_again_until_it_is_given_up(place: Place) -> None:
    one, two = (place.open({"ops": set(Event)})[0] for _ in range(2))
    await one.ask(question(), NOW, lifetime=9e9, most_open=20)
    (notice,) = await one.outbox.claim(NOW, 9, "ops")
    assert notice.attempts == 0
    assert await two.outbox.claim(NOW + CLAIM_SECONDS - 1, 9, "ops") == []
    (again,) = await two.outbox.claim(NOW + CLAIM_SECONDS, 9, "ops")  # whoever had it is gone
    assert (again.id, again.attempts) == (notice.id, 1)
    await two.outbox.again(again.id, NOW + 500, "503")
    assert await one.outbox.claim(NOW + 499, 9, "ops") == []
    (waits,) = await one.outbox.undelivered(9)
    assert (waits.due_at, waits.error) == (NOW + 500, "503")
    (last,) = await one.outbox.claim(NOW + 500, 9, "ops")
    await one.outbox.give_up(last.id, "gone")
    assert await one.outbox.claim(NOW + 10_000, 9, "ops") == []
    (given_up,) = await two.outbox.undelivered(9)
    assert (given_up.due_at, given_up.error, given_up.notice.attempts) == (None, "gone", 3)
    await one.ask(question(digest="2"), NOW + 10_000, lifetime=300, most_open=20)
    (other,) = await one.outbox.claim(NOW + 10_000, 9, "ops")
    await one.outbox.done(other.id)
    (third,) = await one.outbox.claim(NOW + 20_000, 9, "ops")  # the second ticket expired
    assert third.event["event"] == "expired"
    assert third.id not in {notice.id, other.id}  # whoever answers late answers for nobody else
    for store in (one, two):
        await store.close()


async def test_of_replicas_that_claim_at_once_each_notice_is_ones(place: Place) -> None:
    stores = [place.open({"ops": set(Event)})[0] for _ in range(4)]
    for number in range(20):
        await stores[0].ask(question(digest=str(number)), NOW, lifetime=9e9, most_open=99)
    claimed: list[str] = []

    async def claim(number: int) -> None:
        claimed.extend(each.id for each in await stores[number % 4].outbox.claim(NOW, 3, "ops"))

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(claim, number)
    assert len(claimed) == len(set(claimed)) == 20
    for store in stores:
        await store.close()


async def test_a_session_is_kept_replaced_taken_once_and_over_in_time(place: Place) -> None:
    store, other = place.store, place.store
    await store.sessions.put("a", {"subject": "ada", "csrf": "x"}, NOW + 100)
    await store.sessions.put("a", {"subject": "bob"}, NOW + 100)
    assert await other.sessions.get("a", NOW) == {"subject": "bob"}
    assert await other.sessions.get("a", NOW + 100) is None
    assert await other.sessions.get("b", NOW) is None
    taken: list[object] = []

    async def take() -> None:
        taken.append(await other.sessions.take("a", NOW))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(take)
    assert sorted(taken, key=bool)[-2:] == [None, {"subject": "bob"}]
    await store.sessions.put("a", {}, NOW + 1)
    await store.sessions.put("b", {}, NOW + 100)
    await store.sessions.prune(NOW + 1)
    assert [await store.sessions.get(each, NOW) for each in "ab"] == [None, {}]
    await store.sessions.delete("b")
    assert await store.sessions.get("b", NOW) is None
    for each in (store, other):
        await each.close()

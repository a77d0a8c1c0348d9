"""The audit trail in the store: each entry once, in its order, in one whole chain, or told to be missing."""

import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import Store, open_store, stored_trail
from tests.store.conftest import Place
from tests.store.questions import APPROVER, BINDING, NOW, question
from tests.store.trails import entry, keeping, restart, whole

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def transactions(store: Store) -> list[int]:
    """Return a list that gets the number of entries of each transaction of a store's trail."""
    counts: list[int] = []
    append = store.opened.append_here

    def counting(entries: Any, made: Any) -> None:
        counts.append(len(entries))
        append(entries, made)

    store.opened.append_here = counting  # type: ignore[method-assign]
    return counts


async def poll(found: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(20):
        while not found():
            await anyio.sleep(0.01)


async def test_what_is_put_is_kept_in_its_order_in_the_trail_of_its_tenant(place: Place) -> None:
    store = place.store
    await store.trail.written()  # nothing: the store is not even opened
    store.trail.put([entry(1), entry(2, "red"), entry(3)])
    store.trail.put([entry(4)])
    await store.trail.written()
    assert not store.trail.pending
    assert [body["run"] for body in await whole(store)] == ["run-1", "run-3", "run-4"]
    assert [body["run"] for body in await whole(store, "red")] == ["run-2"]
    assert [(head.trail, head.seq) for head in await store.trails()] == [("", 3), ("red", 1)]
    (first, *_) = await store.records("", most=1)
    assert (first.at, first.kind, first.run_id, first.subject) == (NOW + 1, "run.begun", "run-1", "mona")
    await store.close()


async def test_records_are_read_after_a_place_the_newest_or_of_a_time(place: Place) -> None:
    store = place.store
    store.trail.put([entry(number) for number in range(1, 10)])
    await store.trail.written()

    async def places(**which: Any) -> list[int]:
        return [kept.seq for kept in await store.records("", **which)]

    assert await places(after=2, most=3) == [3, 4, 5]
    assert await places(newest=True, most=2) == [8, 9]
    assert await places(since=NOW + 3, until=NOW + 5) == [3, 4]
    assert await places(since=NOW + 3, newest=True, most=1) == [9]
    assert await store.records("none") == []
    await store.close()


async def test_a_thousand_entries_that_are_waited_for_at_once_are_few_transactions(place: Place) -> None:
    store = place.store
    counts = transactions(store)
    async with anyio.create_task_group() as tasks:

        async def put(number: int) -> None:
            store.trail.put([entry(number)])
            await store.trail.written()

        for number in range(1_000):
            tasks.start_soon(put, number)
    assert sum(counts) == 1_000
    assert len(counts) <= 5
    assert [body["run"] for body in await whole(store)] == [f"run-{number}" for number in range(1_000)]
    await store.close()


async def test_whoever_stops_waiting_loses_nothing_and_keeps_nobody(place: Place) -> None:
    store = place.store

    async def put(number: int) -> None:
        store.trail.put([entry(number)])
        await store.trail.written()

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            if number % 3:
                tasks.start_soon(put, number)
                continue
            with anyio.CancelScope() as scope:
                scope.cancel()
                await put(number)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(put, 20)
        with anyio.move_on_after(0.0001):  # in the midst of its commit, perhaps
            await put(21)
    await store.trail.written()
    assert {body["run"] for body in await whole(store)} == {f"run-{number}" for number in range(22)}
    await store.close()


async def test_what_nobody_waits_for_is_kept_a_moment_later(place: Place) -> None:
    store, reader = place.store, place.store
    store.trail.put([entry(1)])
    with anyio.fail_after(20):
        while not await reader.records(""):
            await anyio.sleep(0.01)
    await reader.close()
    await store.close()


async def test_what_cannot_be_kept_waits_in_its_order_and_is_kept_when_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stored_trail, "RETRY", 0.01)
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    store, _ = open_store(folder=folder)
    folder.chmod(0o777)
    assert store.trail.failing is None
    store.trail.put([entry(1), entry(2)])

    async def wait() -> None:
        with pytest.raises(StoreUnavailable, match="others can write"):
            await store.trail.written()

    async with anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(wait)
    assert "others can write" in str(store.trail.failing)
    store.trail.put([entry(3)])
    await poll(lambda: "3 records of the audit trail wait for the store" in caplog.text)
    folder.chmod(0o700)
    await poll(lambda: not store.trail.pending)  # by the thread
    assert store.trail.failing is None
    assert [body["run"] for body in await whole(store)] == ["run-1", "run-2", "run-3"]
    await store.close()


def refusal(number: int, tenant: str | None = None, **facts: Any) -> Entry:
    return replace(entry(number, tenant, **facts), kind=Kind.RUN_REFUSED)


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that cannot be used, as others can write there; its trail has room for five entries."""
    monkeypatch.setattr(stored_trail, "MOST", 5)
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)  # the thread is out of the way
    folder = tmp_path / "store"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    return folder


async def put_and_wait(store: Store, *entries: Entry) -> None:
    """Put entries while the store is away."""
    store.trail.put(entries)
    with pytest.raises(StoreUnavailable):
        await store.trail.written()


async def test_of_too_many_the_oldest_refusals_are_logged_whole_and_the_trail_says_how_many_are_missing(
    away: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = open_store(folder=away, keeping=keeping(private=lambda facts: {**facts, "said": "gone"}))
    for number in range(4):
        await put_and_wait(store, refusal(number, said="hunter2"), refusal(number, "red", said="hunter2"))
    store.trail.put([refusal(4, said="hunter2")])
    await anyio.Path(away).chmod(0o700)
    with pytest.raises(StoreUnavailable, match="were lost"):  # not all that was put is kept
        await store.trail.written()
    await store.trail.written()  # the trail says so by now
    mine, theirs = await whole(store), await whole(store, "red")
    assert [(body["kind"], body.get("run")) for body in mine] == [
        ("trail.gap", None),
        ("run.refused", "run-2"),
        ("run.refused", "run-3"),
        ("run.refused", "run-4"),
    ]
    assert (mine[0]["lost"], mine[0]["since"], mine[0]["until"]) == (
        2,
        "2030-03-17T17:46:40.000000Z",
        "2030-03-17T17:46:41.000000Z",
    )
    assert [body.get("lost", body.get("run")) for body in theirs] == [2, "run-2", "run-3"]
    lost = [record.getMessage() for record in caplog.records if "was lost" in record.getMessage()]
    assert len(lost) == 4
    told = json.loads(lost[0].partition("too many wait: ")[2])
    assert (told["kind"], told["run"], told["said"]) == ("run.refused", "run-0", "gone")
    assert "hunter2" not in caplog.text + json.dumps([*mine, *theirs])
    await store.close()


async def test_what_was_done_is_not_lost_for_what_was_refused_and_the_newest_goes_where_no_refusal_waits(
    away: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_trail, "OUTCOMES", 1)
    store, _ = open_store(folder=away)
    await put_and_wait(store, refusal(0), restart(Kind.RESTART_BEGUN), *map(refusal, range(1, 9)))
    store.trail.put([entry(number) for number in range(1, 5)])  # each takes the place of a refusal
    store.trail.put([entry(5), restart(Kind.RESTART_ENDED, outcome="ok"), restart(Kind.RESTART_ENDED, outcome="ok")])
    store.trail.put([refusal(9)])
    assert store.trail.failing is not None  # so that nothing that needs its records begins
    await anyio.Path(away).chmod(0o700)
    with pytest.raises(StoreUnavailable, match="were lost"):
        await store.trail.written()
    bodies = await whole(store)
    assert [(body["kind"], body.get("lost", body.get("run"))) for body in bodies] == [
        ("trail.gap", 12),  # ten refusals, the fifth beginning, and an outcome too many
        ("restart.begun", "run-1"),
        *[("run.begun", f"run-{number}") for number in range(1, 5)],
        ("restart.ended", "run-1"),
    ]
    await store.close()


async def test_who_waits_for_what_is_lost_meanwhile_does_not_take_it_to_be_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One waits while the store fails and comes back: only who had put something before what was lost is told."""
    monkeypatch.setattr(stored_trail, "MOST", 2)
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    store = place.store
    append, trail, errors = store.opened.append_here, store.trail, list[str]()
    held, goes_on = threading.Event(), threading.Event()

    def hold(entries: Any, made: Any) -> None:
        held.set()
        assert goes_on.wait(30)
        append(entries, made)

    def fail(*_: Any) -> None:
        raise StoreUnavailable("it is away")

    store.opened.append_here = fail  # type: ignore[method-assign,assignment]
    await put_and_wait(store, refusal(0))
    store.opened.append_here = hold  # type: ignore[method-assign]

    async def wait() -> None:
        try:
            await trail.written()
        except StoreUnavailable as error:
            errors.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)  # for what is in flight, and is kept
        await anyio.to_thread.run_sync(held.wait, 30)
        trail.put([refusal(1)])
        tasks.start_soon(wait)  # for this one, too
        await anyio.lowlevel.checkpoint()
        trail.put([entry(2), restart(Kind.RESTART_BEGUN)])
        goes_on.set()
    assert errors == [stored_trail.LOST]
    assert "restart.begun" not in [body["kind"] for body in await whole(store)]
    await store.close()


async def test_what_is_put_when_the_store_is_closed_is_not_taken_to_be_kept(place: Place) -> None:
    store = place.store
    await store.close()
    await put_and_wait(store, restart(Kind.RESTART_BEGUN))


async def test_closing_keeps_what_waits_and_a_last_checkpoint(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    anchored: list[str] = []
    store, reader = place.open(keeping=keeping(anchor=anchored.append))[0], place.store
    store.trail.put([entry(1), entry(2, "red")])
    await store.close()
    assert [len(await whole(reader, trail)) for trail in ("", "red")] == [1, 1]
    assert sorted(anchored) == sorted([*await reader.checkpoints(""), *await reader.checkpoints("red")])
    assert len(anchored) == 2
    store.trail.put([entry(3)])  # by a run that ends late
    assert "was lost: the store is closed" in caplog.text
    assert "run-3" in caplog.text
    await reader.close()


async def test_what_closing_cannot_keep_is_logged_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stored_trail, "PAUSE", 3_600)
    store, _ = open_store(url="postgresql://nobody@127.0.0.1:1/none")
    store.trail.put([entry(1), entry(2)])
    await store.close()
    lost = [record for record in caplog.records if "was lost" in record.getMessage()]
    assert ["run-1" in lost[0].getMessage(), "run-2" in lost[1].getMessage()] == [True, True]
    assert all(record.levelno == logging.ERROR for record in lost)


async def test_an_entry_whose_facts_cannot_be_written_down_is_there_without_them_and_keeps_nobody(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    def private(facts: Any) -> Any:
        return {key: value for key, value in facts.items() if value != "unspeakable" or 1 / 0}

    store = place.open(keeping=keeping(private=private))[0]
    bad = [entry(1, n=float("nan")), entry(2, o=object()), entry(3, seq=7), entry(4, said="unspeakable")]
    odd = Entry(Kind.RUN_ENDED, None, NOW, {"run": "a\0b", "caller": {"subject": "\ud800"}, "words": "\0\udfff ü"})
    store.trail.put([*bad, odd, entry(9)])
    await store.trail.written()
    assert [(body["kind"], body["run"], body.get("facts_lost")) for body in await whole(store)] == [
        ("run.begun", "run-1", "ValueError"),
        ("run.begun", "run-2", "TypeError"),
        ("run.begun", "run-3", "ValueError"),
        ("run.begun", "run-4", "ZeroDivisionError"),
        ("run.ended", "a\0b", None),
        ("run.begun", "run-9", None),
    ]
    found = await store.records("", after=4, most=1)
    assert (found[0].run_id, found[0].subject) == (None, None)
    assert "unspeakable" not in caplog.text
    await store.close()


async def test_two_processes_add_to_one_whole_chain(place: Place) -> None:
    where = json.dumps({name: str(value) for name, value in place.where.items()})
    async with anyio.create_task_group() as tasks:
        for name in ("one", "two"):
            tasks.start_soon(
                partial(anyio.run_process, cwd=ROOT),
                [sys.executable, "-m", "tests.store.appender", where, name, "30"],
            )
    reader = place.store
    bodies = await whole(reader)
    for name in ("one", "two"):
        assert [body["run"] for body in bodies if body["by"] == name] == [f"run-{number}" for number in range(30)]
    assert len(bodies) == 60
    await reader.close()


async def test_what_happens_to_a_ticket_is_recorded_with_it(place: Place) -> None:
    store = place.store
    made = await store.ask(question(), NOW, lifetime=300, most_open=20)
    await store.ask(question(), NOW, lifetime=300, most_open=20)  # the same: nothing new
    await store.decide(made.id, approve=True, by=APPROVER, reason="go on", now=NOW + 1)
    await store.use(made.id, BINDING, "run-7", [], NOW + 2)
    await store.use(made.id, BINDING, "run-8", [], NOW + 3)  # used already: nothing happens
    late = await store.ask(question(digest="2", tenant="red"), NOW + 3, lifetime=300, most_open=20)
    await store.tickets(None, NOW + 400)
    asked, decided, used = await whole(store)
    assert [asked["kind"], decided["kind"], used["kind"]] == ["ticket.asked", "ticket.decided", "ticket.used"]
    assert {body["ticket"] for body in (asked, decided, used)} == {made.id}
    assert asked["program"] == 'RESTART "database"'
    assert (asked["client_says"], asked["break_glass"], asked["tier"]) == ("An agent", None, 3)
    assert asked["worst_case"] == [{"command": "RESTART", "target": "database", "times": 1}]
    assert asked["caller"] == {
        "issuer": "https://login.example",
        "subject": "mona",
        "client": "an-agent",
        "tenant": None,
    }
    assert (decided["approved"], decided["by"]["subject"], decided["reason"]) == (True, "ada", "go on")
    assert used["run"] == "run-7"
    red = await whole(store, "red")
    assert [(body["kind"], body["ticket"]) for body in red] == [("ticket.asked", late.id), ("ticket.expired", late.id)]
    await store.close()

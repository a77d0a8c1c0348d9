"""Who gets a place, in which order, and what is told to those who get none; by a clock of the test's own."""

from collections.abc import Hashable
from typing import Any

import anyio
import pytest

from guideway.server.load import PLACE, Load, Place
from guideway.server.load_bounds import LoadBounds
from guideway.server.rates import Rates
from guideway.server.too_much import Bound, TooMuch

pytestmark = pytest.mark.anyio


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def bounded(clock: Clock | None = None, **bounds: Any) -> Load:
    return Load(LoadBounds(**bounds), ticks=clock or Clock())


async def refusal(load: Load, caller: Hashable) -> TooMuch:
    with pytest.raises(TooMuch) as caught:
        await load.place(caller)
    return caught.value


class Line:
    """Calls that wait, and in which order they got their places."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.order: list[Hashable] = []
        self.places: list[Place] = []
        self.refused: list[TooMuch] = []

    async def wait(self, caller: Hashable) -> None:
        try:
            place = await self.load.place(caller)
        except TooMuch as too_much:
            self.refused.append(too_much)
            return
        self.order.append(caller)
        self.places.append(place)


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_a_caller_has_so_many_calls_at_once_and_others_have_theirs() -> None:
    load = bounded(calls_at_once_of_caller=2)
    first, _ = await load.place("a"), await load.place("a")
    refused = await refusal(load, "a")
    assert (refused.bound, refused.status) == (Bound.CALLER_AT_ONCE, 429)
    assert str(refused) == "this caller has 2 calls at once, which is as many as may be"
    await load.place("b")
    first.close()
    await load.place("a")
    assert load.running == 3
    assert load.refused == {Bound.CALLER_AT_ONCE: 1}


async def test_a_minute_s_calls_are_refilled_evenly_and_what_is_told_is_true() -> None:
    clock = Clock()
    load = bounded(clock, calls_per_minute_of_caller=7)
    for _ in range(7):
        (await load.place("a")).close()
    for seconds in (9, 9, 8):
        refused = await refusal(load, "a")
        assert (refused.bound, refused.status, refused.retry_after) == (Bound.CALLER_RATE, 429, seconds)
        why = "this caller has made 7 calls in a minute, which is as many as may be"
        assert refused.words == f"{why}; try again in {seconds} s"
        (await load.place("b")).close()
        clock.now += seconds
        (await load.place("a")).close()
    assert load.refused == {Bound.CALLER_RATE: 3}


async def test_notes_have_a_rate_of_their_own() -> None:
    load = bounded(calls_per_minute_of_caller=1)
    (await load.place("a")).close()
    load.note("a")
    with pytest.raises(TooMuch, match="calls in a minute"):
        load.note("a")


async def test_whoever_is_the_only_one_has_all_places_at_any_rate() -> None:
    load = bounded(calls_at_once=3, calls_at_once_of_caller=1, calls_per_minute_of_caller=1, queue=0)
    for _ in range(3):
        await load.place(None)
    assert (await refusal(load, None)).bound is Bound.QUEUE


async def test_lines_have_their_turns_one_after_the_other() -> None:
    """One caller's hundred calls wait; another's two need not wait for them."""
    load = bounded(calls_at_once=1, calls_at_once_of_caller=200)
    running = await load.place("greedy")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(line.wait, "greedy")
        await settled()
        for caller in ("modest", "modest", "other"):
            tasks.start_soon(line.wait, caller)
        await settled()
        assert load.queued == 103
        running.close()
        for served in range(103):
            await settled()
            assert len(line.places) == served + 1
            line.places[served].close()
    assert line.order[:6] == ["greedy", "modest", "other", "greedy", "modest", "greedy"]
    assert (load.running, load.queued) == (0, 0)


async def test_a_full_queue_takes_from_the_longest_line() -> None:
    load = bounded(calls_at_once=1, queue=4)
    running = await load.place("a")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(line.wait, "greedy")
        await settled()
        tasks.start_soon(line.wait, "modest")
        await settled()
        assert [(each.bound, each.status) for each in line.refused] == [(Bound.QUEUE, 429)]
        assert str(line.refused[0]) == (
            "this caller has more calls that wait than its share: others have their turns too"
        )
        assert load.queued == 4
        assert (await refusal(load, "greedy")).status == 429, "it has the longest line itself"
        running.close()
        for served in range(4):
            await settled()
            line.places[served].close()
    assert line.order == ["greedy", "modest", "greedy", "greedy"]


async def test_a_queue_that_is_full_of_others_is_the_server_s_doing() -> None:
    load = bounded(calls_at_once=1, queue=2)
    await load.place("a")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        for caller in ("b", "c"):
            tasks.start_soon(line.wait, caller)
        await settled()
        refused = await refusal(load, "d")
        assert (refused.bound, refused.status) == (Bound.QUEUE, 503)
        assert str(refused) == "1 calls run at once and 2 wait, which is as many as may be"
        tasks.cancel_scope.cancel()


async def test_waiting_behind_one_s_own_calls_is_one_s_own_doing() -> None:
    load = Load(LoadBounds(calls_at_once=1, queue_seconds=0.05))
    running = await load.place("a")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(line.wait, "a")
        await settled()
        running.close()
    assert len(line.places) == 1
    assert [(each.bound, each.status) for each in line.refused] == [(Bound.QUEUE_SECONDS, 429)]


async def test_waiting_for_a_place_ends() -> None:
    load = Load(LoadBounds(calls_at_once=1, queue_seconds=0.01))
    running = await load.place("a")
    refused = await refusal(load, "b")
    assert (refused.bound, refused.status, refused.retry_after) == (Bound.QUEUE_SECONDS, 503, 1)
    assert (load.running, load.queued) == (1, 0)
    running.close()
    (await load.place("b")).close()


async def test_whoever_is_cancelled_while_waiting_leaves_nothing_behind() -> None:
    """Also where the place is granted in the same moment."""
    load = bounded(calls_at_once=1)
    for at_once in (False, True):
        running = await load.place("a")
        line = Line(load)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.wait, "b")
            await settled()
            if at_once:
                running.close()
            tasks.cancel_scope.cancel()
        running.close()
        assert len(line.places) == at_once, "whoever got it has to give it back"
        for place in line.places:
            place.close()
        assert (load.running, load.queued) == (0, 0)
    assert not load._own  # memory that nothing else shows


async def test_a_server_that_stops_tells_those_who_wait() -> None:
    load = bounded(calls_at_once=1)
    await load.place("a")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(line.wait, "b")
        await settled()
        load.turn_away()
    [refused] = line.refused
    assert (refused.status, refused.retry_after, refused.words) == (503, None, "the server is stopping")
    assert (await refusal(load, "c")).bound is Bound.STOPPING


async def test_who_waits_for_a_person_has_no_place_and_gets_one_back() -> None:
    load = bounded(calls_at_once=1, calls_at_once_of_caller=1, queue=0)
    place = await load.place("a")
    await place.enter()
    place.rest()
    assert load.running == 0
    other = await load.place("a")
    line = Line(load)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(place.resume)  # neither the caller's bound nor the queue's is for who had a place before
        await settled()
        assert load.queued == 1
        other.close()
    assert load.running == 1
    place.leave()
    place.close()
    await line.wait("a")
    assert line.order == ["a"]


async def test_a_run_whose_request_has_gone_keeps_its_place_until_it_ends() -> None:
    """In older revisions: else whoever hangs up could have any number of runs."""
    load = bounded(calls_at_once_of_caller=1)
    place = await load.place("a")
    await place.enter()
    place.close()
    assert load.running == 1
    assert (await refusal(load, "a")).bound is Bound.CALLER_AT_ONCE
    place.leave()
    (await load.place("a")).close()


async def test_a_run_that_begins_after_its_request_has_gone_needs_a_place_too() -> None:
    load = bounded(calls_at_once=1, queue=0)
    place = await load.place("a")
    place.close()
    other = await load.place("b")
    with pytest.raises(TooMuch):
        await place.enter()
    other.close()
    await place.enter()
    assert load.running == 1
    place.leave()
    assert load.running == 0


async def test_an_answer_that_is_not_read_counts_for_its_caller_alone() -> None:
    load = bounded(calls_at_once_of_caller=1)
    place = await load.place("a")
    await place.enter()
    place.leave()
    assert load.running == 0
    assert (await refusal(load, "a")).bound is Bound.CALLER_AT_ONCE
    place.close()
    (await load.place("a")).close()


async def test_a_run_without_a_door_gets_a_place_of_its_own() -> None:
    load = bounded(calls_at_once=1, queue=0)
    assert PLACE.get() is None
    async with load.run():
        assert load.running == 1
        with pytest.raises(TooMuch):
            async with load.run():
                pass
    assert load.running == 0


def test_rates_forget_the_fullest_bucket_and_never_grow() -> None:
    clock = Clock()
    rates = Rates(2, most=3, ticks=clock)
    for who in range(1_000):
        assert not rates.take(who)
    assert len(rates) == 3
    assert not rates.take(999)
    assert rates.take(999) == pytest.approx(30)
    assert rates.wait(999) == pytest.approx(30)
    clock.now += 30
    assert not rates.wait(999)
    assert not rates.take(999)
    clock.now += 1e6
    assert [rates.take(999) > 0 for _ in range(3)] == [False, False, True], "no more than a minute's worth is saved up"

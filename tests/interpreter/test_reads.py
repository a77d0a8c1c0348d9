"""Reads begun ahead leave the log of a walk that begins nothing ahead, sooner, and nothing else.

Random programs run in random worlds, in virtual time, beside a plain sequential walk: to their end, cut short at every
instant by each thing that can cut a run short, many at once, and with few places or many.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar
from unittest.mock import patch

import anyio
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from tests.attacks.cancelling import cancelled_at
from tests.interpreter.sequential import HOSTS, SERVICES, Call, Fact, Script, Sequential, fact
from tests.interpreter.virtual_time import run as in_virtual_time
from tests.interpreter.worlds import OPERATOR

from guideway.interpreter.drivers.base import Echo
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.reads import READS_OF_A_PROGRAM
from guideway.interpreter.results import Event, Outcome, Report, Status, Step

Result = TypeVar("Result")


def programs() -> st.SearchStrategy[str]:
    ping = st.sampled_from(HOSTS).map('PING "{}"'.format)
    read = ping | st.sampled_from(SERVICES).map('GET_STATUS "{}"'.format)
    restart = st.sampled_from(SERVICES).map('RESTART "{}"'.format)

    def body(statement: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.lists(statement, max_size=5).map(lambda inner: f"{{ {' '.join(inner)} }}")

    statement = st.recursive(
        st.one_of(read, read, read, restart),
        lambda inner: st.one_of(
            body(inner),
            st.tuples(body(inner), body(inner)).map(lambda bodies: "TRY {} CATCH {}".format(*bodies)),
            st.tuples(st.sampled_from(SERVICES), body(inner), body(inner)).map(
                lambda parts: 'IF_RUNNING "{}" THEN {} ELSE {}'.format(*parts)
            ),
        ),
        max_leaves=14,
    )
    return st.lists(statement, min_size=1, max_size=8).map(" ".join)


# Sums of these are all different, so that nothing happens twice at one instant by chance.
seconds = st.sampled_from([0.0, 0.011, 0.103, 1.007, 3.0013, 6.00017])
ping_calls = st.builds(Call, seconds, st.sampled_from(["tcp", "tcp", "icmp", "silent", "lost", "mistake", "hangs"]))
status_calls = st.builds(
    Call, seconds, st.sampled_from(["running", "running", "stopped", "degraded", "lost", "mistake", "hangs"])
)
restart_calls = st.builds(Call, seconds, st.sampled_from(["running", "running", "lost", "mistake", "hangs"]))
worlds = st.fixed_dictionaries(
    {f"host {name}": st.lists(ping_calls, min_size=1, max_size=3) for name in HOSTS}
    | {f"service {name}": st.lists(status_calls, min_size=1, max_size=3) for name in SERVICES}
    | {f"restart {name}": st.lists(restart_calls, min_size=1, max_size=3) for name in SERVICES}
)
places = st.sampled_from([1, 2, 3, 16])


@pytest.fixture(autouse=True)
def _no_log_of_mistakes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class Run:
    """One run in a fresh copy of a world: what was seen of it, its report, and when it was over."""

    def __init__(self, script: Script, text: str, caller: Principal = OPERATOR, **options: float) -> None:
        self.script = script
        self.events: list[Event] = []
        self.times: list[float] = []  # of the events
        self.reports: list[Report] = []
        self.ended = 0.0
        self._pipeline = script.pipeline(**options)  # type: ignore[arg-type]
        self._text, self._caller = text, caller

    async def __call__(self) -> "Run":
        try:
            self.reports.append(
                await self._pipeline.run(self._text, self._caller, observe=self._see, on_cancel=self.reports.append)
            )
        finally:
            self.ended = anyio.current_time()
            assert self.script.open == 0, "a call was left open"
            assert self._pipeline._places.open == 0
            assert not self._pipeline._places._waiting
        return self

    def _see(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(anyio.current_time())

    @property
    def report(self) -> Report:
        (report,) = self.reports
        return report

    @property
    def facts(self) -> list[Fact]:
        return [fact(event) for event in self.events]

    def agrees_within(self) -> None:
        """The report says what the observer saw, and each step that began has ended before the next."""
        steps = [event for event in self.events if isinstance(event, Step)]
        ended = [step for step in steps if step.outcome is not Outcome.RUNNING]
        assert list(self.report.steps) == ended
        assert sum(self.report.ran.values()) == len(steps) - len(ended)
        assert [step.number for step in ended] == list(range(1, len(ended) + 1))


def in_one_loop(main: Callable[[], Awaitable[Result]]) -> Result:
    """Run in virtual time, with every clock on it, and nothing left of it afterwards."""

    async def checked() -> Result:
        with (
            patch("guideway.interpreter.evaluator.time.time", anyio.current_time),
            patch("guideway.interpreter.begun.time.perf_counter", anyio.current_time),
        ):
            result = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return in_virtual_time(checked)


def sequentially(calls: dict[str, list[Call]], text: str) -> Sequential:
    return in_virtual_time(Sequential(Script(calls), text).run)


NEIGHBOURS = 'TRY { PING "x" { GET_STATUS "x" PING "y" } PING "x" RESTART "b" } CATCH { PING "z" PING "x" RESTART "c" }'


@settings(max_examples=200, deadline=None)
@given(programs(), worlds, places)
@example(NEIGHBOURS, {"host y": [Call(1.0, "silent")]}, 16)
def test_the_log_is_that_of_a_sequential_walk_and_is_there_no_later(
    text: str, calls: dict[str, list[Call]], reads_at_once: int
) -> None:
    law = sequentially(calls, text)
    run = in_one_loop(Run(Script(calls), text, reads_at_once=reads_at_once))
    assert run.facts == law.facts
    run.agrees_within()
    expected = Status.FAILED if not law.ok else Status.CONTAINED if run.report.containments else Status.COMPLETED
    assert run.report.status is expected
    assert run.ended <= law.ended + 1e-6
    assert run.ended - 1000.0 <= law.worst_seconds() + 1e-6
    assert run.script.most_open <= reads_at_once
    event("sooner" if run.ended < law.ended - 1e-6 else "as soon")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([*(f'PING "{name}"' for name in HOSTS), *(f'GET_STATUS "{name}"' for name in SERVICES)]),
        max_size=40,
    ),
    st.lists(seconds.filter(lambda value: value < 5), min_size=1, max_size=7),
    places,
)
def test_each_read_of_a_target_is_a_new_look_after_the_one_before(
    reads: list[str], takes: list[float], reads_at_once: int
) -> None:
    class Numbered(Script):
        looks = 0

        def _call(self, target: str) -> Call:
            looks = sum(name == target for _, name in self.begun)
            return Call(takes[(len(target) + 3 * looks) % len(takes)] + looks / 1000, "running")

    text = "{ " + " ".join(reads) + " }"
    law = in_virtual_time(Sequential(Numbered({}), text).run)
    assert in_one_loop(Run(Numbered({}), text, reads_at_once=reads_at_once)).facts == law.facts


# Cut short: by the pipeline's deadline, the end of the caller's authorization, or a cancellation. The first two just
# before and just after each instant at which something happens in the uncut run.

LATE = {"host x": [Call(3.0, "tcp")], "host y": [Call(1.0, "tcp")], "host z": [Call(1.1, "silent")]}
OUT_OF_STEP = 'TRY { PING "x" PING "y" PING "y" PING "z" PING "y" } CATCH { PING "x" }'


def instants(run: Run) -> list[float]:
    return sorted({time + shift for time in run.script.times for shift in (-0.0005, 0.0005) if time + shift > 1000})


def assert_cut(facts: list[Fact], whole: list[Fact], outcome: Outcome) -> None:
    """What was seen is what would have been, up to a step that ends with the outcome, or to the end of a step."""
    if facts and outcome in facts[-1]:
        *facts, last = facts
        runs = whole[len(facts) - (outcome is not Outcome.REFUSED)]  # what is refused is never seen to run
        assert (runs[:5], runs[5]) == (last[:5], Outcome.RUNNING)
    assert facts == whole[: len(facts)]


@settings(max_examples=50, deadline=None)
@given(programs(), worlds, places)
@example(OUT_OF_STEP, LATE, 16)
def test_the_pipelines_deadline_cuts_the_log_short_at_its_instant(
    text: str, calls: dict[str, list[Call]], reads_at_once: int
) -> None:
    whole = in_one_loop(Run(Script(calls), text, reads_at_once=reads_at_once))
    for instant in instants(whole):
        run = in_one_loop(Run(Script(calls), text, pipeline=instant - 1000, reads_at_once=reads_at_once))
        run.agrees_within()
        assert (run.report.status is Status.TIMED_OUT) == (whole.ended > instant)
        assert run.ended <= instant + 1e-6
        seen = [fact for fact, time in zip(run.facts, run.times, strict=True) if time < instant - 1e-6]
        assert seen == [fact for fact, time in zip(whole.facts, whole.times, strict=True) if time < instant]
        assert_cut(run.facts, whole.facts, Outcome.TIMED_OUT)


@settings(max_examples=50, deadline=None)
@given(programs(), worlds, places)
@example(OUT_OF_STEP, LATE, 16)
def test_the_end_of_the_authorization_refuses_the_first_step_whose_turn_comes_after_it(
    text: str, calls: dict[str, list[Call]], reads_at_once: int
) -> None:
    whole = in_one_loop(Run(Script(calls), text, reads_at_once=reads_at_once))
    turns = [
        time
        for event, time in zip(whole.events, whole.times, strict=True)
        if isinstance(event, Step) and event.outcome is Outcome.RUNNING
    ]
    for instant in instants(whole):
        caller = replace(OPERATOR, expires_at=instant)
        run = in_one_loop(Run(Script(calls), text, caller, reads_at_once=reads_at_once))
        run.agrees_within()
        assert_cut(run.facts, whole.facts, Outcome.REFUSED)
        in_time = sum(turn < instant for turn in turns)
        if in_time < len(turns):
            assert run.report.status is Status.REFUSED
            assert len(run.report.steps) == in_time + 1
        else:
            assert run.facts == whole.facts
        assert all(time < instant for time, target in run.script.begun if target.startswith("host"))


@settings(max_examples=30, deadline=None)
@given(programs(), worlds, places)
@example(OUT_OF_STEP, LATE, 16)
def test_a_cancellation_wherever_the_run_waits_cuts_the_sequential_log_short(
    text: str, calls: dict[str, list[Call]], reads_at_once: int
) -> None:
    law = sequentially(calls, text)
    at, cut = 1, True
    while cut:
        run = Run(Script(calls), text, reads_at_once=reads_at_once)

        async def attack(run: Run = run, at: int = at) -> bool:
            return await cancelled_at(at, run())

        cut = in_one_loop(attack)
        run.agrees_within()
        assert_cut(run.facts, law.facts, Outcome.CANCELLED)
        assert cut == (run.report.status is Status.CANCELLED)
        at += 1


# By example: what the law does not show.


def test_the_reads_of_a_block_are_made_at_once() -> None:
    run = in_one_loop(Run(Script({"host x": [Call(3, "tcp")], "host y": [Call(2, "tcp")]}), 'PING "x" { PING "y" }'))
    assert run.ended == 1003.0
    assert run.report.status is Status.COMPLETED


def test_two_targets_in_turns_are_read_side_by_side() -> None:
    run = in_one_loop(Run(Script({"host x": [Call(1, "tcp")], "host y": [Call(1, "tcp")]}), 'PING "x" PING "y" ' * 4))
    assert run.ended == 1004.0
    assert run.report.ran == {"PING": 8}


def test_nothing_is_begun_across_what_changes_or_decides() -> None:
    calls = {f"host {name}": [Call(1, "tcp")] for name in HOSTS} | {"restart b": [Call(1)], "service b": [Call(1)]}
    for between in ('RESTART "b"', 'IF_RUNNING "b" THEN { }', 'TRY { RESTART "b" } CATCH { }'):
        run = in_one_loop(Run(Script(calls), f'PING "x" PING "y" {between} PING "x" PING "z"'))
        begun = [target for _, target in run.script.begun]
        assert sorted(begun[:2]) == ["host x", "host y"]
        assert sorted(begun[-2:]) == ["host x", "host z"]
        assert next(time for time, target in run.script.begun if target.endswith(" b")) == 1001.0


def test_what_was_read_ahead_of_a_failure_is_cancelled_and_leaves_nothing() -> None:
    script = Script({"host x": [Call(1, "silent")], "host y": [Call(0.5, "tcp")], "host z": [Call(9, "hangs")]})
    run = in_one_loop(Run(script, 'PING "x" PING "y" PING "z"'))
    assert [target for _, target in script.begun] == ["host x", "host y", "host z"]
    assert run.ended == 1001.0
    assert [step.target for step in run.report.steps] == ["x"]
    assert run.report.ran == {"PING": 1}
    assert {event.target for event in run.events if isinstance(event, Step)} == {"x"}


def test_a_read_that_failed_ahead_is_made_again_when_its_turn_comes() -> None:
    """No CATCH runs for what failed earlier: a host that was down while another was waited for may be up by now."""

    class Recovers(Script):
        def _call(self, target: str) -> Call:
            if target == "host y":
                return Call(0.5, "silent" if anyio.current_time() < 1002 else "tcp")
            return super()._call(target)

    script = Recovers({"host x": [Call(3, "tcp")]})
    run = in_one_loop(Run(script, 'PING "x" PING "y" PING "y" PING "z"'))
    assert [step.outcome for step in run.report.steps] == [Outcome.OK] * 4
    asked = [time for time, target in script.begun if target == "host y"]
    assert asked == [1000.0, 1003.0, 1003.5]  # the second read of it waits for the first to be well
    assert run.report.steps[1].seconds == 0.5


def test_a_step_says_when_its_read_began_and_how_long_it_took() -> None:
    script = Script({"host x": [Call(3, "tcp")], "host y": [Call(2, "tcp")]})
    run = in_one_loop(Run(script, 'PING "x" PING "y" PING "x"'))
    assert [step.seconds for step in run.report.steps] == [3.0, 2.0, 3.0]
    running = [event for event in run.events if isinstance(event, Step) and event.outcome is Outcome.RUNNING]
    assert [step.started for step in running] == [step.started for step in run.report.steps]


def test_a_deadline_is_counted_from_the_read_itself() -> None:
    script = Script({"service b": [Call(4)], "service c": [Call(0, "hangs")]})
    run = in_one_loop(Run(script, 'GET_STATUS "b" GET_STATUS "c"'))
    assert [(step.outcome, step.seconds) for step in run.report.steps] == [(Outcome.OK, 4.0), (Outcome.FAILED, 8.0)]
    assert run.ended == 1008.0


def test_a_read_that_waits_for_a_place_has_not_begun() -> None:
    script = Script({f"host {name}": [Call(4, "tcp")] for name in HOSTS})
    run = in_one_loop(Run(script, 'PING "x" PING "y" PING "z"', reads_at_once=2))
    assert [(step.outcome, step.seconds) for step in run.report.steps] == [(Outcome.OK, 4.0)] * 3
    assert run.ended == 1008.0


def test_a_driver_that_cancels_itself_ends_no_sequence_as_if_it_were_the_caller() -> None:
    class Odd(Script):
        tries = 0

        async def read(self, target: str) -> Call:
            if target == "host y":
                self.tries += 1
                await anyio.sleep(1)
                if self.tries == 1:
                    raise asyncio.CancelledError
            return await super().read(target)

    for seconds_of_x in (0.5, 2):  # its turn has come by then, or has not
        script = Odd({"host x": [Call(seconds_of_x, "tcp")]})
        run = in_one_loop(Run(script, 'PING "x" PING "y" PING "y" PING "z"'))
        assert [step.outcome for step in run.report.steps] == [Outcome.OK] * 4
        assert script.tries == 3


# Many programs at once.


class Slow:
    """Hosts that all take their time; counts how many are asked at once."""

    def __init__(self, number: int, seconds_of_each: float) -> None:
        self.open = self.most_open = 0
        self.seconds = seconds_of_each
        self.hosts = [Host(f"host-{index}", self) for index in range(number)]

    async def probe(self) -> Echo:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await anyio.sleep(self.seconds)
        finally:
            self.open -= 1
        return Echo("slow", self.seconds)


def pings(*numbers: int) -> str:
    return " ".join(f'PING "host-{number}"' for number in numbers)


def test_a_program_has_no_more_reads_ahead_than_it_may() -> None:
    slow = Slow(100, 1)
    pipeline = Pipeline(Inventory(slow.hosts), reads_at_once=1_000)
    report = in_virtual_time(lambda: pipeline.run(pings(*range(100)), OPERATOR))
    assert report.status is Status.COMPLETED
    assert READS_OF_A_PROGRAM <= slow.most_open <= READS_OF_A_PROGRAM + 1


def test_no_more_is_begun_ahead_than_there_are_places_and_every_program_goes_on() -> None:
    slow = Slow(50, 1)
    pipeline = Pipeline(Inventory(slow.hosts), deadlines=Deadlines(pipeline=1_000), reads_at_once=20)
    reports: list[Report] = []

    async def one(shift: int) -> None:
        reports.append(await pipeline.run(pings(*((shift + index) % 50 for index in range(30))), OPERATOR))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for shift in range(10):
                tasks.start_soon(one, shift)
        assert anyio.current_time() <= 1000 + 10 * 30 / 19 + 2

    in_virtual_time(main)
    assert [report.status for report in reports] == [Status.COMPLETED] * 10
    assert 19 <= slow.most_open <= 19 + 10
    assert pipeline._places.open == 0


def test_whoever_has_all_places_holds_up_nobody() -> None:
    """One caller's hosts all hang, and take every place: another's program runs as if nothing were begun ahead."""
    hanging, quick = Slow(100, 10_000), Slow(100, 1)
    inventory = Inventory([*hanging.hosts, *(Host(f"quick-{index}", quick) for index in range(5))])
    deadlines = Deadlines(ping=20_000, pipeline=1_000)
    pipeline = Pipeline(inventory, deadlines=deadlines, reads_at_once=16)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipeline.run, pings(*range(100)), OPERATOR)
            await anyio.sleep(1)
            since = anyio.current_time()
            report = await pipeline.run(" ".join(f'PING "quick-{index}"' for index in range(5)), OPERATOR)
            assert report.status is Status.COMPLETED
            assert anyio.current_time() - since == 5
            tasks.cancel_scope.cancel()
        assert hanging.open == pipeline._places.open == 0

    in_virtual_time(main)


def test_places_go_round_between_programs() -> None:
    """A program with few targets waits for a place as long as one with many, not behind each read of theirs."""
    slow = Slow(300, 1)
    pipeline = Pipeline(Inventory(slow.hosts), deadlines=Deadlines(pipeline=1_000), reads_at_once=6)
    ended: dict[str, float] = {}

    async def one(name: str, *numbers: int) -> None:
        await pipeline.run(pings(*numbers), OPERATOR)
        ended[name] = anyio.current_time() - 1000

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: one("many", *range(200)))
            await anyio.sleep(0.5)
            tasks.start_soon(lambda: one("few", *[297, 298, 299] * 10))

    in_virtual_time(main)
    assert ended["few"] < 15  # 30 reads, three at once; 18 if each read of the other waited like a program

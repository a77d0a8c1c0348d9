"""What holds of every restart: it ends by its deadline, for the right reason, and leaves nothing behind."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.interpreter.virtual_time import run

from guideway.interpreter.drivers.base import BRING_BACK_SECONDS, Echo, Fault, Observation, Phase, bring_back
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import RESERVE_SECONDS, Service

# Whole numbers, so that no case lies within a poll of a limit.
times = st.sampled_from([0, 1, 3, 7, 20])


def expected(driver: MemoryDriver, settle: float, deadline: float) -> Reason | None:
    """Say how a restart of a service in memory ends, None for ok: the same law, worked out on paper."""
    cut = deadline - min(RESERVE_SECONDS, deadline / 10)
    runs = driver.state not in {State.STOPPED, State.FAILED}
    down = driver.stop_seconds if runs else 0
    up = down + driver.start_seconds
    if driver.behaviour is Behaviour.UNREACHABLE:
        return Reason.UNREACHABLE
    if driver.behaviour is Behaviour.NO_PERMISSION:
        return Reason.NO_PERMISSION
    if down > cut or (runs and driver.behaviour is Behaviour.NEVER_STOPS):
        return Reason.STOP_TIMED_OUT
    if up > cut or driver.behaviour is Behaviour.NEVER_STARTS:
        return Reason.START_TIMED_OUT
    if driver.behaviour is Behaviour.DIES_AT_ONCE:
        return Reason.START_FAILED
    if driver.behaviour is Behaviour.NEVER_HEALTHY:
        return Reason.UNHEALTHY
    if driver.behaviour is Behaviour.DIES_LATER and driver.life_seconds < min(settle, cut - up):
        return Reason.START_FAILED
    return None if up + settle < cut else Reason.START_TIMED_OUT


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(State),
    st.sampled_from(Behaviour),
    times,
    times,
    st.sampled_from([0.4, 4.4, 40.4]),
    st.sampled_from([0.0, 2.2, 5.2]),
    st.sampled_from([1.7, 5.7, 12.7, 60.7]),
)
def test_a_restart_ends_as_the_law_says(  # noqa: PLR0917  # what the law depends on
    state: State, behaviour: Behaviour, stop: int, start: int, life: float, settle: float, deadline: float
) -> None:
    driver = MemoryDriver(state, behaviour, stop_seconds=stop, start_seconds=start, life_seconds=life)
    law = expected(driver, settle, deadline)

    async def main() -> None:
        began = anyio.current_time()
        try:
            seen = await Service("a", driver, settle=settle).restart(deadline)
        except Fault as fault:
            found: Reason | None = fault.reason
        else:
            found = None
            assert (seen.state, seen.identity) == (State.RUNNING, "2")
        assert found is law
        assert anyio.current_time() - began <= deadline + 1e-6

    run(main)
    event(f"{law}")


class MistakeError(Exception):
    """What no driver may raise."""


@dataclass
class Chaos:
    """A driver and a probe without any law. ``dice`` says what each call does, and repeats when it is used up.

    It keeps its one promise: after a cancellation it takes no longer than it is allowed to.
    """

    dice: list[tuple[float, int]]
    turn: int = 0
    closed: list[str] = field(default_factory=list)

    async def roll(self) -> int:
        seconds, side = self.dice[self.turn % len(self.dice)]
        self.turn += 1
        if side == 0:
            await anyio.sleep_forever()
        await anyio.sleep(seconds)
        if side == 1:
            raise Fault(list(Reason)[self.turn % len(Reason)], "it says that it failed")
        if side == 2:
            raise MistakeError
        return side

    async def observe(self) -> Observation:
        side = await self.roll()
        state = list(State)[side % len(State)]
        return Observation(state, None if side % 5 == 0 else str(side // 7))

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:
        try:
            for phase in Phase:
                if await self.roll() % 3:
                    enter(phase)
        except anyio.get_cancelled_exc_class():
            with bring_back(end):
                await self.roll()
            raise

    async def tail(self) -> str:
        return str(await self.roll())

    async def close(self) -> None:
        pass

    async def probe(self) -> Echo:
        await self.roll()
        return Echo("chaos", 0.0)


rolls = st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.3, 5.0]), st.integers(0, 40)), min_size=1, max_size=20)


@settings(max_examples=1000, deadline=None)
@given(rolls, st.booleans(), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.01, 0.9, 5.0, 60.0]))
def test_whatever_a_driver_does_a_restart_ends_in_time_and_with_a_reason(
    dice: list[tuple[float, int]], checked: bool, settle: float, deadline: float
) -> None:
    chaos = Chaos(dice)
    service = Service("a", chaos, health=chaos if checked else None, settle=settle)

    async def main() -> None:
        began = anyio.current_time()
        try:
            seen = await service.restart(deadline)
        except Fault as fault:  # anything else fails the test
            event(fault.reason)
        else:
            assert seen.state is State.RUNNING
            event("ok")
        assert anyio.current_time() - began <= deadline + 1e-6
        assert len(asyncio.all_tasks()) == 1

    run(main)


@settings(max_examples=500, deadline=None)
@given(rolls, st.sampled_from([0.0, 0.01, 0.3, 2.0, 7.0]), st.sampled_from([9.0, 60.0]))
def test_whatever_a_driver_does_a_cancelled_restart_stops(
    dice: list[tuple[float, int]], after: float, deadline: float
) -> None:
    chaos = Chaos(dice)
    service = Service("a", chaos, health=chaos)

    async def main() -> None:
        began = anyio.current_time()
        with anyio.move_on_after(after):
            try:
                await service.restart(deadline)
            except Fault:
                return
        assert anyio.current_time() - began <= min(after + BRING_BACK_SECONDS, deadline) + 1e-6
        assert len(asyncio.all_tasks()) == 1

    run(main)

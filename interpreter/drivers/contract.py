"""What every driver does, as checks that any test framework can run against a real service of that driver.

Owns what the rest of the program relies on. Holds no backend: a ``Stage`` sets up each situation, and each check of
``CHECKS`` is a coroutine function that takes it and raises ``BrokenError`` where the driver does not do as it must::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.anyio
    async def test_contract(check, stage):
        await check(stage)
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

import anyio
import anyio.lowlevel

from guideway.interpreter.drivers.base import BRING_BACK_SECONDS, Fault, Observation, Phase, ServiceDriver
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

#: What a stage's services must do within: a restart, a stop, a start.
PATIENCE_SECONDS = 30.0
_CUTS = 25  # a restart is cancelled at so many moments of its usual duration
_T = TypeVar("_T")


class BrokenError(AssertionError):
    """A driver does not do what every driver must."""


class Stage(Protocol):
    """The situations that a driver is tried in. Each method sets one up and returns a new driver for its service."""

    async def running(self) -> ServiceDriver:
        """Return one whose service runs, and that a restart brings back within a few seconds."""
        ...

    async def stopped(self) -> ServiceDriver:
        """Return one whose service does not run, by somebody's wish, and that can be started."""
        ...

    async def dies(self) -> ServiceDriver:
        """Return one whose service ends within half a second of each start, with an error."""
        ...

    async def unknown(self) -> ServiceDriver | None:
        """Return one whose service the manager does not know, None where the manager knows every name."""
        ...

    async def unreachable(self) -> ServiceDriver:
        """Return one whose service manager is not there."""
        ...


async def a_running_service_is_seen_as_one(stage: Stage) -> None:
    """It has an identity, which stays while it does."""
    async with _closed(await stage.running()) as driver:
        seen = await _settled(driver)
        _must(seen.state is State.RUNNING, f"a service that runs is seen as {seen.state}")
        _must(bool(seen.identity), "a service that runs has no identity")
        again = await driver.observe()
        _must(again.identity == seen.identity, "the identity changed, and the service did not")


async def a_stopped_service_is_seen_as_one(stage: Stage) -> None:
    """It has no identity."""
    async with _closed(await stage.stopped()) as driver:
        seen = await driver.observe()
        _must(seen.state is State.STOPPED, f"a service that was stopped is seen as {seen.state}")
        _must(seen.identity is None, "a service that does not run has an identity")


async def a_restart_brings_another_instance(stage: Stage) -> None:
    """And tells its phases in their order."""
    async with _closed(await stage.running()) as driver:
        before = await _settled(driver)
        phases: list[Phase] = []
        await _restart(driver, phases.append)
        after = await _settled(driver)
        _must(after.state is State.RUNNING, f"after a restart the service is {after.state}")
        _must(after.identity != before.identity, "after a restart the identity is the same")
        orders = ([Phase.STOPPING, Phase.STARTING], [Phase.REPLACING, Phase.STARTING])
        _must(phases in orders, f"the phases of a restart were {', '.join(phases) or 'not told'}")


async def a_restart_starts_what_is_stopped(stage: Stage) -> None:
    """Or it is refused as ``start_failed``, by a manager that cannot know what to start, and nothing is changed."""
    async with _closed(await stage.stopped()) as driver:
        phases: list[Phase] = []
        try:
            await _restart(driver, phases.append)
        except Fault as fault:
            _must(
                fault.reason is Reason.START_FAILED and not phases,
                f"the restart of a stopped service ended as {fault.reason}, after it had begun",
            )
            seen = await driver.observe()
            _must(seen.state is State.STOPPED, f"a stopped service whose restart was refused is {seen.state}")
            return
        seen = await _settled(driver)
        _must(seen.state is State.RUNNING, f"after the restart of a stopped service it is {seen.state}")
        _must(phases[-1:] == [Phase.STARTING], "the start of a stopped service was not told")


async def a_service_that_dies_is_not_restarted(stage: Stage) -> None:
    """Whether the driver says so, or what it sees afterwards does."""
    async with _closed(await stage.dies()) as driver:
        fault = await _fault(Service("dies", driver, settle=2.0).restart(PATIENCE_SECONDS))
        _must(fault.reason is Reason.START_FAILED, f"the restart of a service that dies ended as {fault.reason}")


async def a_service_that_is_not_known_is_not_found(stage: Stage) -> None:
    """For a look and for a restart."""
    driver = await stage.unknown()
    if driver is None:
        return
    async with _closed(driver):
        for call in (driver.observe, partial(_restart, driver)):
            fault = await _fault(call())
            _must(fault.reason is Reason.NOT_FOUND, f"a service that is not known is {fault.reason}")


async def a_manager_that_is_not_there_is_unreachable(stage: Stage) -> None:
    """For a look and for a restart, and at once."""
    async with _closed(await stage.unreachable()) as driver:
        for call in (driver.observe, partial(_restart, driver)):
            fault = await _fault(call())
            _must(fault.reason is Reason.UNREACHABLE, f"a service manager that is not there is {fault.reason}")


async def a_restart_cancelled_at_any_moment_leaves_the_service_up(stage: Stage) -> None:
    """Nobody who cancels means to take a service down. And it ends in the time that it may take for that."""
    async with _closed(await stage.running()) as driver:
        await _settled(driver)
        began = anyio.current_time()
        await _restart(driver)
        usual = anyio.current_time() - began
        for cut in range(_CUTS):
            with anyio.move_on_after(usual * cut / (_CUTS - 1)) as scope:
                await driver.restart(_unheard, anyio.current_time() + PATIENCE_SECONDS)
            late = anyio.current_time() - scope.deadline
            _must(late < BRING_BACK_SECONDS + 5, f"a cancelled restart took {late:.3g} s to end")
            seen = await _settled(driver)
            _must(seen.state is State.RUNNING, f"a restart that was cancelled left the service {seen.state}")


async def a_look_cancelled_at_any_moment_does_no_harm(stage: Stage) -> None:
    """The next one is answered."""
    async with _closed(await stage.running()) as driver:
        for milliseconds in range(10):
            with anyio.move_on_after(milliseconds / 2000):
                await driver.observe()
            seen = await _settled(driver)
            _must(seen.state is State.RUNNING, f"after a cancelled look the service is seen as {seen.state}")


async def looks_can_be_many_at_once(stage: Stage) -> None:
    """They say the same."""
    async with _closed(await stage.running()) as driver:
        await _settled(driver)
        seen: list[str | None] = []

        async def look() -> None:
            seen.append((await driver.observe()).identity)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(look)
        _must(len(seen) == 20 and len(set(seen)) == 1, "looks at one moment saw different instances")


async def the_log_is_text(stage: Stage) -> None:
    """Of a service that runs and of one that died."""
    for driver in (await stage.running(), await stage.dies()):
        async with _closed(driver):
            _must(isinstance(await driver.tail(), str), "the end of the log is not text")


async def a_driver_that_is_closed_holds_nothing(stage: Stage) -> None:
    """It can be closed twice, before it was used, and after a failure; no task of it is left."""
    before = len(asyncio.all_tasks())
    unused, used, failed = await stage.running(), await stage.running(), await stage.unreachable()
    await used.observe()
    await _fault(failed.observe())
    for driver in (unused, used, failed):
        await driver.close()
        await driver.close()
    await anyio.lowlevel.checkpoint()  # tasks that are over are gone at the loop's next turn
    _must(len(asyncio.all_tasks()) <= before, "a closed driver left a task")


#: Everything that a driver must do.
CHECKS: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    a_running_service_is_seen_as_one,
    a_stopped_service_is_seen_as_one,
    a_restart_brings_another_instance,
    a_restart_starts_what_is_stopped,
    a_service_that_dies_is_not_restarted,
    a_service_that_is_not_known_is_not_found,
    a_manager_that_is_not_there_is_unreachable,
    a_restart_cancelled_at_any_moment_leaves_the_service_up,
    a_look_cancelled_at_any_moment_does_no_harm,
    looks_can_be_many_at_once,
    the_log_is_text,
    a_driver_that_is_closed_holds_nothing,
)


@asynccontextmanager
async def _closed(driver: ServiceDriver) -> AsyncIterator[ServiceDriver]:
    try:
        yield driver
    finally:
        await driver.close()


async def _settled(driver: ServiceDriver) -> Observation:
    """Return what a service is once it is neither starting nor stopping."""
    with anyio.move_on_after(PATIENCE_SECONDS):
        while True:
            seen = await driver.observe()
            if seen.state not in {State.STARTING, State.STOPPING}:
                return seen
            await anyio.sleep(0.01)
    raise BrokenError(f"the service did not settle within {PATIENCE_SECONDS:g} s")


async def _restart(driver: ServiceDriver, enter: Callable[[Phase], None] | None = None) -> None:
    await _in_time(driver.restart(enter or _unheard, anyio.current_time() + PATIENCE_SECONDS))


async def _fault(call: Awaitable[object]) -> Fault:
    """Return the fault that a call ends with, and see to its words."""
    try:
        await _in_time(call)
    except Fault as fault:
        words = fault.message
        _must(
            bool(words) and not words[0].isupper() and not words.endswith("."),
            f"a message begins small and ends without a full stop: {words!r}",
        )
        _must(not re.search(r"[\x00-\x1f]", words), "a message holds control characters; what a backend says is output")
        return fault
    except Exception as error:
        raise BrokenError(f"a driver raises nothing but Fault, and not {type(error).__name__}") from error
    raise BrokenError("what could not be done was done")


async def _in_time(call: Awaitable[_T]) -> _T:
    with anyio.move_on_after(PATIENCE_SECONDS):
        return await call
    raise BrokenError(f"a call took more than {PATIENCE_SECONDS:g} s")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenError(otherwise)


def _unheard(_: Phase) -> None:
    """Take note of no phase."""

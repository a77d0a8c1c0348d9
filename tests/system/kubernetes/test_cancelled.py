"""Calls to Kubernetes that are cancelled or run out of time at any of their awaits leave nothing, on recorded answers.

The recording is of one look and one restart. It is given from its beginning each time.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.kubernetes.conftest import connections
from tests.system.kubernetes.world import World

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.results import Reason, State

pytestmark = pytest.mark.anyio


async def cut_at_each_await(world: World, work: Callable[[ServiceDriver], Coroutine[Any, Any, object]]) -> int:
    """Cancel what ``work`` makes of a new driver at each of its waits in turn; return how many there were."""
    for at in itertools.count(1):
        world.rewind()
        before = len(asyncio.all_tasks())
        was_cut = await cancelled_at(at, work(world.driver()))
        await world.close()
        assert len(asyncio.all_tasks()) <= before, at
        assert connections(world.address) == 0, at
        if not was_cut:
            return at - 1
    raise AssertionError


async def _restarted(driver: ServiceDriver) -> None:
    await driver.restart(lambda _: None, anyio.current_time() + 60)


async def _seen(driver: ServiceDriver) -> None:
    await driver.observe()


async def test_a_look_and_a_restart_can_be_cancelled_at_each_await(world: World) -> None:
    world.deploy()
    world.recording.mark()
    driver = world.driver()
    await _seen(driver)
    await _restarted(driver)
    await world.close()
    if world.is_recorded:
        assert await cut_at_each_await(world, _seen) > 3
        assert await cut_at_each_await(world, _restarted) > 10


async def test_a_restart_holds_any_deadline(world: World) -> None:
    world.deploy()
    world.change_template(ready=False)
    await world.driver().tail()
    world.recording.mark()
    await world.close()
    for deadline in (0.001, 0.01, 0.05, 0.2, 0.5):
        world.rewind()
        service = world.service()
        with pytest.raises(Fault) as raised:
            await service.restart(deadline)
        await world.close()
        assert raised.value.reason in {Reason.TIMED_OUT, Reason.STOP_TIMED_OUT, Reason.START_TIMED_OUT}
    with anyio.fail_after(30):
        assert (await world.driver().observe()).state in {State.STARTING, State.RUNNING}

"""Calls to Kubernetes that are cancelled or run out of time at any of their awaits leave nothing, on recorded answers.

The recording is of one look and one restart. It is given from its beginning each time.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

import anyio
import pytest
from tests.system.kubernetes.conftest import connections
from tests.system.kubernetes.world import World

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = pytest.mark.anyio


class Cut:
    """An awaitable that runs a coroutine, and has its task cancelled when it waits for the ``at``-th time."""

    def __init__(self, work: Coroutine[Any, Any, object], at: int) -> None:
        self._work = work
        self._at = at
        self.is_over = False

    def __await__(self) -> Generator[Any, Any, None]:
        waits = 0
        sent: Any = None
        step = self._work.send
        while True:
            try:
                waited = step(sent)
            except StopIteration:
                self.is_over = True
                return
            waits += 1
            if waits == self._at:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                sent, step = (yield waited), self._work.send
            except BaseException as error:  # noqa: BLE001  # it is the work's own
                sent, step = error, self._work.throw


async def cut_at_each_await(world: World, work: Any) -> int:
    """Run what ``work`` makes of a new driver until it is over without a cut, and return how often it was cut."""
    cuts = 0
    while True:
        world.recording.rewind()
        before = len(asyncio.all_tasks())
        driver = world.driver()
        cut = Cut(work(driver), cuts + 1)
        task = asyncio.create_task(_run(cut))
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        await world.close()
        assert len(asyncio.all_tasks()) <= before
        assert connections(world.address) == 0
        if cut.is_over:
            return cuts
        assert task.cancelled()
        cuts += 1


async def _run(cut: Cut) -> None:
    await cut


async def _restarted(driver: ServiceDriver) -> None:
    await Service("web", driver, settle=0.1).restart(60)


async def _seen(driver: ServiceDriver) -> None:
    await driver.observe()


async def test_a_look_and_a_restart_can_be_cancelled_at_each_await(world: World) -> None:
    world.deploy()
    world.recording.mark()
    driver = world.driver()
    await _seen(driver)
    await _restarted(driver)
    if world.is_recorded:
        assert await cut_at_each_await(world, _seen) > 3
        assert await cut_at_each_await(world, _restarted) > 10


async def test_a_restart_holds_any_deadline(world: World) -> None:
    world.deploy()
    world.change_template(ready=False)
    world.recording.mark()
    service = world.service()
    for deadline in (0.001, 0.01, 0.05, 0.2, 0.5):
        world.recording.rewind()
        with pytest.raises(Fault) as raised:
            await service.restart(deadline)
        assert raised.value.reason in {Reason.TIMED_OUT, Reason.STOP_TIMED_OUT, Reason.START_TIMED_OUT}
    with anyio.fail_after(30):
        assert (await world.driver().observe()).state in {State.STARTING, State.RUNNING}

"""Somebody goes away while a container is looked at or restarted: at each single point where that waits."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.container_drivers import driver
from tests.system.engines import Engine
from tests.system.remains import leaving_nothing
from tests.system.test_supervisord import soon

from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.results import State

Work = Callable[[ServiceDriver], Coroutine[Any, Any, object]]


def at_each_point(engine: Engine, name: str, work: Work, afterwards: Callable[[], Awaitable[None]]) -> int:
    """Cancel some work at each point where it waits, until it waits no more; return at how many it was.

    Not under anyio's plugin, which fails for all that the loop logs. One thing is no fault of ours: a unix socket of
    anyio's that becomes readable in the turn in which its reader is cancelled sets a result that nobody waits for.
    """
    logged: list[object] = []

    async def attack() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context.get("exception")))
        step = 1
        async with leaving_nothing(engine.connections):
            while await cancelled_at(step, work(driver(engine, name))):
                await afterwards()
                step += 1
        return step

    steps = anyio.run(attack)
    assert [error for error in logged if not isinstance(error, asyncio.InvalidStateError)] == []
    return steps


async def nothing() -> None:
    pass


@pytest.mark.parametrize("what", ["observe", "tail", "check_restart"])
def test_a_question_leaves_nothing(engine: Engine, what: str) -> None:
    started = engine.run("good")
    assert at_each_point(engine, "good", lambda one: getattr(one, what)(), nothing) > 2
    assert engine.started("good") == started


def test_a_restart_leaves_the_service_up(engine: Engine) -> None:
    async def is_up() -> None:
        assert (await driver(engine, "quick").observe()).state is State.RUNNING

    engine.run("quick")
    assert at_each_point(engine, "quick", lambda one: one.restart(lambda _: None, soon(30)), is_up) > 4

"""Somebody goes away in the midst of a run: at each single point where it waits, one after the other.

The story: an agent's host is killed, a network breaks, a person presses Ctrl-C. Whenever that is, the run stops,
nothing of it is left (no task, no socket, no lock), and a service that a restart had stopped is brought back.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

import anyio
import pytest

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.results import Event, Outcome, Reason, State, Step
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from tests.attacks.cancelling import cancelled_at
from tests.interpreter.virtual_time import run as in_virtual_time
from tests.interpreter.worlds import OPERATOR, HostInMemory, World
from tests.system.remains import in_quiet, nothing_more_than
from tests.system.supervisord import Supervisord

PROGRAM = """
TRY { IF_RUNNING "one" THEN { PING "silent" } ELSE { RESTART "one" } }
CATCH { RESTART "one" GET_STATUS "one" RESTART "two" }
"""


@pytest.mark.parametrize("behaviour", [Behaviour.GOOD, Behaviour.DIES_AT_ONCE, Behaviour.NEVER_HEALTHY])
def test_a_run_in_memory_is_cancelled_at_each_point(behaviour: Behaviour) -> None:
    async def attack(at: int) -> bool:
        world = World(
            {
                "one": MemoryDriver(stop_seconds=0.1, start_seconds=0.1),
                "two": MemoryDriver(behaviour=behaviour, stop_seconds=0.1, start_seconds=0.1),
            },
            {"silent": HostInMemory(seconds=0.1, fault=Fault(Reason.NO_ANSWER, "no answer"))},
        )
        pipeline = world.pipeline(restart=3)
        seen: list[Step] = []

        def observe(event: Event) -> None:
            if isinstance(event, Step):
                seen.append(event)

        cut = await cancelled_at(at, pipeline.run(PROGRAM, OPERATOR, observe=observe))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        ended = [step for step in seen if step.outcome is not Outcome.RUNNING]
        assert len(ended) == len(seen) - len(ended), "a step that began was not logged as ended"
        if cut:
            assert [step.outcome for step in ended].count(Outcome.CANCELLED) <= 1
            assert all(step.outcome is not Outcome.CANCELLED for step in ended[:-1])
            last = ended[-1]
            if (last.command, last.outcome) == ("RESTART", Outcome.CANCELLED):
                assert last.message in {"nothing was done to it yet", "its start was asked for"}
        assert world.services["one"].state in {State.RUNNING, State.STARTING}
        if behaviour is not Behaviour.DIES_AT_ONCE:
            assert world.services["two"].state in {State.RUNNING, State.STARTING, State.DEGRADED}
        report = await pipeline.run('RESTART "one"', OPERATOR)  # its lock is free
        assert report.status == "completed"
        return cut

    at = 1
    while in_virtual_time(partial(attack, at)):
        at += 1
    assert at > 5, "the run has fewer points than it should"


@pytest.fixture(scope="module")
def supervisord() -> Iterator[Supervisord]:
    with Supervisord({"one": ["sleep", "1000"]}, {"one": {"stopwaitsecs": "1"}}) as running:
        yield running


def test_a_run_on_supervisord_is_cancelled_at_each_point(supervisord: Supervisord) -> None:
    # Not under anyio's plugin, which fails for all that the loop logs. One thing is no fault of ours: a unix socket of
    # anyio's that becomes readable in the turn in which its reader is cancelled sets a result that nobody waits for.
    logged: list[object] = []

    async def attack() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context.get("exception")))
        await _cancel_at_each_point(supervisord)

    anyio.run(attack)
    assert [error for error in logged if not isinstance(error, asyncio.InvalidStateError)] == []


async def _cancel_at_each_point(supervisord: Supervisord) -> None:
    driver = SupervisordOptions(program="one", socket=supervisord.socket).build()
    pipeline = Pipeline(
        Inventory(services=[Service("one", driver, settle=0, risk=HARMLESS)]), deadlines=Deadlines(restart=30)
    )
    assert (await pipeline.run('RESTART "one"', OPERATOR)).status == "completed"
    await driver.close()  # ends the connection that it keeps
    before = await in_quiet()
    at = 1
    while await cancelled_at(at, pipeline.run('IF_RUNNING "one" THEN TRY RESTART "one" CATCH { }', OPERATOR)):
        await driver.close()
        await nothing_more_than(before)
        await anyio.to_thread.run_sync(supervisord.wait_until, "one", "RUNNING")
        at += 1
    assert at > 5, "the run has fewer points than it should"
    assert (await pipeline.run('RESTART "one"', OPERATOR)).status == "completed"  # its lock is free
    await driver.close()

"""Restarts of containers that are not ok, each with its reason, and those that are cancelled, on both engines."""

import anyio
import pytest
from tests.system.container_drivers import checking, driver, service
from tests.system.engines import Engine
from tests.system.supervisord import wait_for
from tests.system.test_supervisord import restart_fails, soon, unused_port

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


# ---- every way in which an accepted restart is not a service that works


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "no such file or directory"),
        ("no_user", "unable to find user nosuchuser"),
        ("dies_at_once", "its main process exited with status 3"),
        ("dies_later", "its main process exited with status 3"),
        ("dies_unchecked", "its main process exited with status 3"),
        ("leaves", ""),
        ("task", ""),
        ("hungry", ""),
        ("returns", ""),
        ("returns_at_once", ""),
        ("returns_unchecked", ""),
        ("returns_sick", ""),
    ],
)
async def test_a_container_that_does_not_work_has_not_been_restarted(engine: Engine, name: str, told: str) -> None:
    fault = await restart_fails(service(engine, name, settle=1.5))
    assert fault.reason is Reason.START_FAILED
    assert told in (fault.message + "\n" + fault.output).lower()  # runc and crun spell it each in its own way
    if engine.inspect(name)["HostConfig"]["RestartPolicy"]["Name"] == "always":
        engine.stop(name)


def task(engine: Engine, name: str) -> Service:
    """Return a container that is there to run to its end."""
    return Service(name, driver(engine, name, task=True), settle=0.2)


@pytest.mark.parametrize("name", ["task", "leaves"])
async def test_a_task_that_runs_to_its_end_has_been_restarted(engine: Engine, name: str) -> None:
    one = task(engine, name)
    for _ in range(2):
        before = engine.started(name)
        seen = await one.restart(30)
        assert (seen.state, seen.completed) == (State.STOPPED, True)
        assert engine.started(name) != before
        assert (await one.state()).state is State.STOPPED


@pytest.mark.parametrize("name", ["dies_at_once", "dies_later", "returns", "missing", "hungry"])
async def test_a_task_that_fails_has_not_been_restarted(engine: Engine, name: str) -> None:
    fault = await restart_fails(task(engine, name))
    assert fault.reason is Reason.START_FAILED
    if engine.inspect(name)["HostConfig"]["RestartPolicy"]["Name"] == "always":
        engine.stop(name)
    elif name != "missing":  # which Podman calls created, as if nobody had tried
        assert (await task(engine, name).state()).state is State.FAILED


async def test_a_task_that_goes_on_at_the_deadline_was_not_over(engine: Engine) -> None:
    fault = await restart_fails(task(engine, "quick"), deadline=3)
    assert (fault.reason, "its start was not over" in fault.message) == (Reason.START_TIMED_OUT, True)


@pytest.mark.parametrize("name", ["dies_at_once", "dies_later"])
async def test_what_it_wrote_last_is_told(engine: Engine, name: str) -> None:
    assert "no such database" in (await restart_fails(service(engine, name, settle=1.5))).output


async def test_what_runs_and_is_not_well_is_waited_for_until_the_deadline(engine: Engine) -> None:
    """And a crash loop is told from a health that is not known yet: it is not waited for."""
    for name in ("unchecked", "unhealthy", "good"):
        engine.run(name)
    nobody = TcpProbe("127.0.0.1", unused_port())
    faults: dict[str, Fault] = {}

    async def fails(name: str, one: Service) -> None:
        faults[name] = await restart_fails(one, deadline=8)

    async with checking(engine, "unhealthy"), anyio.create_task_group() as tasks:
        tasks.start_soon(fails, "good", service(engine, "good", health=nobody))
        for name in ("unchecked", "unhealthy", "returns_unchecked"):
            tasks.start_soon(fails, name, service(engine, name))
    assert {name: fault.reason for name, fault in faults.items()} == {
        "good": Reason.UNHEALTHY,
        "unchecked": Reason.START_TIMED_OUT,
        "unhealthy": Reason.UNHEALTHY,
        "returns_unchecked": Reason.START_FAILED,
    }
    assert "no such table" in faults["unhealthy"].output
    for name in faults:
        engine.stop(name)


async def test_a_container_that_refuses_to_stop(engine: Engine) -> None:
    started = engine.run("stubborn")
    fault = await restart_fails(service(engine, "stubborn"), deadline=1)
    assert fault.reason is Reason.STOP_TIMED_OUT
    assert "its service manager starts it again" in fault.message
    assert engine.started("stubborn") == started
    engine.kill("stubborn")
    wait_for(lambda: engine.started("stubborn") != started, "it to be started again")  # as the message says
    engine.kill("stubborn")
    engine.wait_until("stubborn", "exited")


async def test_a_container_that_is_stopped_while_it_settles(engine: Engine) -> None:
    engine.run("good")
    async with anyio.create_task_group() as tasks:

        async def fails() -> None:
            assert (await restart_fails(service(engine, "good", settle=20))).reason is Reason.START_FAILED

        before = engine.started("good")
        tasks.start_soon(fails)
        while await anyio.to_thread.run_sync(engine.started, "good") == before:
            await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(engine.stop, "good")


async def test_a_container_that_is_made_anew_while_it_settles_is_another(engine: Engine) -> None:
    settings = {"Cmd": ["sleep", "100000"], "StopTimeout": 0}
    engine.create("anew", settings)
    before = engine.run("anew")
    async with anyio.create_task_group() as tasks:

        async def fails() -> None:
            fault = await restart_fails(service(engine, "anew", settle=20))
            assert fault.reason in {Reason.START_FAILED, Reason.NOT_FOUND, Reason.UNKNOWN}  # as it is met

        tasks.start_soon(fails)
        while await anyio.to_thread.run_sync(engine.started, "anew") == before:
            await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(engine.ask, "DELETE", "/containers/anew?force=1")
        await anyio.to_thread.run_sync(engine.create, "anew", settings)
    engine.ask("DELETE", "/containers/anew?force=1")


# ---- cancellation


async def test_a_restart_cancelled_while_it_stops_is_seen_to_its_end(engine: Engine) -> None:
    started = engine.run("dragging")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver(engine, "dragging").restart, lambda _: None, soon(20))
        await anyio.sleep(0.3)
        tasks.cancel_scope.cancel()
    assert (engine.state("dragging"), engine.started("dragging") != started) == ("running", True)


async def test_a_restart_that_is_given_up_in_a_long_stop_says_so_in_the_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    started = engine.run("stubborn")
    with anyio.move_on_after(0.4):
        await driver(engine, "stubborn").restart(lambda _: None, soon(0.6))
    assert "stubborn: still stopping when the restart was given up; the engine goes on with it" in caplog.text
    engine.kill("stubborn")
    wait_for(lambda: engine.started("stubborn") != started, "it to be started again")

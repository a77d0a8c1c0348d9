"""Services that are containers of a real Docker and a real Podman: what they are, and the restarts that are ok."""

import socket

import anyio
import pytest
from tests.system.container_drivers import checking, driver, service
from tests.system.engines import Engine
from tests.system.test_supervisord import restart_fails, soon

from guideway.interpreter.drivers.base import Fault, Phase
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, State
from guideway.interpreter.untrusted import clean

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


# ---- names


@pytest.mark.parametrize("digits", [1, 4, 12, 64])
async def test_the_beginning_of_an_id_is_no_name(engine: Engine, digits: int) -> None:
    """Both engines take it for one, where no container has that name."""
    started = engine.run("other")
    beginning = engine.inspect("other")["Id"][:digits]
    for call in (service(engine, beginning).state(), driver(engine, beginning).restart(lambda _: None, soon(5))):
        with pytest.raises(Fault, match="no container of the configured name") as caught:
            await call
        assert caught.value.reason is Reason.NOT_FOUND
    with pytest.raises(Fault):
        await driver(engine, beginning).tail()
    assert engine.started("other") == started


async def test_a_name_that_looks_like_an_id_is_a_name(engine: Engine) -> None:
    """A container is called as the id of another begins: that other one is left alone."""
    started = engine.run("other")
    name = engine.inspect("other")["Id"][:6]
    engine.create(name, {"Cmd": ["sleep", "100000"], "StopTimeout": 0})
    try:
        assert (await service(engine, name).restart(30)).state is State.RUNNING
        assert engine.state(name) == "running"
        assert engine.started("other") == started
    finally:
        engine.ask("DELETE", f"/containers/{name}?force=1")


async def test_a_container_that_the_engine_does_not_know(engine: Engine) -> None:
    with pytest.raises(Fault) as caught:
        await service(engine, "unknown").state()
    assert caught.value.reason is Reason.NOT_FOUND
    assert (await restart_fails(service(engine, "unknown"))).reason is Reason.NOT_FOUND


# ---- states


async def test_a_container_that_runs_is_known_by_its_start(engine: Engine) -> None:
    started = engine.run("other")
    seen = await driver(engine, "other").observe()
    assert (seen.state, seen.output) == (State.RUNNING, "running")
    assert seen.identity == f"{engine.inspect('other')['Id'][:12]}@{started}"


async def test_a_container_that_was_never_started_is_stopped(engine: Engine) -> None:
    seen = await driver(engine, "never").observe()
    assert (seen.state, seen.identity) == (State.STOPPED, None)


@pytest.mark.parametrize("name", ["good", "terminated"])
async def test_a_container_that_ends_because_it_was_asked_to_is_stopped(engine: Engine, name: str) -> None:
    engine.run(name)
    engine.stop(name)
    assert (await service(engine, name).state()).state is State.STOPPED


async def test_a_container_that_has_to_be_killed_has_failed(engine: Engine) -> None:
    engine.run("dragging")
    engine.ask("POST", "/containers/dragging/stop?t=0")
    engine.wait_until("dragging", "exited")
    seen = await service(engine, "dragging").state()
    assert seen.state is State.FAILED
    assert "its main process exited with status 137" in seen.output


async def test_a_container_that_failed_says_why_and_what_it_wrote_last(engine: Engine) -> None:
    engine.run("dies_later")
    engine.wait_until("dies_later", "exited")
    seen = await service(engine, "dies_later").state()
    assert seen.state is State.FAILED
    assert "its main process exited with status 3" in seen.output
    assert seen.output.endswith("started\nno such database\n")


async def test_a_container_that_cannot_be_started_has_failed_where_its_engine_remembers(engine: Engine) -> None:
    with pytest.raises(OSError, match=r"(?i)no such file or directory"):
        engine.run("missing")
    seen = await service(engine, "missing").state()
    if engine.kind == "docker":
        assert seen.state is State.FAILED
        assert "no such file or directory" in seen.output
    else:
        assert seen.state is State.STOPPED


async def test_a_container_that_was_killed_for_its_memory_says_so_where_its_engine_does(engine: Engine) -> None:
    engine.run("hungry")
    engine.wait_until("hungry", "exited")
    seen = await service(engine, "hungry").state()
    assert seen.state is State.FAILED
    told = "because memory ran out" if engine.inspect("hungry")["State"]["OOMKilled"] else "exited with status 137"
    assert told in seen.output


async def test_a_paused_container_serves_nobody_and_is_the_same_afterwards(engine: Engine) -> None:
    started = engine.run("other")
    before = await driver(engine, "other").observe()
    engine.ask("POST", "/containers/other/pause")
    seen = await service(engine, "other").state()
    assert (seen.state, seen.identity) == (State.DEGRADED, before.identity)
    assert seen.output.startswith("paused")
    fault = await restart_fails(service(engine, "other"))
    assert fault.reason is Reason.START_FAILED
    assert "it is paused" in fault.message
    engine.ask("POST", "/containers/other/unpause")
    assert engine.started("other") == started
    assert (await service(engine, "other").state()).state is State.RUNNING


@pytest.mark.parametrize("name", ["returns", "returns_at_once"])
async def test_a_container_in_a_crash_loop_is_seen_to_come_and_go(engine: Engine, name: str) -> None:
    engine.run(name)
    one = driver(engine, name)
    seen: set[State] = set()
    with anyio.move_on_after(20):
        while not {State.RUNNING, State.STARTING if engine.kind == "docker" else State.STOPPING} <= seen:
            observed = await one.observe()
            seen.add(observed.state)
            assert (observed.identity is not None) is (observed.state is State.RUNNING)
    assert seen <= {State.RUNNING, State.STARTING, State.STOPPING, State.FAILED}
    assert len(seen) >= 2
    while "started again" not in (await one.observe()).output:
        await anyio.sleep(0.02)
    engine.stop(name)


# ---- health


async def test_what_a_health_check_comes_to_is_the_state(engine: Engine) -> None:
    engine.run("unchecked")
    assert (await driver(engine, "unchecked").observe()).state is State.STARTING
    engine.run("healthy")
    engine.wait_for_health("healthy", "healthy")
    seen = await driver(engine, "healthy").observe()
    assert (seen.state, seen.output) == (State.RUNNING, "running (healthy)")
    engine.run("unhealthy")
    engine.wait_for_health("unhealthy", "unhealthy")
    seen = await driver(engine, "unhealthy").observe()
    assert seen.state is State.DEGRADED
    assert seen.output.startswith("running (unhealthy)")
    assert "no such table" in seen.output
    assert seen.identity is not None
    for name in ("unchecked", "healthy", "unhealthy"):
        engine.stop(name)
    assert (await driver(engine, "unhealthy").observe()).state is State.STOPPED  # whatever its health was


# ---- logs


async def test_both_streams_of_a_container_are_its_log(engine: Engine) -> None:
    engine.run("dies_later")
    engine.wait_until("dies_later", "exited")
    assert (await driver(engine, "dies_later").tail()).endswith("started\nno such database\n")


async def test_a_container_on_a_terminal_has_a_log_too(engine: Engine) -> None:
    engine.run("terminal")
    while not (said := await driver(engine, "terminal").tail()):
        await anyio.sleep(0.02)
    assert clean(said) == "on a terminal"
    engine.ask("POST", "/containers/terminal/kill")


async def test_a_log_is_read_at_its_end_and_is_text(engine: Engine) -> None:
    engine.run("wordy")
    engine.run("binary")
    for name in ("wordy", "binary"):
        engine.wait_until(name, "exited")
    said = await driver(engine, "wordy").tail()
    assert said.endswith("äöü€𝄞899\n")
    assert said.count("\n") <= 50
    assert "\ufffd\ufffd" in await driver(engine, "binary").tail()


async def test_a_log_with_lines_longer_than_what_is_read_still_has_its_end(engine: Engine) -> None:
    engine.run("endless")
    engine.wait_until("endless", "exited")
    # Docker keeps a log in pieces of 16 KiB and counts those; Podman counts lines.
    assert (await driver(engine, "endless").tail()).endswith("the end\n")
    seen = await service(engine, "endless").state()
    assert "exited with status 3" in seen.output


async def test_a_container_that_never_ran_has_no_log(engine: Engine) -> None:
    assert await driver(engine, "never").tail() == ""


# ---- restarts that are ok


async def test_a_running_container_is_replaced(engine: Engine) -> None:
    started = engine.run("good")
    assert (await service(engine, "good").restart(30)).state is State.RUNNING
    assert engine.started("good") != started
    phases: list[Phase] = []
    seen = await driver(engine, "good").restart(phases.append, soon(10))
    assert phases == [Phase.REPLACING, Phase.STARTING]
    assert seen is not None
    assert seen.identity == (await driver(engine, "good").observe()).identity


async def test_a_container_is_given_its_own_time_to_stop(engine: Engine) -> None:
    """Podman kills at once where a request does not say how long to wait."""
    engine.create(
        "polite", {"Cmd": ["sh", "-c", 'trap "sleep 0.5; echo farewell; exit 0" TERM; echo ready; sleep 9999 & wait']}
    )
    try:
        engine.ask("POST", "/containers/polite/start")
        while b"ready" not in engine.log("polite"):
            await anyio.sleep(0.02)
        if engine.kind == "podman":  # by its API, not by its commands, a container has no time to stop unless it asks
            assert engine.inspect("polite")["Config"]["StopTimeout"] == 0
        await driver(engine, "polite").restart(lambda _: None, soon(30))
        assert (b"farewell" in engine.log("polite")) is (engine.kind == "docker")
    finally:
        engine.ask("DELETE", "/containers/polite?force=1")


async def test_a_stopped_and_a_failed_container_are_started(engine: Engine) -> None:
    engine.run("good")
    engine.stop("good")
    phases: list[Phase] = []
    await driver(engine, "good").restart(phases.append, soon(10))
    assert phases == [Phase.STARTING]
    engine.ask("POST", "/containers/good/kill")
    engine.wait_until("good", "exited")
    assert (await service(engine, "good").restart(30)).state is State.RUNNING


async def test_a_container_that_never_ran_is_started(engine: Engine) -> None:
    engine.create("new", {"Cmd": ["sleep", "100000"], "StopTimeout": 0})
    assert (await service(engine, "new").restart(30)).state is State.RUNNING
    engine.ask("DELETE", "/containers/new?force=1")


async def test_a_container_that_is_removed_when_it_ends_is_not_removed_by_a_restart(engine: Engine) -> None:
    """Docker starts it again first. With Podman the two cross, and what could be gone for good is not stopped."""
    started = engine.run("removed")
    one = service(engine, "removed")
    if engine.kind == "docker":
        assert (await one.restart(30)).state is State.RUNNING
        assert engine.started("removed") != started
    else:
        fault = await restart_fails(one)
        assert (fault.reason, "`--rm`" in fault.message) == (Reason.START_FAILED, True)
        assert (engine.state("removed"), engine.started("removed")) == ("running", started)


async def test_a_container_that_is_killed_because_it_does_not_stop(engine: Engine) -> None:
    started = engine.run("dragging")
    assert (await service(engine, "dragging").restart(30)).state is State.RUNNING
    assert engine.started("dragging") != started


async def test_a_health_check_of_its_own_is_waited_for(engine: Engine) -> None:
    engine.run("healthy")
    async with checking(engine, "healthy"):
        assert (await service(engine, "healthy").restart(30)).output == "running (healthy)"


async def test_a_container_that_is_unhealthy_at_first_may_recover(engine: Engine) -> None:
    engine.run("recovers")
    async with checking(engine, "recovers"):
        assert (await service(engine, "recovers").restart(30)).state is State.RUNNING


async def test_a_healthy_container_is_restarted_with_its_health_checked(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        health = TcpProbe("127.0.0.1", server.getsockname()[1])
        assert (await service(engine, "good", health=health).restart(30)).state is State.RUNNING


async def test_three_restarts_at_once_of_one_container_under_three_names_are_all_ok(engine: Engine) -> None:
    """Podman refuses those that come while it stops the container; they are asked for again."""
    started = engine.run("good")
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(driver(engine, "good").restart, lambda _: None, soon(60))
    assert (await driver(engine, "good").observe()).state is State.RUNNING
    assert engine.started("good") != started

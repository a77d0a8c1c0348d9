"""Services behind a real supervisord: what they are, and what a restart of each kind of program comes to."""

import os
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.interpreter.worlds import OPERATOR
from tests.system.remains import closed_later
from tests.system.supervisord import Supervisord, wait_for

from guideway.interpreter.drivers import base
from guideway.interpreter.drivers.base import Fault, Phase, ServiceDriver
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Event, Outcome, Reason, State, Step
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.interpreter.untrusted import clean

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

PROGRAMS = {
    "good": ["sleep", "1000"],
    "other": ["sleep", "1000"],
    "slow": ["sleep", "1000"],  # counts as started after a second
    "leaves": ["sh", "-c", "sleep 0.2; exit 0"],
    "dies_at_once": ["sh", "-c", "echo no such database >&2; exit 3"],
    "dies_quickly": ["sh", "-c", "echo no such database >&2; exit 3"],  # before it counts as started
    "dies_later": ["sh", "-c", "sleep 0.5; echo ran out of luck; exit 3"],
    "dies_again": ["sh", "-c", "sleep 0.5; exit 3"],  # and is started again each time
    "stubborn": ["sh", "-c", "trap '' TERM; exec sleep 1000"],
    "dragging": ["sh", "-c", "trap '' TERM; exec sleep 1000"],  # killed after a second
    "lingering": ["sh", "-c", "trap '' TERM; exec sleep 1000"],  # killed after six
    "missing": ["/nonexistent/program"],
    "forbidden": ["/etc/passwd"],
    "colourful": ["sh", "-c", "printf '\\033[31mred\\033[0m \\001\\n'; exit 3"],
    "binary": ["sh", "-c", "printf '\\377\\376\\n'; exit 3"],
    "wordy": ["sh", "-c", "i=0; while [ $i -lt 900 ]; do echo äöü€𝄞$i; i=$((i+1)); done; exit 3"],
}
SETTINGS = {
    # A SIGTERM that comes between fork and exec is lost in supervisord's own handler: then it is killed after a second.
    "good": {"stopwaitsecs": "1"},
    "slow": {"startsecs": "1"},
    "dies_quickly": {"startsecs": "1", "startretries": "3"},
    "dies_again": {"autorestart": "true"},
    "stubborn": {"stopwaitsecs": "600"},
    "dragging": {"stopwaitsecs": "1"},
    "lingering": {"stopwaitsecs": "6"},
    "colourful": {"redirect_stderr": "true"},
}


@pytest.fixture(scope="module")
def world() -> Iterator[Supervisord]:
    with Supervisord(PROGRAMS, SETTINGS) as running:
        yield running


def driver(world: Supervisord, program: str) -> ServiceDriver:
    return closed_later(SupervisordOptions(program=program, socket=world.socket).build())


def service(world: Supervisord, program: str, *, settle: float = 0.2, health: TcpProbe | None = None) -> Service:
    return Service(program, driver(world, program), settle=settle, health=health, risk=HARMLESS)


async def restart_fails(what: Service, deadline: float = 30) -> Fault:
    began = anyio.current_time()
    with pytest.raises(Fault) as caught:
        await what.restart(deadline)
    # What counts is that it ends by itself; the slack is for a machine that is busy.
    assert anyio.current_time() - began < deadline + 5
    return caught.value


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ---- states


async def test_a_program_that_runs_is_known_by_its_process(world: Supervisord) -> None:
    pid = world.run("other")
    seen = await driver(world, "other").observe()
    assert (seen.state, seen.identity) == (State.RUNNING, f"{pid}@{world.info('other')['start']}")
    assert f"pid {pid}" in seen.output
    world.stop("other")
    seen = await driver(world, "other").observe()
    assert (seen.state, seen.identity) == (State.STOPPED, None)


async def test_a_program_that_was_never_started_is_stopped(world: Supervisord) -> None:
    assert (await service(world, "forbidden").state()).state is State.STOPPED


async def test_a_program_that_left_as_expected_is_stopped(world: Supervisord) -> None:
    world.run("leaves")
    world.wait_until("leaves", "EXITED")
    assert (await service(world, "leaves").state()).state is State.STOPPED


async def test_a_program_that_was_killed_has_failed(world: Supervisord) -> None:
    os.kill(world.run("other"), signal.SIGKILL)
    world.wait_until("other", "EXITED")
    assert (await service(world, "other").state()).state is State.FAILED


async def test_a_program_that_failed_shows_the_end_of_its_log(world: Supervisord) -> None:
    world.run("dies_later")
    world.wait_until("dies_later", "EXITED")
    seen = await service(world, "dies_later").state()
    assert seen.state is State.FAILED
    assert "Bad exit code 3" in seen.output
    assert "ran out of luck" in seen.output


async def test_a_program_that_is_coming_up_is_starting_and_waited_for(world: Supervisord) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, world.run, "slow")
        await anyio.to_thread.run_sync(world.wait_until, "slow", "STARTING")
        assert (await driver(world, "slow").observe()).state is State.STARTING
        assert (await service(world, "slow").settled()).state is State.RUNNING


async def test_a_program_that_is_being_stopped_is_stopping(world: Supervisord) -> None:
    ignoring(world, "dragging")
    world.stop("dragging", wait=False)
    assert (await driver(world, "dragging").observe()).state is State.STOPPING
    assert (await service(world, "dragging").settled()).state is State.STOPPED


async def test_a_program_that_does_not_answer_is_degraded(world: Supervisord) -> None:
    world.run("other")
    seen = await service(world, "other", health=TcpProbe("127.0.0.1", unused_port())).state()
    assert seen.state is State.DEGRADED
    assert "health check: connection refused" in seen.output
    world.stop("other")


# ---- restarts


async def test_a_running_program_is_replaced(world: Supervisord) -> None:
    pid = world.run("good") if world.pid("good") == 0 else world.pid("good")
    phases: list[Phase] = []
    seen = await service(world, "good").restart(30)
    assert seen.state is State.RUNNING
    assert world.pid("good") not in {0, pid}
    await driver(world, "good").restart(phases.append, soon(5))
    assert phases == [Phase.STOPPING, Phase.STARTING]


async def test_a_stopped_program_is_started(world: Supervisord) -> None:
    if world.pid("good"):
        world.stop("good")
    assert (await service(world, "good").restart(30)).state is State.RUNNING
    assert world.state("good") == "RUNNING"


async def test_a_program_that_is_just_stopping_is_started_when_it_has_stopped(world: Supervisord) -> None:
    pid = ignoring(world, "dragging")
    world.stop("dragging", wait=False)
    assert (await service(world, "dragging").restart(30)).state is State.RUNNING
    assert world.pid("dragging") not in {0, pid}


async def test_a_healthy_program_is_restarted_with_its_health_checked(world: Supervisord) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        health = TcpProbe("127.0.0.1", server.getsockname()[1])
        assert (await service(world, "good", health=health).restart(30)).state is State.RUNNING


@pytest.mark.parametrize(("program", "told"), [("dies_at_once", "no such database"), ("dies_later", "ran out of luck")])
async def test_a_program_that_dies_has_not_been_restarted(world: Supervisord, program: str, told: str) -> None:
    """supervisord calls it started both times; the settle time finds out."""
    fault = await restart_fails(service(world, program, settle=1.5))
    assert fault.reason is Reason.START_FAILED
    assert told in fault.output


async def test_a_program_that_dies_before_it_counts_as_started(world: Supervisord) -> None:
    fault = await restart_fails(service(world, "dies_quickly"))
    assert fault.reason is Reason.START_FAILED
    assert "no such database" in fault.output


async def test_a_program_that_dies_and_is_started_again_is_not_well(world: Supervisord) -> None:
    fault = await restart_fails(service(world, "dies_again", settle=3))
    assert fault.reason is Reason.START_FAILED
    world.stop("dies_again")


async def test_a_program_that_never_answers_its_health_check(world: Supervisord) -> None:
    fault = await restart_fails(service(world, "good", health=TcpProbe("127.0.0.1", unused_port())), deadline=1.5)
    assert fault.reason is Reason.UNHEALTHY
    assert "connection refused" in fault.message


async def test_a_program_that_refuses_to_stop(world: Supervisord) -> None:
    pid = ignoring(world, "stubborn")
    fault = await restart_fails(service(world, "stubborn"), deadline=1)
    assert fault.reason is Reason.STOP_TIMED_OUT
    assert world.state("stubborn") == "STOPPING"
    os.kill(pid, signal.SIGKILL)
    world.wait_until("stubborn", "STOPPED")


async def test_a_program_that_is_killed_because_it_does_not_stop(world: Supervisord) -> None:
    pid = ignoring(world, "dragging")
    assert (await service(world, "dragging").restart(30)).state is State.RUNNING
    assert world.pid("dragging") not in {0, pid}


async def test_a_stop_may_take_longer_than_http_clients_wait_by_default(world: Supervisord) -> None:
    ignoring(world, "lingering")
    assert (await service(world, "lingering").restart(60)).state is State.RUNNING


async def test_a_program_that_is_slow_to_start(world: Supervisord) -> None:
    assert (await restart_fails(service(world, "slow"), deadline=0.5)).reason is Reason.START_TIMED_OUT
    world.wait_until("slow", "RUNNING")  # it was left to start


@pytest.mark.parametrize(
    ("program", "message"),
    [("missing", "its command does not exist"), ("forbidden", "its command cannot be executed")],
)
async def test_a_program_without_a_command_to_run(world: Supervisord, program: str, message: str) -> None:
    fault = await restart_fails(service(world, program))
    assert (fault.reason, fault.message) == (Reason.START_FAILED, message)
    assert PROGRAMS[program][0] in fault.output


async def test_a_program_of_a_group_under_half_its_name_is_told_the_whole() -> None:
    numbered = {"numprocs": "2", "process_name": "%(program_name)s_%(process_num)d"}
    with Supervisord({"many": ["sleep", "1000"]}, {"many": numbered}) as world:
        for name in ("many", "many_1"):
            with pytest.raises(Fault) as caught:
                await service(world, name).state()
            assert caught.value.reason is Reason.NOT_FOUND
            assert "`many:many_1`" in caught.value.mend
            assert "many_1" not in caught.value.message + caught.value.output.removeprefix(f"BAD_NAME: {name}")


async def test_a_program_that_supervisord_does_not_know(world: Supervisord) -> None:
    assert (await restart_fails(service(world, "unknown"))).reason is Reason.NOT_FOUND
    with pytest.raises(Fault, match="no program of the configured name"):
        await service(world, "unknown").state()


async def test_three_restarts_at_once_all_bring_a_new_process(world: Supervisord) -> None:
    pipeline = Pipeline(Inventory(services=[service(world, "good")]))
    spawned = (world.folder / "supervisord.log").read_text().count("spawned: 'good'")
    statuses: list[str] = []

    async def one() -> None:
        statuses.append((await pipeline.run('RESTART "good"', OPERATOR)).status)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert statuses == ["completed"] * 3
    assert (world.folder / "supervisord.log").read_text().count("spawned: 'good'") == spawned + 3
    assert world.state("good") == "RUNNING"


# ---- logs


async def test_a_log_with_colours_and_control_characters_can_be_read(world: Supervisord) -> None:
    """supervisord puts them into its XML as they are, which is then no XML."""
    fault = await restart_fails(service(world, "colourful"))
    assert fault.reason is Reason.START_FAILED
    assert "\x1b[31mred\x1b[0m \x01" in fault.output
    assert clean(fault.output).endswith("\nred ")


async def test_a_log_that_is_cut_within_a_character_can_be_read(world: Supervisord) -> None:
    fault = await restart_fails(service(world, "wordy"))
    assert fault.reason is Reason.START_FAILED
    assert fault.output.rstrip().endswith("äöü€𝄞899")
    assert len(fault.output.encode()) < 5000


async def test_a_log_that_is_no_text_is_named_as_such(world: Supervisord) -> None:
    fault = await restart_fails(service(world, "binary"))
    assert fault.reason is Reason.START_FAILED
    assert "not UTF-8" in fault.output


# ---- cancellation


async def test_a_restart_cancelled_between_stop_and_start_brings_the_service_back(world: Supervisord) -> None:
    await service(world, "good").restart(30)
    pid = world.pid("good")
    with anyio.CancelScope() as scope:
        await driver(world, "good").restart(lambda phase: scope.cancel() if phase is Phase.STARTING else None, soon(5))
    assert scope.cancelled_caught
    assert world.state("good") == "RUNNING"
    assert world.pid("good") not in {0, pid}


async def test_a_restart_cancelled_before_the_stop_leaves_the_service_alone(world: Supervisord) -> None:
    await service(world, "good").restart(30)
    pid = world.pid("good")
    with anyio.CancelScope() as scope:
        await driver(world, "good").restart(lambda _: scope.cancel(), soon(5))
    assert world.pid("good") == pid


async def test_a_restart_cancelled_while_it_stops_brings_the_service_back(world: Supervisord) -> None:
    pid = ignoring(world, "dragging")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver(world, "dragging").restart, lambda _: None, soon(20))
        await anyio.to_thread.run_sync(world.wait_until, "dragging", "STOPPING")
        tasks.cancel_scope.cancel()
    assert world.state("dragging") == "RUNNING"
    assert world.pid("dragging") not in {0, pid}


async def test_a_restart_cancelled_at_any_moment_leaves_the_service_up(world: Supervisord) -> None:
    await service(world, "good").restart(30)
    for milliseconds in range(0, 40, 2):
        with anyio.move_on_after(milliseconds / 1000):
            await service(world, "good", settle=0).restart(30)
        await anyio.to_thread.run_sync(world.wait_until, "good", "RUNNING")


async def test_a_restart_that_is_given_up_in_a_long_stop_says_so_in_the_log(
    world: Supervisord, caplog: pytest.LogCaptureFixture
) -> None:
    pid = ignoring(world, "stubborn")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver(world, "stubborn").restart, lambda _: None, soon(0.3))
            await anyio.to_thread.run_sync(world.wait_until, "stubborn", "STOPPING")
            scope.cancel()
    assert "stubborn: it was still stopping when the restart was given up, and nothing starts it again" in caplog.text
    os.kill(pid, signal.SIGKILL)
    world.wait_until("stubborn", "STOPPED")


@pytest.mark.parametrize(
    ("name", "told"),
    [("good", "its start was asked for"), ("stubborn", "it may be stopped, and nothing starts it again")],
)
async def test_the_step_of_a_cancelled_restart_says_what_it_leaves(
    world: Supervisord, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setattr(base, "BRING_BACK_SECONDS", 0.3)
    pid = ignoring(world, name) if name == "stubborn" else world.pid(name) or world.run(name)
    steps: list[Step] = []

    def observe(event: Event) -> None:
        if isinstance(event, Step):
            steps.append(event)

    pipeline = Pipeline(Inventory(services=[service(world, name, settle=30)]))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(pipeline.run, f'RESTART "{name}"', OPERATOR, observe=observe))
            await anyio.to_thread.run_sync(lambda: wait_for(lambda: _moved(world, name, pid), "the restart to act"))
            scope.cancel()
    assert (steps[-1].outcome, steps[-1].message) == (Outcome.CANCELLED, told)
    if name == "stubborn":
        os.kill(pid, signal.SIGKILL)
        world.wait_until("stubborn", "STOPPED")


def _moved(world: Supervisord, name: str, pid: int) -> bool:
    return world.state(name) == "STOPPING" or world.pid(name) not in {0, pid}


# ---- supervisord itself


async def test_a_supervisord_that_is_down_and_one_that_comes_back() -> None:
    with Supervisord({"one": ["sleep", "1000"]}) as world:
        one = service(world, "one")
        assert (await one.restart(30)).state is State.RUNNING
        world.end()
        with pytest.raises(Fault) as caught:
            await one.state()
        assert caught.value.reason is Reason.UNREACHABLE
        assert (await restart_fails(one)).reason is Reason.UNREACHABLE
        world.start()
        assert (await one.state()).state is State.STOPPED
        assert (await one.restart(30)).state is State.RUNNING


async def test_a_supervisord_that_was_killed_leaves_a_socket_at_which_nobody_listens() -> None:
    with Supervisord({}) as world:
        assert world.server is not None
        world.server.kill()
        world.server.wait()
        with pytest.raises(Fault, match="nothing listens on its socket") as caught:
            await service(world, "one").state()
        assert caught.value.reason is Reason.UNREACHABLE


async def test_a_supervisord_that_hangs_is_not_waited_for_longer_than_allowed() -> None:
    with Supervisord({"one": ["sleep", "1000"]}) as world:
        assert world.server is not None
        pid = world.run("one")
        world.server.send_signal(signal.SIGSTOP)
        assert (await restart_fails(service(world, "one"), deadline=0.5)).reason is Reason.TIMED_OUT
        with anyio.move_on_after(0.2) as scope:
            await service(world, "one").state()
        assert scope.cancelled_caught
        world.server.send_signal(signal.SIGCONT)
        assert world.pid("one") == pid


async def test_a_supervisord_that_dies_during_a_restart() -> None:
    with Supervisord({"stubborn": PROGRAMS["stubborn"]}, SETTINGS) as world:
        assert world.server is not None
        pid = ignoring(world, "stubborn")
        async with anyio.create_task_group() as tasks:

            async def fails() -> None:
                assert (await restart_fails(service(world, "stubborn"))).reason is Reason.UNREACHABLE

            tasks.start_soon(fails)
            await anyio.to_thread.run_sync(world.wait_until, "stubborn", "STOPPING")
            world.server.kill()
            world.server.wait()
        os.kill(pid, signal.SIGKILL)  # supervisord's death orphans its programs


async def test_a_socket_that_this_process_may_not_use() -> None:
    with Supervisord({}) as world:
        world.socket.chmod(0)
        root = os.geteuid() == 0
        try:
            if root:  # to whom permissions mean nothing
                os.seteuid(65534)
            with pytest.raises(Fault) as caught:
                await service(world, "one").state()
        finally:
            if root:
                os.seteuid(0)
        assert caught.value.reason is Reason.NO_PERMISSION
        assert str(world.socket.parent) in caught.value.mend
        assert str(world.socket) not in caught.value.message  # which callers get to see


async def test_supervisord_on_a_loopback_port() -> None:
    port = unused_port()
    with Supervisord({"one": ["sleep", "1000"]}, inet=f"[inet_http_server]\nport=127.0.0.1:{port}\n") as world:
        over_tcp = closed_later(SupervisordOptions(program="one", url=f"http://127.0.0.1:{port}").build())
        assert (await Service("one", over_tcp, settle=0, risk=HARMLESS).restart(30)).state is State.RUNNING
        assert world.state("one") == "RUNNING"


def soon(seconds: float) -> float:
    return anyio.current_time() + seconds


def ignoring(world: Supervisord, program: str) -> int:
    """Start a program that ignores SIGTERM, wait until it does, and return its process id."""
    pid = world.pid(program) or world.run(program)
    wait_for(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", f"{program} to be ready")
    return pid

"""Services that are units of a real systemd: what they are, and what a restart of each kind of unit comes to."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd, need_containers
from tests.system.test_supervisord import open_sockets, restart_fails, soon, unused_port
from tests.system.units import UNITS

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Fault, Phase, ServiceDriver
from guideway.interpreter.drivers.systemd.bus import Bus
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def world() -> Iterator[Systemd]:
    need_containers()
    with Systemd(UNITS) as running:
        running.connections()
        yield running


_made: list[ServiceDriver] = []


@pytest.fixture(autouse=True)
async def _nothing_is_left(world: Systemd) -> AsyncIterator[None]:
    """After every test, and once its drivers are closed: no task, socket, connection or match rule more than before."""

    def left() -> tuple[int, ...]:
        return len(asyncio.all_tasks()), open_sockets(), world.connections(), len(world.clients())

    before = left()
    yield
    while _made:
        await _made.pop().close()
    await anyio.lowlevel.checkpoint()  # tasks that are over are gone at the loop's next turn
    wait_for(lambda: left()[2:] == before[2:], "the bus to notice", lambda: f"{before}, {left()}")
    assert left() == before


def driver(world: Systemd, unit: str) -> ServiceDriver:
    made = DRIVERS["systemd"].model_validate({"unit": unit, "bus": str(world.bus)}).build()
    _made.append(made)
    return made


def service(world: Systemd, unit: str, *, settle: float = 0.2, health: TcpProbe | None = None) -> Service:
    return Service(unit, driver(world, unit), settle=settle, health=health)


@contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# ---- states


async def test_a_unit_that_runs_is_known_by_its_invocation(world: Systemd) -> None:
    pid = world.run("other.service")
    seen = await driver(world, "other.service").observe()
    assert seen.state is State.RUNNING
    assert seen.identity == bytes(world.get("other.service", "InvocationID")).hex()
    assert seen.output == f"active (running), pid {pid}"
    world.stop("other.service")
    seen = await driver(world, "other.service").observe()
    assert (seen.state, seen.identity) == (State.STOPPED, None)


@pytest.mark.parametrize(
    ("unit", "state"),
    [
        ("never.service", State.STOPPED),
        ("masked.service", State.STOPPED),
        ("broken.service", State.STOPPED),
        ("task.service", State.STOPPED),
        ("worker@7.service", State.STOPPED),
    ],
)
async def test_a_unit_that_was_never_started_is_stopped(world: Systemd, unit: str, state: State) -> None:
    assert (await service(world, unit).state()).state is state


@pytest.mark.parametrize(("unit", "told"), [("masked.service", "it is masked"), ("broken.service", "cannot be used")])
async def test_what_systemd_could_not_start_says_so(world: Systemd, unit: str, told: str) -> None:
    assert told in (await driver(world, unit).observe()).output


async def test_a_unit_that_systemd_does_not_know(world: Systemd) -> None:
    with pytest.raises(Fault, match="no unit of the configured name") as caught:
        await service(world, "unknown.service").state()
    assert caught.value.reason is Reason.NOT_FOUND
    assert (await restart_fails(service(world, "unknown.service"))).reason is Reason.NOT_FOUND


async def test_a_unit_that_ends_well_is_stopped(world: Systemd) -> None:
    world.run("leaves.service")
    world.wait_until("leaves.service", "inactive")
    assert (await service(world, "leaves.service").state()).state is State.STOPPED


async def test_a_unit_that_failed_says_why_and_where_its_log_is(world: Systemd) -> None:
    world.run("dies_later.service")
    world.wait_until("dies_later.service", "failed")
    seen = await service(world, "dies_later.service").state()
    assert seen.state is State.FAILED
    assert "its main process exited with status 3" in seen.output
    assert "journalctl -u dies_later.service" in seen.output


async def test_a_unit_that_was_killed_has_failed(world: Systemd) -> None:
    world.run("other.service")
    world.kill("other.service")
    world.wait_until("other.service", "failed")
    assert "killed by SIGKILL" in (await driver(world, "other.service").observe()).output
    world.forget("other.service")


async def test_a_unit_that_comes_up_is_starting_and_one_that_goes_down_is_stopping(world: Systemd) -> None:
    world.ask("StartUnit", "ss", "hangs.service", "replace")
    world.wait_until("hangs.service", "activating")
    assert (await driver(world, "hangs.service").observe()).state is State.STARTING
    world.stop("hangs.service")
    world.run("dragging.service")
    ignoring(world, "dragging.service")
    world.stop("dragging.service", wait=False)
    assert (await driver(world, "dragging.service").observe()).state is State.STOPPING
    assert (await service(world, "dragging.service").settled()).state is State.FAILED  # it had to be killed


async def test_a_unit_that_ends_and_is_about_to_be_started_again_is_starting(world: Systemd) -> None:
    world.ask("StartUnit", "ss", "returns_late.service", "replace")
    wait_for(lambda: world.get("returns_late.service", "SubState") == "auto-restart", "it to end")
    seen = await driver(world, "returns_late.service").observe()
    assert (seen.state, seen.identity) == (State.STARTING, None)
    assert seen.output.startswith("activating (auto-restart)")
    world.stop("returns_late.service")


async def test_a_unit_whose_start_waits_for_another_is_starting(world: Systemd) -> None:
    world.ask("StartUnit", "ss", "waits.service", "replace")
    assert (await driver(world, "waits.service").observe()).state is State.STARTING
    world.stop("waits.service")
    world.stop("hangs.service")


async def test_a_unit_is_running_while_it_reloads_its_configuration(world: Systemd) -> None:
    world.run("reloads.service")
    before = await driver(world, "reloads.service").observe()
    world.ask("ReloadUnit", "ss", "reloads.service", "replace")
    world.wait_until("reloads.service", "reloading")
    seen = await driver(world, "reloads.service").observe()
    assert (seen.state, seen.identity) == (State.RUNNING, before.identity)
    world.stop("reloads.service")


async def test_the_service_s_own_status_is_told(world: Systemd) -> None:
    world.run("ready.service")
    assert (await driver(world, "ready.service").observe()).output.endswith("\nserving 3 customers")
    world.stop("ready.service")


async def test_a_task_that_stays_active_is_running(world: Systemd) -> None:
    world.run("task_stays.service")
    seen = await driver(world, "task_stays.service").observe()
    assert seen.state is State.RUNNING
    assert seen.identity
    world.stop("task_stays.service")


# ---- restarts that are ok


async def test_a_running_unit_is_replaced(world: Systemd) -> None:
    pid = world.run("good.service")
    phases: list[Phase] = []
    assert (await service(world, "good.service").restart(30)).state is State.RUNNING
    assert world.pid("good.service") not in {0, pid}
    seen = await driver(world, "good.service").restart(phases.append, soon(5))
    assert phases == [Phase.REPLACING, Phase.STARTING]
    assert seen is not None
    assert seen.identity == (await driver(world, "good.service").observe()).identity


@pytest.mark.parametrize("unit", ["good.service", "ready.service", "worker@1.service", "forks.service", "exec.service"])
async def test_a_stopped_unit_is_started(world: Systemd, unit: str) -> None:
    world.stop(unit)
    phases: list[Phase] = []
    assert (await service(world, unit).restart(30)).state is State.RUNNING
    assert world.state(unit) == "active"
    world.stop(unit)
    await driver(world, unit).restart(phases.append, soon(5))
    assert phases == [Phase.STARTING]
    world.stop(unit)


async def test_instances_of_a_template_are_apart(world: Systemd) -> None:
    one, two = world.run("worker@1.service"), world.run("worker@2.service")
    assert (await service(world, "worker@1.service").restart(30)).state is State.RUNNING
    assert world.pid("worker@1.service") not in {0, one}
    assert world.pid("worker@2.service") == two


async def test_a_unit_that_failed_is_started(world: Systemd) -> None:
    world.run("good.service")
    world.kill("good.service")
    world.wait_until("good.service", "failed")
    assert (await service(world, "good.service").restart(30)).state is State.RUNNING


async def test_a_healthy_unit_is_restarted_with_its_health_checked(world: Systemd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        health = TcpProbe("127.0.0.1", server.getsockname()[1])
        assert (await service(world, "good.service", health=health).restart(30)).state is State.RUNNING


async def test_a_unit_that_is_killed_because_it_does_not_stop(world: Systemd) -> None:
    pid = ignoring(world, "dragging.service")
    assert (await service(world, "dragging.service").restart(30)).state is State.RUNNING
    assert world.pid("dragging.service") not in {0, pid}


async def test_a_task_is_restarted_when_it_ran_to_its_end(world: Systemd) -> None:
    seen = await service(world, "task.service").restart(30)
    assert (seen.state, seen.completed) == (State.STOPPED, True)
    world.run("keeper.service")
    seen = await service(world, "task_enabled.service").restart(30)  # of which systemd keeps the record
    assert seen.completed
    world.stop("keeper.service")


async def test_a_task_that_takes_its_time_is_waited_for(world: Systemd) -> None:
    phases: list[Phase] = []
    seen = await driver(world, "task_slow.service").restart(phases.append, soon(30))
    assert seen is not None
    assert seen.completed
    assert (await restart_fails(service(world, "task_slow.service"), deadline=0.2)).reason is Reason.START_TIMED_OUT
    world.wait_until("task_slow.service", "inactive")


async def test_a_task_that_stays_active_is_watched_like_any_service(world: Systemd) -> None:
    seen = await service(world, "task_stays.service").restart(30)
    assert (seen.state, seen.completed) == (State.RUNNING, False)
    again = await service(world, "task_stays.service").restart(30)
    assert again.identity != seen.identity


async def test_three_restarts_at_once_of_one_unit_under_three_names_are_all_ok(world: Systemd) -> None:
    """systemd merges them, or does them one after the other."""
    pid = world.run("good.service")
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(service(world, "good.service", settle=0).restart, 60)
    assert world.pid("good.service") not in {0, pid}


# ---- every way in which an accepted restart is not a service that works


@pytest.mark.parametrize(
    ("unit", "reason", "told"),
    [
        ("missing.service", Reason.START_FAILED, "status 203: its command cannot be executed"),
        ("missing_exec.service", Reason.START_FAILED, "status 203: its command cannot be executed"),
        ("no_user.service", Reason.START_FAILED, "status 217: its user does not exist"),
        ("no_folder.service", Reason.START_FAILED, "status 200: its working directory"),
        ("dies_at_once.service", Reason.START_FAILED, "its main process exited with status 3"),
        ("dies_later.service", Reason.START_FAILED, "its main process exited with status 3"),
        ("leaves.service", Reason.START_FAILED, "inactive (dead)"),
        ("crashes.service", Reason.START_FAILED, "its main process was killed by SIGSEGV"),
        ("dies_unready.service", Reason.START_FAILED, "its main process exited with status 3"),
        ("leaves_unready.service", Reason.START_FAILED, "`Type=`"),
        ("prepares_badly.service", Reason.START_FAILED, "one of its commands failed"),
        ("late.service", Reason.START_TIMED_OUT, "it took longer than its unit allows"),
        ("barks.service", Reason.START_FAILED, "watchdog"),
        ("returns.service", Reason.START_FAILED, ""),
        ("returns_late.service", Reason.START_FAILED, "auto-restart"),
        ("returns_at_once.service", Reason.START_FAILED, ""),
        ("returns_unready.service", Reason.START_FAILED, ""),
        ("masked.service", Reason.START_FAILED, "it is masked"),
        ("broken.service", Reason.START_FAILED, "its unit file cannot be used"),
        ("requires.service", Reason.START_FAILED, ""),
        ("asserts.service", Reason.START_FAILED, ""),
        ("task_bad.service", Reason.START_FAILED, "its main process exited with status 3"),
        ("task_conditional.service", Reason.UNKNOWN, ""),
        ("by_dependency.service", Reason.NO_PERMISSION, ""),
    ],
)
async def test_a_unit_that_does_not_work_has_not_been_restarted(
    world: Systemd, unit: str, reason: Reason, told: str
) -> None:
    fault = await restart_fails(service(world, unit, settle=1.5))
    assert fault.reason is reason
    assert told in fault.message + "\n" + fault.output
    with suppress(OSError):  # some cannot be stopped
        world.stop(unit)


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("requires.service", "a unit that it requires did not start"),
        ("asserts.service", "an assertion of its unit was not met"),
        ("dies_unready.service", "it did not start: its main process exited with status 3"),
    ],
)
async def test_the_message_says_what_went_wrong(world: Systemd, unit: str, told: str) -> None:
    assert told in (await restart_fails(service(world, unit, settle=1.5))).message
    world.stop(unit)


async def test_a_unit_that_never_says_that_it_is_ready(world: Systemd) -> None:
    fault = await restart_fails(service(world, "hangs.service"), deadline=0.8)
    assert fault.reason is Reason.START_TIMED_OUT
    world.stop("hangs.service")


async def test_a_unit_that_refuses_to_stop(world: Systemd) -> None:
    ignoring(world, "stubborn.service")
    fault = await restart_fails(service(world, "stubborn.service"), deadline=1)
    assert fault.reason is Reason.STOP_TIMED_OUT
    assert "its service manager starts it again" in fault.message
    assert world.state("stubborn.service") == "deactivating"
    world.kill("stubborn.service")
    world.wait_until("stubborn.service", "active")  # as the message says


async def test_a_unit_that_stops_slowly_and_then_hangs_in_its_start(world: Systemd) -> None:
    world.ask("StartUnit", "ss", "drags_and_hangs.service", "replace")
    wait_for(lambda: world.pid("drags_and_hangs.service") > 0, "it to be there")
    ignoring(world, "drags_and_hangs.service", start=False)
    fault = await restart_fails(service(world, "drags_and_hangs.service"), deadline=1.2)
    assert fault.reason is Reason.START_TIMED_OUT
    world.kill("drags_and_hangs.service")
    world.stop("drags_and_hangs.service")


async def test_a_unit_that_never_answers_its_health_check(world: Systemd) -> None:
    health = TcpProbe("127.0.0.1", unused_port())
    assert (await restart_fails(service(world, "good.service", health=health), deadline=0.7)).reason is Reason.UNHEALTHY
    assert (await restart_fails(service(world, "task.service", health=health), deadline=0.7)).reason is Reason.UNHEALTHY


async def test_a_unit_that_is_stopped_while_it_restarts(world: Systemd) -> None:
    ignoring(world, "dragging.service")
    async with anyio.create_task_group() as tasks:

        async def fails() -> None:
            fault = await restart_fails(service(world, "dragging.service"))
            assert fault.reason is Reason.START_FAILED
            assert "another job for the unit" in fault.message

        tasks.start_soon(fails)
        await anyio.to_thread.run_sync(world.wait_until, "dragging.service", "deactivating")
        await anyio.to_thread.run_sync(world.stop, "dragging.service", False)


async def test_a_unit_whose_condition_is_no_longer_met(world: Systemd) -> None:
    """systemd calls the job done: it stopped the unit, and skipped its start. Of a unit that nothing refers to, it
    forgets at once that this was so."""
    world.run("keeper.service")
    world.run("conditional.service")
    (world.units / "forbidden").touch()
    for unit in ("conditional.service", "conditional_kept.service"):
        fault = await restart_fails(service(world, unit))
        assert fault.reason is Reason.START_FAILED
        assert "a condition of its unit was not met" in fault.message
    assert "systemd stopped it and did not start it again" in fault.message
    (world.units / "forbidden").unlink()
    world.stop("keeper.service")


async def test_a_unit_that_was_masked_while_it_runs_is_not_stopped(world: Systemd) -> None:
    pid = world.run("turncoat.service")
    text = (world.units / "turncoat.service").read_text()
    world.write("turncoat.service", None)
    world.reload()
    assert (await service(world, "turncoat.service").state()).state is State.RUNNING
    assert (await restart_fails(service(world, "turncoat.service"))).reason is Reason.START_FAILED
    assert world.pid("turncoat.service") == pid
    world.write("turncoat.service", text)
    world.reload()
    world.stop("turncoat.service")


# ---- the start limit


async def test_a_restart_that_runs_into_the_start_limit_does_not_leave_the_service_down(
    world: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    limited = service(world, "limited.service", settle=0)
    for _ in range(8):  # three starts are allowed
        assert (await limited.restart(30)).state is State.RUNNING
    assert "its start limit was reached by a restart" in caplog.text
    world.stop("limited.service")


async def test_a_start_limit_is_noticed_where_the_stop_went_wrong_too(world: Systemd) -> None:
    """Result then says what was wrong with the stop, and nothing of the limit."""
    ignoring(world, "limited_dragging.service")
    assert (await service(world, "limited_dragging.service").restart(30)).state is State.RUNNING
    world.stop("limited_dragging.service")


async def test_a_service_that_its_start_limit_keeps_down_stays_down(world: Systemd) -> None:
    for _ in range(2):
        await restart_fails(service(world, "limited_bad.service"))
    fault = await restart_fails(service(world, "limited_bad.service"))
    assert fault.reason is Reason.START_FAILED
    assert "it was started too often in a short time (start limit)" in fault.message
    assert world.state("limited_bad.service") == "failed"


async def test_a_crash_loop_that_ends_in_the_start_limit(world: Systemd) -> None:
    fault = await restart_fails(service(world, "returns_limited.service", settle=2))
    assert fault.reason is Reason.START_FAILED


# ---- rights


async def test_who_may_not_restart_is_told_so_and_may_still_look(world: Systemd) -> None:
    pid = world.run("good.service")
    with as_nobody():
        one = Service("good", made_for(world, "good.service", 65534), settle=0)
        assert (await one.state()).state is State.RUNNING
        assert (await restart_fails(one)).reason is Reason.NO_PERMISSION
        with pytest.raises(Fault) as caught:
            await one.check_restart()
    assert caught.value.reason is Reason.NO_PERMISSION
    assert 'action.lookup("unit") == "good.service"' in caught.value.message
    assert world.pid("good.service") == pid


async def test_asking_whether_a_restart_is_allowed_restarts_nothing(world: Systemd) -> None:
    pid = world.run("good.service")
    await service(world, "good.service").check_restart()
    assert world.pid("good.service") == pid
    world.stop("other.service")
    await service(world, "other.service").check_restart()
    assert world.state("other.service") == "inactive"
    with pytest.raises(Fault) as caught:
        await service(world, "by_dependency.service").check_restart()
    assert caught.value.reason is Reason.NO_PERMISSION


async def test_a_user_that_the_bus_does_not_take_us_for(world: Systemd) -> None:
    made = SystemdDriver("good.service", Bus(world.bus, 12345))
    with as_nobody(), pytest.raises(Fault) as caught:
        await made.observe()
    assert caught.value.reason is Reason.NO_PERMISSION
    await made.close()


def made_for(world: Systemd, unit: str, uid: int) -> SystemdDriver:
    made = SystemdDriver(unit, Bus(world.bus, uid))
    _made.append(made)
    return made


# ---- cancellation


async def test_a_restart_cancelled_wherever_it_waits_leaves_the_service_up(world: Systemd) -> None:
    world.run("good.service")
    one = driver(world, "good.service")
    await one.observe()
    step = 1
    while await cancelled_at(step, one.restart(lambda _: None, soon(30))):
        await anyio.to_thread.run_sync(world.wait_until, "good.service", "active")
        step += 1
    assert step > 4
    assert (await one.observe()).state is State.RUNNING


async def test_a_look_cancelled_wherever_it_waits_leaves_nothing(world: Systemd) -> None:
    step = 1
    while True:  # each with a connection of its own, whose making is cancelled too
        made = SystemdDriver("good.service", Bus(world.bus))
        cut = await cancelled_at(step, made.observe())
        await made.close()
        if not cut:
            break
        step += 1
    assert step > 5


async def test_a_restart_cancelled_as_it_runs_into_the_start_limit_leaves_the_service_up(world: Systemd) -> None:
    """The one thing that systemd does not do by itself: whenever it is cancelled, the service ends up running."""
    one = driver(world, "limited_slow.service")
    world.run("limited_slow.service")
    await one.observe()
    step = 1
    while await cancelled_at(step, one.restart(lambda _: None, soon(30))):
        await anyio.to_thread.run_sync(world.wait_until, "limited_slow.service", "active")
        step += 1
    assert step > 6


async def test_a_restart_cancelled_while_it_stops_goes_on(world: Systemd) -> None:
    pid = ignoring(world, "dragging.service")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver(world, "dragging.service").restart, lambda _: None, soon(20))
        await anyio.to_thread.run_sync(world.wait_until, "dragging.service", "deactivating")
        tasks.cancel_scope.cancel()
    await anyio.to_thread.run_sync(world.wait_until, "dragging.service", "active")
    assert world.pid("dragging.service") not in {0, pid}


async def test_a_restart_that_is_given_up_in_a_long_stop_says_so_in_the_log(
    world: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    ignoring(world, "stubborn.service")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver(world, "stubborn.service").restart, lambda _: None, soon(0.5))
            await anyio.to_thread.run_sync(world.wait_until, "stubborn.service", "deactivating")
            scope.cancel()
    assert "stubborn.service: still stopping when the restart was given up; systemd goes on with it" in caplog.text
    world.kill("stubborn.service")
    world.wait_until("stubborn.service", "active")


# ---- the connection


async def test_all_units_of_a_bus_share_a_connection_until_the_last_is_closed(world: Systemd) -> None:
    before = world.connections()
    drivers = [driver(world, unit) for unit in ("good.service", "other.service", "never.service")]
    async with anyio.create_task_group() as tasks:
        for one in drivers:
            tasks.start_soon(one.observe)
    assert (world.connections(), len(world.clients())) == (before + 1, 2)
    for one in drivers[:2]:
        await one.close()
    await drivers[2].observe()
    assert world.connections() == before + 1
    await drivers[2].close()
    wait_for(lambda: world.connections() == before, "the connection to end")


async def test_a_driver_can_be_closed_twice_and_before_it_was_used(world: Systemd) -> None:
    one = driver(world, "good.service")
    await one.close()
    await one.close()


async def test_a_connection_is_not_used_in_another_event_loop(world: Systemd) -> None:
    made = driver(world, "good.service")

    async def look() -> None:
        await made.observe()
        await made.close()

    await anyio.to_thread.run_sync(anyio.run, look)
    assert (await made.observe()).state is State.RUNNING


def ignoring(world: Systemd, unit: str, start: bool = True) -> int:
    """Have a unit run that ignores SIGTERM, wait until it does, and return its main process."""
    pid = world.run(unit) if start else world.pid(unit)

    def ready() -> bool:
        inner = [line for line in Path("/proc").iterdir() if line.name.isdecimal()]
        return any(_is(line, pid, world) for line in inner)

    wait_for(ready, f"{unit} to be ready")
    return pid


def _is(folder: Path, pid: int, world: Systemd) -> bool:
    """Say whether a process of this machine is the container's ``pid`` and has become ``sleep``."""
    try:
        status = (folder / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    if len(numbers) < 2 or numbers[-1] != str(pid) or not status.startswith("Name:\tsleep\n"):
        return False
    return f"PPid:\t{world.leader()}\n" in status

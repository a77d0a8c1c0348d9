"""Services that are units of a real systemd: what they are, and the restarts that are ok."""

import socket

import anyio
import pytest
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd
from tests.system.systemd_drivers import driver, ignoring, service
from tests.system.test_supervisord import restart_fails, soon

from guideway.interpreter.drivers.base import Fault, Phase
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


# ---- states


async def test_a_unit_that_runs_is_known_by_its_invocation(systemd: Systemd) -> None:
    pid = systemd.run("other.service")
    seen = await driver(systemd, "other.service").observe()
    assert seen.state is State.RUNNING
    assert seen.identity == bytes(systemd.get("other.service", "InvocationID")).hex()
    assert seen.output == f"active (running), pid {pid}"
    systemd.stop("other.service")
    seen = await driver(systemd, "other.service").observe()
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
async def test_a_unit_that_was_never_started_is_stopped(systemd: Systemd, unit: str, state: State) -> None:
    assert (await service(systemd, unit).state()).state is state


@pytest.mark.parametrize(("unit", "told"), [("masked.service", "it is masked"), ("broken.service", "cannot be used")])
async def test_what_systemd_could_not_start_says_so(systemd: Systemd, unit: str, told: str) -> None:
    assert told in (await driver(systemd, unit).observe()).output


async def test_a_unit_that_systemd_does_not_know(systemd: Systemd) -> None:
    with pytest.raises(Fault, match="no unit of the configured name") as caught:
        await service(systemd, "unknown.service").state()
    assert caught.value.reason is Reason.NOT_FOUND
    assert (await restart_fails(service(systemd, "unknown.service"))).reason is Reason.NOT_FOUND


async def test_a_unit_is_not_restarted_under_an_alias(systemd: Systemd) -> None:
    """What is stated of a unit goes by its own name: a pattern's name that is an alias of it must be no way around."""
    alias = systemd.units / "also_good.service"
    alias.symlink_to("good.service")
    try:
        systemd.reload()
        pid = systemd.run("good.service")
        assert (await service(systemd, "also_good.service").state()).state is State.RUNNING
        fault = await restart_fails(service(systemd, "also_good.service"))
        assert fault.reason is Reason.NOT_FOUND
        assert "good.service" in fault.output
        with pytest.raises(Fault, match="another name") as caught:
            await service(systemd, "also_good.service").check_restart()
        assert caught.value.reason is Reason.NOT_FOUND
        assert systemd.pid("good.service") == pid
    finally:
        alias.unlink()
        systemd.reload()


async def test_a_unit_that_ends_well_is_stopped(systemd: Systemd) -> None:
    systemd.run("leaves.service")
    systemd.wait_until("leaves.service", "inactive")
    assert (await service(systemd, "leaves.service").state()).state is State.STOPPED


async def test_a_unit_that_failed_says_why_and_where_its_log_is(systemd: Systemd) -> None:
    systemd.run("dies_later.service")
    systemd.wait_until("dies_later.service", "failed")
    seen = await service(systemd, "dies_later.service").state()
    assert seen.state is State.FAILED
    assert "its main process exited with status 3" in seen.output
    assert "journalctl -u dies_later.service" in seen.output


async def test_a_unit_that_was_killed_has_failed(systemd: Systemd) -> None:
    systemd.run("other.service")
    systemd.kill("other.service")
    systemd.wait_until("other.service", "failed")
    assert "killed by SIGKILL" in (await driver(systemd, "other.service").observe()).output
    systemd.forget("other.service")


async def test_a_unit_that_comes_up_is_starting_and_one_that_goes_down_is_stopping(systemd: Systemd) -> None:
    systemd.ask("StartUnit", "ss", "hangs.service", "replace")
    systemd.wait_until("hangs.service", "activating")
    assert (await driver(systemd, "hangs.service").observe()).state is State.STARTING
    systemd.stop("hangs.service")
    systemd.run("dragging.service")
    ignoring(systemd, "dragging.service")
    systemd.stop("dragging.service", wait=False)
    assert (await driver(systemd, "dragging.service").observe()).state is State.STOPPING
    assert (await service(systemd, "dragging.service").settled()).state is State.FAILED  # it had to be killed


async def test_a_unit_that_ends_and_is_about_to_be_started_again_is_starting(systemd: Systemd) -> None:
    systemd.ask("StartUnit", "ss", "returns_late.service", "replace")
    wait_for(lambda: systemd.get("returns_late.service", "SubState") == "auto-restart", "it to end")
    seen = await driver(systemd, "returns_late.service").observe()
    assert (seen.state, seen.identity) == (State.STARTING, None)
    assert seen.output.startswith("activating (auto-restart)")
    systemd.stop("returns_late.service")


async def test_a_unit_whose_start_waits_for_another_is_starting(systemd: Systemd) -> None:
    systemd.ask("StartUnit", "ss", "waits.service", "replace")
    assert (await driver(systemd, "waits.service").observe()).state is State.STARTING
    systemd.stop("waits.service")
    systemd.stop("hangs.service")


async def test_a_unit_is_running_while_it_reloads_its_configuration(systemd: Systemd) -> None:
    systemd.run("reloads.service")
    before = await driver(systemd, "reloads.service").observe()
    systemd.ask("ReloadUnit", "ss", "reloads.service", "replace")
    systemd.wait_until("reloads.service", "reloading")
    seen = await driver(systemd, "reloads.service").observe()
    assert (seen.state, seen.identity) == (State.RUNNING, before.identity)
    systemd.stop("reloads.service")


async def test_the_service_s_own_status_is_told(systemd: Systemd) -> None:
    systemd.run("ready.service")
    assert (await driver(systemd, "ready.service").observe()).output.endswith("\nserving 3 customers")
    systemd.stop("ready.service")


async def test_a_task_that_stays_active_is_running(systemd: Systemd) -> None:
    systemd.run("task_stays.service")
    seen = await driver(systemd, "task_stays.service").observe()
    assert seen.state is State.RUNNING
    assert seen.identity
    systemd.stop("task_stays.service")


# ---- restarts that are ok


async def test_a_running_unit_is_replaced(systemd: Systemd) -> None:
    pid = systemd.run("good.service")
    phases: list[Phase] = []
    assert (await service(systemd, "good.service").restart(30)).state is State.RUNNING
    assert systemd.pid("good.service") not in {0, pid}
    seen = await driver(systemd, "good.service").restart(phases.append, soon(5))
    assert phases == [Phase.REPLACING, Phase.STARTING]
    assert seen is not None
    assert seen.identity == (await driver(systemd, "good.service").observe()).identity


@pytest.mark.parametrize("unit", ["good.service", "ready.service", "forks.service", "exec.service"])
async def test_a_stopped_unit_is_started(systemd: Systemd, unit: str) -> None:
    systemd.stop(unit)
    phases: list[Phase] = []
    assert (await service(systemd, unit).restart(30)).state is State.RUNNING
    assert systemd.state(unit) == "active"
    systemd.stop(unit)
    await driver(systemd, unit).restart(phases.append, soon(5))
    assert phases == [Phase.STARTING]
    systemd.stop(unit)


async def test_an_instance_that_only_its_name_makes_is_not_started(systemd: Systemd) -> None:
    """A slip in a name of a fleet must start no new process."""
    seen = await service(systemd, "worker@slip.service").state()
    assert seen.state is State.STOPPED
    assert "its name may be misspelt" in seen.output
    for asked in (restart_fails(service(systemd, "worker@slip.service")), _refused(systemd, "worker@slip.service")):
        fault = await asked
        assert fault.reason is Reason.NOT_FOUND
        assert "systemctl enable" in fault.message
        assert "start_new = true" in fault.message
    assert systemd.pid("worker@slip.service") == 0
    new = Service("slip", driver(systemd, "worker@slip.service", start_new=True), settle=0)
    await new.check_restart()
    assert (await new.restart(30)).state is State.RUNNING
    systemd.kill("worker@slip.service")  # one that failed is known, and may be started
    systemd.wait_until("worker@slip.service", "failed")
    assert (await service(systemd, "worker@slip.service").restart(30)).state is State.RUNNING
    systemd.stop("worker@slip.service")


@pytest.mark.parametrize("how", ["enabled", "wanted", "drop-in"])
async def test_an_instance_that_somebody_stated_is_started(systemd: Systemd, how: str) -> None:
    unit = f"worker@{how}.service"
    match how:
        case "enabled":
            folder, link = systemd.units / "box.target.wants", systemd.units / "box.target.wants" / unit
            folder.mkdir(exist_ok=True)
            link.symlink_to("../worker@.service")
        case "wanted":
            (systemd.units / "box.target.d").mkdir()
            (systemd.units / "box.target.d/10.conf").write_text(f"[Unit]\nWants={unit}\n")
        case _:
            (systemd.units / f"{unit}.d").mkdir()
            (systemd.units / f"{unit}.d/10.conf").write_text("[Service]\nEnvironment=A=1\n")
    systemd.reload()
    assert "misspelt" not in (await driver(systemd, unit).observe()).output
    await service(systemd, unit).check_restart()
    assert (await service(systemd, unit).restart(30)).state is State.RUNNING
    systemd.stop(unit)


async def _refused(world: Systemd, unit: str) -> Fault:
    with pytest.raises(Fault) as caught:
        await service(world, unit).check_restart()
    return caught.value


async def test_instances_of_a_template_are_apart(systemd: Systemd) -> None:
    one, two = systemd.run("worker@1.service"), systemd.run("worker@2.service")
    assert (await service(systemd, "worker@1.service").restart(30)).state is State.RUNNING
    assert systemd.pid("worker@1.service") not in {0, one}
    assert systemd.pid("worker@2.service") == two


async def test_a_unit_that_failed_is_started(systemd: Systemd) -> None:
    systemd.run("good.service")
    systemd.kill("good.service")
    systemd.wait_until("good.service", "failed")
    assert (await service(systemd, "good.service").restart(30)).state is State.RUNNING


async def test_a_healthy_unit_is_restarted_with_its_health_checked(systemd: Systemd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        health = TcpProbe("127.0.0.1", server.getsockname()[1])
        assert (await service(systemd, "good.service", health=health).restart(30)).state is State.RUNNING


async def test_a_unit_that_is_killed_because_it_does_not_stop(systemd: Systemd) -> None:
    pid = ignoring(systemd, "dragging.service")
    assert (await service(systemd, "dragging.service").restart(30)).state is State.RUNNING
    assert systemd.pid("dragging.service") not in {0, pid}


async def test_a_task_is_restarted_when_it_ran_to_its_end(systemd: Systemd) -> None:
    seen = await service(systemd, "task.service").restart(30)
    assert (seen.state, seen.completed) == (State.STOPPED, True)
    systemd.run("keeper.service")
    seen = await service(systemd, "task_enabled.service").restart(30)  # of which systemd keeps the record
    assert seen.completed
    systemd.stop("keeper.service")


async def test_a_task_that_takes_its_time_is_waited_for(systemd: Systemd) -> None:
    phases: list[Phase] = []
    seen = await driver(systemd, "task_slow.service").restart(phases.append, soon(30))
    assert seen is not None
    assert seen.completed
    assert (await restart_fails(service(systemd, "task_slow.service"), deadline=0.2)).reason is Reason.START_TIMED_OUT
    systemd.wait_until("task_slow.service", "inactive")


async def test_a_task_that_stays_active_is_watched_like_any_service(systemd: Systemd) -> None:
    seen = await service(systemd, "task_stays.service").restart(30)
    assert (seen.state, seen.completed) == (State.RUNNING, False)
    again = await service(systemd, "task_stays.service").restart(30)
    assert again.identity != seen.identity


async def test_three_restarts_at_once_of_one_unit_under_three_names_are_all_ok(systemd: Systemd) -> None:
    """systemd merges them, or does them one after the other."""
    pid = systemd.run("good.service")
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(service(systemd, "good.service", settle=0).restart, 60)
    assert systemd.pid("good.service") not in {0, pid}


# ---- the connection


async def test_all_units_of_a_bus_share_a_connection_until_the_last_is_closed(systemd: Systemd) -> None:
    before = systemd.connections()
    drivers = [driver(systemd, unit) for unit in ("good.service", "other.service", "never.service")]
    async with anyio.create_task_group() as tasks:
        for one in drivers:
            tasks.start_soon(one.observe)
    assert (systemd.connections(), len(systemd.clients())) == (before + 1, 2)
    for one in drivers[:2]:
        await one.close()
    await drivers[2].observe()
    assert systemd.connections() == before + 1
    await drivers[2].close()
    wait_for(lambda: systemd.connections() == before, "the connection to end")


async def test_a_driver_can_be_closed_twice_and_before_it_was_used(systemd: Systemd) -> None:
    one = driver(systemd, "good.service")
    await one.close()
    await one.close()


async def test_a_connection_that_nobody_closed_ends_with_its_event_loop(systemd: Systemd) -> None:
    systemd.run("good.service")
    made, before = driver(systemd, "good.service"), systemd.connections()
    await anyio.to_thread.run_sync(anyio.run, made.observe)
    wait_for(lambda: systemd.connections() == before, "the bus to notice")
    assert (await made.observe()).state is State.RUNNING  # in this loop, on another connection

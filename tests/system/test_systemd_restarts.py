"""Restarts of units of a real systemd that are not ok, each with its reason, and those that are cancelled."""

from contextlib import suppress

import anyio
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd
from tests.system.systemd_drivers import driver, ignoring, service
from tests.system.test_supervisord import restart_fails, soon, unused_port

from guideway.interpreter.drivers.systemd.bus import Bus
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, State

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


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
    systemd: Systemd, unit: str, reason: Reason, told: str
) -> None:
    fault = await restart_fails(service(systemd, unit, settle=1.5))
    assert fault.reason is reason
    assert told in fault.message + "\n" + fault.output
    with suppress(OSError):  # some cannot be stopped
        systemd.stop(unit)


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("requires.service", "a unit that it requires did not start"),
        ("asserts.service", "an assertion of its unit was not met"),
        ("dies_unready.service", "it did not start: its main process exited with status 3"),
    ],
)
async def test_the_message_says_what_went_wrong(systemd: Systemd, unit: str, told: str) -> None:
    assert told in (await restart_fails(service(systemd, unit, settle=1.5))).message
    systemd.stop(unit)


async def test_a_unit_that_never_says_that_it_is_ready(systemd: Systemd) -> None:
    fault = await restart_fails(service(systemd, "hangs.service"), deadline=0.8)
    assert fault.reason is Reason.START_TIMED_OUT
    systemd.stop("hangs.service")


async def test_a_unit_that_refuses_to_stop(systemd: Systemd) -> None:
    ignoring(systemd, "stubborn.service")
    fault = await restart_fails(service(systemd, "stubborn.service"), deadline=1)
    assert fault.reason is Reason.STOP_TIMED_OUT
    assert "its service manager starts it again" in fault.message
    assert systemd.state("stubborn.service") == "deactivating"
    systemd.kill("stubborn.service")
    systemd.wait_until("stubborn.service", "active")  # as the message says


async def test_a_unit_that_stops_slowly_and_then_hangs_in_its_start(systemd: Systemd) -> None:
    systemd.ask("StartUnit", "ss", "drags_and_hangs.service", "replace")
    wait_for(lambda: systemd.pid("drags_and_hangs.service") > 0, "it to be there")
    ignoring(systemd, "drags_and_hangs.service", start=False)
    fault = await restart_fails(service(systemd, "drags_and_hangs.service"), deadline=1.2)
    assert fault.reason is Reason.START_TIMED_OUT
    systemd.kill("drags_and_hangs.service")
    systemd.stop("drags_and_hangs.service")


async def test_a_unit_that_never_answers_its_health_check(systemd: Systemd) -> None:
    health = TcpProbe("127.0.0.1", unused_port())
    assert (
        await restart_fails(service(systemd, "good.service", health=health), deadline=0.7)
    ).reason is Reason.UNHEALTHY
    assert (
        await restart_fails(service(systemd, "task.service", health=health), deadline=0.7)
    ).reason is Reason.UNHEALTHY


async def test_a_unit_that_is_stopped_while_it_restarts(systemd: Systemd) -> None:
    ignoring(systemd, "dragging.service")
    async with anyio.create_task_group() as tasks:

        async def fails() -> None:
            fault = await restart_fails(service(systemd, "dragging.service"))
            assert fault.reason is Reason.START_FAILED
            assert "another job for the unit" in fault.message

        tasks.start_soon(fails)
        await anyio.to_thread.run_sync(systemd.wait_until, "dragging.service", "deactivating")
        await anyio.to_thread.run_sync(systemd.stop, "dragging.service", False)


async def test_a_unit_whose_condition_is_no_longer_met(systemd: Systemd) -> None:
    """systemd calls the job done: it stopped the unit, and skipped its start. Of a unit that nothing refers to, it
    forgets at once that this was so."""
    systemd.run("keeper.service")
    systemd.run("conditional.service")
    (systemd.units / "forbidden").touch()
    for unit in ("conditional.service", "conditional_kept.service"):
        fault = await restart_fails(service(systemd, unit))
        assert fault.reason is Reason.START_FAILED
        assert "a condition of its unit was not met" in fault.message
    assert "systemd stopped it and did not start it again" in fault.message
    (systemd.units / "forbidden").unlink()
    systemd.stop("keeper.service")


async def test_a_unit_that_was_masked_while_it_runs_is_not_stopped(systemd: Systemd) -> None:
    pid = systemd.run("turncoat.service")
    text = (systemd.units / "turncoat.service").read_text()
    systemd.write("turncoat.service", None)
    systemd.reload()
    assert (await service(systemd, "turncoat.service").state()).state is State.RUNNING
    assert (await restart_fails(service(systemd, "turncoat.service"))).reason is Reason.START_FAILED
    assert systemd.pid("turncoat.service") == pid
    systemd.write("turncoat.service", text)
    systemd.reload()
    systemd.stop("turncoat.service")


# ---- the start limit


async def test_a_restart_that_runs_into_the_start_limit_does_not_leave_the_service_down(
    systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    limited = service(systemd, "limited.service", settle=0)
    for _ in range(8):  # three starts are allowed
        assert (await limited.restart(30)).state is State.RUNNING
    assert "its start limit was reached by a restart" in caplog.text
    systemd.stop("limited.service")


async def test_a_start_limit_is_noticed_where_the_stop_went_wrong_too(systemd: Systemd) -> None:
    """Result then says what was wrong with the stop, and nothing of the limit."""
    ignoring(systemd, "limited_dragging.service")
    assert (await service(systemd, "limited_dragging.service").restart(30)).state is State.RUNNING
    systemd.stop("limited_dragging.service")


async def test_a_service_that_its_start_limit_keeps_down_stays_down(systemd: Systemd) -> None:
    for _ in range(2):
        await restart_fails(service(systemd, "limited_bad.service"))
    fault = await restart_fails(service(systemd, "limited_bad.service"))
    assert fault.reason is Reason.START_FAILED
    assert "it was started too often in a short time (start limit)" in fault.message
    assert systemd.state("limited_bad.service") == "failed"


async def test_a_crash_loop_that_ends_in_the_start_limit(systemd: Systemd) -> None:
    fault = await restart_fails(service(systemd, "returns_limited.service", settle=2))
    assert fault.reason is Reason.START_FAILED


# ---- cancellation


async def test_a_restart_cancelled_wherever_it_waits_leaves_the_service_up(systemd: Systemd) -> None:
    systemd.run("good.service")
    one = driver(systemd, "good.service")
    await one.observe()
    step = 1
    while await cancelled_at(step, one.restart(lambda _: None, soon(30))):
        await anyio.to_thread.run_sync(systemd.wait_until, "good.service", "active")
        step += 1
    assert step > 4
    assert (await one.observe()).state is State.RUNNING


async def test_a_look_cancelled_wherever_it_waits_leaves_nothing(systemd: Systemd) -> None:
    step = 1
    while True:  # each with a connection of its own, whose making is cancelled too
        made = SystemdDriver("good.service", Bus(systemd.bus))
        cut = await cancelled_at(step, made.observe())
        await made.close()
        if not cut:
            break
        step += 1
    assert step > 5


async def test_a_restart_cancelled_as_it_runs_into_the_start_limit_leaves_the_service_up(systemd: Systemd) -> None:
    """The one thing that systemd does not do by itself: whenever it is cancelled, the service ends up running."""
    one = driver(systemd, "limited_slow.service")
    systemd.run("limited_slow.service")
    await one.observe()
    step = 1
    while await cancelled_at(step, one.restart(lambda _: None, soon(30))):
        await anyio.to_thread.run_sync(systemd.wait_until, "limited_slow.service", "active")
        step += 1
    assert step > 6


async def test_a_restart_cancelled_while_it_stops_goes_on(systemd: Systemd) -> None:
    pid = ignoring(systemd, "dragging.service")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver(systemd, "dragging.service").restart, lambda _: None, soon(20))
        await anyio.to_thread.run_sync(systemd.wait_until, "dragging.service", "deactivating")
        tasks.cancel_scope.cancel()
    await anyio.to_thread.run_sync(systemd.wait_until, "dragging.service", "active")
    assert systemd.pid("dragging.service") not in {0, pid}


async def test_a_restart_that_is_given_up_in_a_long_stop_says_so_in_the_log(
    systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    ignoring(systemd, "stubborn.service")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver(systemd, "stubborn.service").restart, lambda _: None, soon(0.5))
            await anyio.to_thread.run_sync(systemd.wait_until, "stubborn.service", "deactivating")
            scope.cancel()
    assert "stubborn.service: still stopping when the restart was given up; systemd goes on with it" in caplog.text
    systemd.kill("stubborn.service")
    systemd.wait_until("stubborn.service", "active")

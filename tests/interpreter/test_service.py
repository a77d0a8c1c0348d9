"""State, settling and restart of a service, in virtual time on services in memory."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.interpreter.virtual_time import BACKEND

from guideway.interpreter.drivers.base import Fault, Observation, Phase
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return BACKEND


async def fault_of(call: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        await call
    return caught.value


class Unsendable:
    async def probe(self) -> Any:
        raise Fault(Reason.CANNOT_PROBE, "not allowed to ask", "EPERM")


class Broken(MemoryDriver):
    async def observe(self) -> Observation:
        raise RuntimeError("a mistake in the driver")


class Wordy(MemoryDriver):
    async def tail(self) -> str:
        return "out of memory"


# ---- state


@pytest.mark.parametrize("state", State)
async def test_the_state_is_the_managers(state: State) -> None:
    assert (await Service("a", MemoryDriver(state)).state()).state is state


async def test_a_service_that_runs_and_answers_is_running() -> None:
    seen = await Service("a", MemoryDriver(output="pid 7"), health=MemoryProbe()).state()
    assert (seen.state, seen.output) == (State.RUNNING, "pid 7")


async def test_a_service_that_runs_and_does_not_answer_is_degraded_and_says_why() -> None:
    seen = await Service("a", Wordy(output="pid 7"), health=MemoryProbe(answers=False)).state()
    assert seen.state is State.DEGRADED
    assert seen.output == "pid 7\nhealth check: no answer\nout of memory"


async def test_a_health_check_that_hangs_fails() -> None:
    seen = await Service("a", MemoryDriver(), health=MemoryProbe(seconds=3600), health_seconds=2).state()
    assert seen.state is State.DEGRADED
    assert "no answer within 2 s" in seen.output


@pytest.mark.parametrize("state", [State.STOPPED, State.FAILED, State.STARTING, State.STOPPING])
async def test_what_does_not_run_is_not_asked_for_its_health(state: State) -> None:
    assert (await Service("a", MemoryDriver(state), health=Unsendable()).state()).state is state


async def test_a_health_check_that_cannot_be_sent_is_never_called_degraded() -> None:
    fault = await fault_of(Service("a", MemoryDriver(), health=Unsendable()).state())
    assert (fault.reason, fault.output) == (Reason.CANNOT_PROBE, "EPERM")
    assert fault.message == "it runs, but its health is not known: not allowed to ask"


async def test_whether_it_runs_is_known_without_its_health() -> None:
    seen = await Service("a", MemoryDriver(), health=Unsendable()).settled()
    assert seen.state is State.RUNNING
    assert "not allowed to ask" in seen.output


async def test_a_log_that_cannot_be_read_does_not_hide_the_state() -> None:
    class Unreadable(MemoryDriver):
        async def tail(self) -> str:
            raise Fault(Reason.UNKNOWN, "the log is gone")

    seen = await Service("a", Unreadable(State.FAILED, output="exit status 3")).state()
    assert seen.state is State.FAILED
    assert seen.output == "exit status 3\n(its log could not be read: the log is gone)"


async def test_a_mistake_in_reading_the_log_does_not_hide_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryDriver):
        async def tail(self) -> str:
            raise RuntimeError("a mistake in the driver")

    fault = await fault_of(Service("a", Broken(behaviour=Behaviour.DIES_AT_ONCE)).restart(20))
    assert (fault.reason, fault.output) == (Reason.START_FAILED, "(its log could not be read)")
    assert "a mistake in the driver" in caplog.text


async def test_a_log_that_hangs_does_not_hide_the_state() -> None:
    class Hanging(MemoryDriver):
        async def tail(self) -> str:
            await anyio.sleep_forever()
            return ""

    assert (await Service("a", Hanging(State.FAILED)).state()).state is State.FAILED


# ---- settled


@pytest.mark.parametrize("passing", [State.STARTING, State.STOPPING])
@pytest.mark.parametrize("final", [State.RUNNING, State.STOPPED, State.FAILED])
async def test_passing_states_are_waited_for(passing: State, final: State) -> None:
    driver = MemoryDriver(passing)
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(40)
            driver.state = final

        tasks.start_soon(later)
        began = anyio.current_time()
        assert (await Service("a", driver).settled()).state is final
        assert 40 <= anyio.current_time() - began <= 40.25
    assert len(driver.calls) < 200  # it does not poll without a pause


async def test_what_never_settles_is_the_callers_to_end() -> None:
    with anyio.move_on_after(30) as scope:
        await Service("a", MemoryDriver(State.STARTING)).settled()
    assert scope.cancelled_caught


# ---- restart


@pytest.mark.parametrize("state", State)
async def test_a_restart_brings_a_new_instance_whatever_the_state_was(state: State) -> None:
    driver = MemoryDriver(state, stop_seconds=2, start_seconds=3)
    seen = await Service("a", driver, health=MemoryProbe()).restart(60)
    assert (seen.state, seen.identity) == (State.RUNNING, "2")


async def test_a_restart_is_not_over_before_the_service_has_stayed_well() -> None:
    began = anyio.current_time()
    await Service("a", MemoryDriver(), health=MemoryProbe(), settle=5).restart(60)
    assert 5 <= anyio.current_time() - began < 5.5


async def test_a_service_that_falters_while_it_settles_settles_anew() -> None:
    health = MemoryProbe()
    async with anyio.create_task_group() as tasks:

        async def falter() -> None:
            await anyio.sleep(3)
            health.answers = False
            await anyio.sleep(3)
            health.answers = True

        tasks.start_soon(falter)
        began = anyio.current_time()
        await Service("a", MemoryDriver(), health=health, settle=5).restart(60)
        assert 11 <= anyio.current_time() - began < 12


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour.DIES_AT_ONCE, Reason.START_FAILED),
        (Behaviour.DIES_LATER, Reason.START_FAILED),
        (Behaviour.NEVER_HEALTHY, Reason.UNHEALTHY),
        (Behaviour.NEVER_STARTS, Reason.START_TIMED_OUT),
        (Behaviour.NEVER_STOPS, Reason.STOP_TIMED_OUT),
        (Behaviour.UNREACHABLE, Reason.UNREACHABLE),
        (Behaviour.NO_PERMISSION, Reason.NO_PERMISSION),
    ],
)
async def test_every_way_to_fail_has_its_reason(behaviour: Behaviour, reason: Reason) -> None:
    began = anyio.current_time()
    fault = await fault_of(Service("a", MemoryDriver(behaviour=behaviour)).restart(20))
    assert fault.reason is reason
    assert anyio.current_time() - began <= 20


async def test_a_service_that_never_answers_its_health_check_is_unhealthy() -> None:
    fault = await fault_of(Service("a", Wordy(), health=MemoryProbe(answers=False)).restart(20))
    assert fault.reason is Reason.UNHEALTHY
    assert fault.message == "after 19 s it ran, and its health check failed: no answer"
    assert fault.output == "out of memory"


async def test_a_health_check_that_is_still_out_at_the_deadline_has_not_passed() -> None:
    service = Service("a", MemoryDriver(), health=MemoryProbe(seconds=3600), health_seconds=3600)
    assert (await fault_of(service.restart(20))).reason is Reason.UNHEALTHY


async def test_a_restart_whose_health_cannot_be_asked_says_so() -> None:
    assert (await fault_of(Service("a", MemoryDriver(), health=Unsendable()).restart(5))).reason is Reason.CANNOT_PROBE


async def test_an_instance_that_takes_the_place_of_the_new_one_is_a_failed_start() -> None:
    """A manager that starts again what dies: the service is never down for long, and is not well."""

    class Flapping(MemoryDriver):
        async def observe(self) -> Observation:
            return Observation(State.RUNNING, str(int(anyio.current_time() / 3)))

    fault = await fault_of(Service("a", Flapping(), settle=10).restart(60))
    assert (fault.reason, fault.message) == (Reason.START_FAILED, "it started, ended, and was started again")


async def test_a_manager_that_only_says_that_it_restarted_is_not_believed() -> None:
    class Lying(MemoryDriver):
        async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
            enter(Phase.STOPPING)
            enter(Phase.STARTING)

    fault = await fault_of(Service("a", Lying()).restart(10))
    assert fault.reason is Reason.START_TIMED_OUT
    assert "no other instance" in fault.message


class Task(MemoryDriver):
    """What runs to its end: nothing of it is left when its restart is done."""

    seen = Observation(State.STOPPED, completed=True)

    async def restart(  # type: ignore[override]  # of a task, as the protocol has it
        self,
        enter: Callable[[Phase], None],
        end: float,  # noqa: ARG002
    ) -> Observation:
        enter(Phase.STARTING)
        return self.seen

    async def observe(self) -> Observation:
        return Observation(State.STOPPED)


async def test_a_task_has_been_restarted_when_it_ran_to_its_end() -> None:
    began = anyio.current_time()
    assert (await Service("a", Task(), settle=60).restart(20)).completed
    assert anyio.current_time() == began  # nothing is left of it that could settle


async def test_a_task_is_well_when_its_health_check_passes_too() -> None:
    assert (await Service("a", Task(), health=MemoryProbe(), settle=5).restart(20)).completed
    fault = await fault_of(Service("a", Task(), health=MemoryProbe(answers=False)).restart(20))
    assert fault.reason is Reason.UNHEALTHY


async def test_a_service_that_ran_to_its_end_and_is_no_task_has_not_been_restarted() -> None:
    class NoTask(Task):
        seen = Observation(State.STOPPED)

    assert (await fault_of(Service("a", NoTask()).restart(20))).reason is Reason.START_FAILED


async def test_what_the_driver_saw_at_the_end_of_a_restart_counts() -> None:
    """It ran then, and was being started again at the next look: it ended in between."""

    class Returning(MemoryDriver):
        async def restart(  # type: ignore[override]  # as the protocol has it
            self, enter: Callable[[Phase], None], end: float
        ) -> Observation:
            await super().restart(enter, end)
            self.state = State.STARTING
            return Observation(State.RUNNING, "2")

    fault = await fault_of(Service("a", Returning()).restart(20))
    assert (fault.reason, fault.message) == (Reason.START_FAILED, "it started, and is starting again")


@pytest.mark.parametrize(
    ("phase", "reason", "told"),
    [
        (Phase.STOPPING, Reason.STOP_TIMED_OUT, "nothing starts it again"),
        (Phase.REPLACING, Reason.STOP_TIMED_OUT, "its service manager starts it again"),
        (Phase.STARTING, Reason.START_TIMED_OUT, "its start was not over"),
    ],
)
async def test_the_phase_at_the_deadline_is_the_reason(phase: Phase, reason: Reason, told: str) -> None:
    class Stuck(MemoryDriver):
        async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
            enter(phase)
            await anyio.sleep_forever()

    fault = await fault_of(Service("a", Stuck()).restart(5))
    assert fault.reason is reason
    assert told in fault.message


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ([], "nothing was done to it yet"),
        ([Phase.STOPPING], "it may be stopped; its start is asked for as soon as it is"),
        ([Phase.REPLACING], "its service manager goes on with the restart"),
        ([Phase.STOPPING, Phase.STARTING], "its start was asked for"),
        ([Phase.STOPPING, Phase.LEFT_DOWN, Phase.BROUGHT_BACK], "its start was asked for"),
        ([Phase.STOPPING, Phase.LEFT_DOWN], "it may be stopped, and nothing starts it again"),
    ],
)
async def test_a_restart_that_is_cancelled_tells_what_it_leaves(phases: list[Phase], told: str) -> None:
    class Stuck(MemoryDriver):
        async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
            for phase in phases:
                enter(phase)
            await anyio.sleep_forever()

    heard: list[str] = []
    with anyio.move_on_after(0.1):
        await Service("a", Stuck()).restart(5, heard.append)
    assert heard == [told]


async def test_a_stop_that_came_too_late_is_told_with_the_start_that_was_asked_for() -> None:
    class Slow(MemoryDriver):
        async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
            enter(Phase.STOPPING)
            try:
                await anyio.sleep_forever()
            finally:
                enter(Phase.BROUGHT_BACK)

    fault = await fault_of(Service("a", Slow()).restart(0.2))
    assert fault.reason is Reason.STOP_TIMED_OUT
    assert "it had not stopped (it has since, and its start was asked for)" in fault.message


async def test_the_rights_to_restart_are_asked_for_where_a_driver_can_ask() -> None:
    class Forbidden(MemoryDriver):
        async def check_restart(self) -> None:
            raise Fault(Reason.NO_PERMISSION, "a rule would have to allow it")

    class Silent(MemoryDriver):
        async def check_restart(self) -> None:
            await anyio.sleep_forever()

    await Service("a", MemoryDriver()).check_restart()
    assert (await fault_of(Service("a", Forbidden()).check_restart())).reason is Reason.NO_PERMISSION
    assert (await fault_of(Service("a", Silent()).check_restart(5))).reason is Reason.TIMED_OUT


async def test_a_cancelled_restart_gives_the_next_one_its_turn() -> None:
    service = Service("a", MemoryDriver(stop_seconds=30))
    with anyio.move_on_after(1):
        await service.restart(60)
    assert (await service.restart(60)).state is State.RUNNING


@pytest.mark.parametrize("after", [0.5, 1.5])
async def test_a_cancelled_restart_leaves_the_service_up(after: float) -> None:
    """Cancelled while it stops (0.5 s) and while it starts (1.5 s)."""
    driver = MemoryDriver(stop_seconds=1, start_seconds=1)
    with anyio.move_on_after(after) as scope:
        await Service("a", driver).restart(60)
    assert scope.cancelled_caught
    assert driver.state is State.RUNNING


async def test_no_word_from_the_manager_is_not_blamed_on_the_service() -> None:
    class Silent(MemoryDriver):
        async def observe(self) -> Observation:
            await anyio.sleep_forever()
            raise AssertionError

    assert (await fault_of(Service("a", Silent()).restart(5))).reason is Reason.TIMED_OUT


@pytest.mark.parametrize("deadline", [0.0, -1.0])
async def test_no_time_at_all_is_a_timeout(deadline: float) -> None:
    assert (await fault_of(Service("a", MemoryDriver()).restart(deadline))).reason is Reason.TIMED_OUT


@pytest.mark.parametrize("call", [Service.state, Service.settled, lambda service: service.restart(5)])
async def test_a_mistake_in_a_driver_is_an_unknown_fault_and_stands_in_the_log(
    call: Callable[[Service], Any], caplog: pytest.LogCaptureFixture
) -> None:
    fault = await fault_of(call(Service("a", Broken())))
    assert fault.reason is Reason.UNKNOWN
    assert "mistake" not in fault.message + fault.output
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "a mistake in the driver" in caplog.text


async def test_a_mistake_in_a_health_check_is_an_unknown_fault_too(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def probe(self) -> Any:
            raise ExceptionGroup("several", [OSError("one"), ValueError("two")])

    assert (await fault_of(Service("a", MemoryDriver(), health=Broken()).state())).reason is Reason.UNKNOWN
    assert "several" in caplog.text


async def test_closing_a_service_closes_its_driver() -> None:
    driver = MemoryDriver()
    await Service("a", driver).close()
    assert driver.calls == ["close"]

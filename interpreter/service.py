"""What a service is to a program: a state with its health counted in, and a restart that is ok only when it is well.

That a service manager accepted or finished a restart proves nothing: what it started may be dead a moment later. So a
restart is watched until an instance that was not there before runs, passes its health check, and goes on doing so.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

import anyio
import anyio.lowlevel

from guideway.interpreter.drivers.base import (
    BoundsRestart,
    ChecksRights,
    Echo,
    Fault,
    Observation,
    Phase,
    Probe,
    ServiceDriver,
    only_faults,
)
from guideway.interpreter.results import Reason, State
from guideway.interpreter.risk import UNSTATED, Risk
from guideway.interpreter.windows import ALWAYS, Calendar

logger = logging.getLogger(__name__)

#: Kept back from a restart's deadline, to ask for the start of what was stopped and to read the end of the log.
RESERVE_SECONDS = 1.0
_TAIL_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_GROWTH = 0.02, 0.25, 1.5

# What a restart that is cancelled leaves, by what it entered last.
_LEFT = {
    Phase.STOPPING: "it may be stopped; its start is asked for as soon as it is",
    Phase.REPLACING: "its service manager goes on with the restart",
    Phase.STARTING: "its start was asked for",
    Phase.BROUGHT_BACK: "its start was asked for",
    Phase.LEFT_DOWN: "it may be stopped, and nothing starts it again",
}

_UNSETTLED = frozenset({State.STARTING, State.STOPPING})
# After these the end of the service's own log says more than its manager does.
_SELF_INFLICTED = frozenset(
    {Reason.STOP_TIMED_OUT, Reason.START_FAILED, Reason.START_TIMED_OUT, Reason.UNHEALTHY, Reason.CANNOT_PROBE}
)


class Service:
    """A service of the inventory: a driver, a health check, and what is stated of its mutations.

    ``key`` names what is really restarted: services with one key are one unit under several names. ``group`` bounds how
    many of its members are restarted at once. All times are in seconds. ``settle`` is how long a restarted service has
    to stay well, ``health_seconds`` how long one health check may take, and ``deadline`` how long a restart may, None
    for the default of the command.
    """

    def __init__(
        self,
        name: str,
        driver: ServiceDriver,
        *,
        health: Probe | None = None,
        restartable: bool = True,
        settle: float = 1.0,
        health_seconds: float = 2.0,
        deadline: float | None = None,
        risk: Risk = UNSTATED,
        calendar: Calendar = ALWAYS,
        group: str | None = None,
        key: str | None = None,
    ) -> None:
        self.name = name
        self.key = key or name
        self.risk = risk
        self.calendar = calendar
        self.group = group
        self.restartable = restartable
        self.deadline = deadline
        self._driver = driver
        self._health = health
        self._settle = settle
        self._health_seconds = health_seconds
        self._calls = 0
        #: Told at the start of each call: by whoever keeps the service, and closes it when it is idle.
        self.when_called: Callable[[], None] | None = None

    @property
    def in_use(self) -> bool:
        """Whether a call of it is under way."""
        return self._calls > 0

    async def state(self, deadline: float = math.inf) -> Observation:
        """Return the state now; ``degraded`` where it runs and its health check fails, and ``output`` says how.

        Raises ``Fault``, ``cannot_probe`` among others: where the check could not be sent, the state is not known.
        """
        with self._called(), anyio.move_on_after(deadline):
            seen, ill = await self._look()
            if ill is not None and ill.reason is Reason.CANNOT_PROBE:
                raise Fault(
                    Reason.CANNOT_PROBE, f"it runs, but its health is not known: {ill.message}", ill.output, ill.mend
                )
            return await self._explain(seen, ill)
        raise _silence(deadline)

    async def settled(self, deadline: float = math.inf) -> Observation:
        """Return the state once it is neither starting nor stopping. Raises ``Fault``.

        Whether a service runs does not depend on its health: one whose check could not be sent counts as running.
        """
        seen: Observation | None = None
        with self._called(), anyio.move_on_after(deadline):
            pauses = _pauses()
            while True:
                seen, ill = await self._look()
                if seen.state not in _UNSETTLED:
                    return await self._explain(seen, ill)
                await anyio.sleep(next(pauses))
        if seen is None:
            raise _silence(deadline)
        raise Fault(Reason.UNSETTLED, f"after {deadline:g} s it was still {seen.state}", seen.output)

    async def restart(self, deadline: float, tell: Callable[[str], None] | None = None) -> Observation:
        """Restart, and return once a new instance is seen healthy and stays so.

        Whoever calls it holds a lease: nobody else restarts the service meanwhile. Raises ``Fault`` at the latest
        after ``deadline`` seconds; its reason says what was being waited for. Where it is cancelled, ``tell`` is told
        what that leaves of the service.
        """
        end = anyio.current_time() + deadline
        waiting = _Waiting(anyio.current_time(), Reason.TIMED_OUT, "there was no word from the service manager")
        with self._called():
            try:
                return await self._restart(deadline, end, waiting)
            except anyio.get_cancelled_exc_class():
                if tell is not None:
                    tell(waiting.left)
                raise
            except Fault as fault:
                if fault.reason not in _SELF_INFLICTED:
                    raise
                output = _lines(fault.output, await self._tail(end))
                raise Fault(fault.reason, fault.message, output, fault.mend) from fault

    async def check_restart(self, deadline: float = math.inf) -> None:
        """Return where nothing is known to forbid a restart, and change nothing. Raises ``Fault``, for operators."""
        with self._called(), anyio.move_on_after(deadline) as scope:
            if isinstance(self._driver, ChecksRights):
                await self._driver.check_restart()
        if scope.cancelled_caught:
            raise _silence(deadline)

    async def longest_restart(self, deadline: float = math.inf) -> float | None:
        """Return the seconds that its manager lets a restart take, None where it does not say. Raises ``Fault``."""
        with self._called(), anyio.move_on_after(deadline):
            return await self._driver.longest_restart() if isinstance(self._driver, BoundsRestart) else None
        raise _silence(deadline)

    async def close(self) -> None:
        """Give back what the driver holds."""
        await self._driver.close()

    @contextmanager
    def _called(self) -> Iterator[None]:
        """Count a call, and let nothing but a ``Fault`` out of it."""
        self._calls += 1
        if self.when_called is not None:
            self.when_called()
        try:
            with only_faults(self.name):
                yield
        finally:
            self._calls -= 1

    async def _restart(self, deadline: float, end: float, waiting: "_Waiting") -> Observation:
        with anyio.CancelScope(deadline=end - deadline + watched_seconds(deadline)):
            await anyio.lowlevel.checkpoint()  # with no time at all nothing is even begun
            before = await self._driver.observe()
            seen = await self._driver.restart(waiting.enter, end)
            return await self._watch(before.identity, seen, waiting)
        raise waiting.fault()

    async def _watch(self, before: str | None, seen: Observation | None, waiting: "_Waiting") -> Observation:
        """Return once an instance other than ``before`` is well and has stayed so.

        ``seen`` is what the driver saw last. Of a task that completed nothing runs; where there is a health check, that
        has to pass all the same.
        """
        pauses = _pauses()
        instance: str | None = None
        well_since: float | None = None
        seen = seen or await self._driver.observe()
        while not (seen.completed and self._health is None):
            runs = _newcomer(seen, before, instance, waiting)
            instance = runs or instance
            if runs is None or not await self._is_well(seen, waiting):
                well_since = None
                await anyio.sleep(next(pauses))
            else:
                now = anyio.current_time()
                well_since = now if well_since is None else well_since
                remaining = well_since + self._settle - now
                if remaining <= 0:
                    break
                await anyio.sleep(min(next(pauses), remaining))
            seen = seen if seen.completed else await self._driver.observe()
        return seen

    async def _is_well(self, seen: Observation, waiting: "_Waiting") -> bool:
        if seen.state is State.DEGRADED:
            waiting.on(Reason.UNHEALTHY, "it ran, and its service manager called it unhealthy", seen.output)
            return False
        # A check that is still out at the deadline is not known to fail, and has not passed either.
        if waiting.reason not in {Reason.UNHEALTHY, Reason.CANNOT_PROBE}:
            waiting.on(Reason.UNHEALTHY, "it ran, and its health check had not passed")
        match await self._check():
            case None | Echo():
                waiting.on(Reason.START_TIMED_OUT, f"it ran, but had not been well for {self._settle:g} s")
                return True
            case Fault(reason=Reason.CANNOT_PROBE) as fault:
                waiting.on(Reason.CANNOT_PROBE, f"it ran, but its health is not known: {fault.message}", fault.output)
            case fault:
                waiting.on(Reason.UNHEALTHY, f"it ran, and its health check failed: {fault.message}", fault.output)
        return False

    async def _look(self) -> tuple[Observation, Fault | None]:
        """Return what the manager says and, of a running service, what is wrong with its health.

        What a check warns of that passed is in the output.
        """
        seen = await self._driver.observe()
        if seen.state is not State.RUNNING:
            return seen, None
        match await self._check():
            case Fault() as ill:
                return seen, ill
            case Echo(warning=warning) if warning:
                return replace(
                    seen, output=_lines(seen.output, "health check: it passed, with a warning", warning)
                ), None
            case _:
                return seen, None

    async def _check(self) -> Echo | Fault | None:
        """Return what the health check says, None where there is none."""
        if self._health is None:
            return None
        with anyio.move_on_after(self._health_seconds):
            try:
                return await self._health.probe()
            except Fault as fault:
                return fault
        return Fault(Reason.NO_ANSWER, f"no answer within {self._health_seconds:g} s")

    async def _explain(self, seen: Observation, ill: Fault | None) -> Observation:
        """Return the state with health counted in and, where all is not well, what there is to read about it."""
        if ill is not None:
            state = seen.state if ill.reason is Reason.CANNOT_PROBE else State.DEGRADED
            seen = replace(seen, state=state, output=_lines(seen.output, f"health check: {ill.message}", ill.output))
        if seen.state in {State.DEGRADED, State.FAILED}:
            return replace(seen, output=_lines(seen.output, await self._tail(anyio.current_time() + _TAIL_SECONDS)))
        return seen

    async def _tail(self, end: float) -> str:
        """Return the end of the service's log, read until ``end``; where it cannot be read, a line that says so."""
        with anyio.CancelScope(deadline=end):
            try:
                return await self._driver.tail()
            except Fault as fault:
                return f"(its log could not be read: {fault.message})"
            except Exception:  # what is known of the service is worth more than its log
                logger.exception("%s: unforeseen exception from its driver", self.name)
                return "(its log could not be read)"
        return ""


@dataclass(slots=True)
class _Waiting:
    """What a restart is waiting for now: at the deadline, that is the reason of its failure."""

    since: float
    reason: Reason
    message: str
    output: str = ""
    left: str = "nothing was done to it yet"

    def on(self, reason: Reason, message: str, output: str = "") -> None:
        self.reason, self.message, self.output = reason, message, output

    def enter(self, phase: Phase) -> None:
        self.left = _LEFT[phase]
        match phase:
            case Phase.STOPPING:
                self.on(Reason.STOP_TIMED_OUT, "it had not stopped (if it stops later, nothing starts it again)")
            case Phase.REPLACING:
                self.on(Reason.STOP_TIMED_OUT, "it had not stopped (when it does, its service manager starts it again)")
            case Phase.STARTING:
                self.on(Reason.START_TIMED_OUT, "its start was not over")
            case Phase.BROUGHT_BACK if self.reason is Reason.STOP_TIMED_OUT:
                self.message = "it had not stopped (it has since, and its start was asked for)"
            case Phase.BROUGHT_BACK | Phase.LEFT_DOWN:
                pass
            case _:
                assert_never(phase)

    def fault(self) -> Fault:
        return Fault(self.reason, f"after {anyio.current_time() - self.since:.3g} s {self.message}", self.output)


def _newcomer(seen: Observation, before: str | None, instance: str | None, waiting: _Waiting) -> str | None:
    """Return the identity of what runs, if it was not there before the restart; None where that is yet to come.

    ``instance`` is the one that was seen to run already: nothing may take its place. Raises ``Fault``.
    """
    if seen.completed:
        return "a task that ran to its end"
    match seen.state:
        case State.STOPPED | State.FAILED:
            raise Fault(Reason.START_FAILED, "it started and ended", seen.output)
        case State.STARTING | State.STOPPING:
            if instance is not None:
                raise Fault(Reason.START_FAILED, f"it started, and is {seen.state} again", seen.output)
            waiting.on(Reason.START_TIMED_OUT, f"it was still {seen.state}", seen.output)
            return None
        case State.RUNNING | State.DEGRADED:
            if seen.identity is None or seen.identity == before:
                waiting.on(Reason.START_TIMED_OUT, "no other instance ran than before the restart", seen.output)
                return None
            if instance not in {None, seen.identity}:
                raise Fault(Reason.START_FAILED, "it started, ended, and was started again", seen.output)
            return seen.identity
        case _:
            assert_never(seen.state)


def watched_seconds(deadline: float) -> float:
    """Return how long a restart with a deadline is watched: one that has to stay well for as long is never ok."""
    return deadline - min(RESERVE_SECONDS, deadline / 10)


def _silence(deadline: float) -> Fault:
    return Fault(Reason.TIMED_OUT, f"no word from the service manager within {deadline:g} s")


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * _PAUSE_GROWTH, _LONGEST_PAUSE)


def _lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)

"""Services that exist in memory only: for tests and for dry worlds. Never chosen unless it is named.

Owns a small world that behaves, and fails, as service managers do. Never touches anything outside the process.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import anyio
from pydantic import Field, Strict

from guideway.interpreter.drivers.base import DriverOptions, Fault, Observation, Phase
from guideway.interpreter.results import Reason, State


class Behaviour(StrEnum):
    """How a restart goes."""

    GOOD = "good"
    DIES_AT_ONCE = "dies_at_once"  # and the manager says so
    DIES_LATER = "dies_later"  # the manager reports success; it ends ``life_seconds`` after its start
    NEVER_HEALTHY = "never_healthy"  # it runs, degraded
    NEVER_STARTS = "never_starts"  # it stays starting, and the manager waits with us
    NEVER_STOPS = "never_stops"
    UNREACHABLE = "unreachable"  # for every call, reads too
    NO_PERMISSION = "no_permission"  # reads are allowed


class MemoryDriver:
    """One service in memory. ``behaviour`` and ``state`` may be set at any time; ``calls`` logs every call by name."""

    def __init__(
        self,
        state: State = State.RUNNING,
        behaviour: Behaviour = Behaviour.GOOD,
        *,
        stop_seconds: float = 0.0,
        start_seconds: float = 0.0,
        life_seconds: float = 0.5,
        output: str = "",
    ) -> None:
        self.behaviour = behaviour
        self.stop_seconds = stop_seconds
        self.start_seconds = start_seconds
        self.life_seconds = life_seconds
        self.output = output
        self.calls: list[str] = []
        self._instance = 1
        self._dies_at: float | None = None
        self._state = state

    @property
    def state(self) -> State:
        """What it is now."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._dies_at = None
        self._state = state

    async def observe(self) -> Observation:
        """Return the state now. Raises ``Fault`` where the world is made unreachable."""
        self._call("observe")
        if self._dies_at is not None and anyio.current_time() >= self._dies_at:
            self.state = State.FAILED
        lives = self._state not in {State.STOPPED, State.FAILED}
        return Observation(self._state, str(self._instance) if lives else None, self.output)

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
        """Stop and start, each in its time. Raises ``Fault``. Asking takes no time here, so ``end`` does not matter."""
        self._call("restart")
        if self.behaviour is Behaviour.NO_PERMISSION:
            raise Fault(Reason.NO_PERMISSION, "the service manager does not allow it")
        stopped = self._state in {State.STOPPED, State.FAILED}
        try:
            if not stopped:
                enter(Phase.STOPPING)
                self.state = State.STOPPING
                await self._takes(self.stop_seconds, forever=self.behaviour is Behaviour.NEVER_STOPS)
                self.state = State.STOPPED
            enter(Phase.STARTING)
            self._start()
            await self._takes(self.start_seconds, forever=self.behaviour is Behaviour.NEVER_STARTS)
        except anyio.get_cancelled_exc_class():
            self._call("start")
            if self._state is State.STOPPING and self.behaviour is Behaviour.NEVER_STOPS:
                enter(Phase.LEFT_DOWN)
            else:
                if self._state is State.STOPPING:
                    self._start()
                enter(Phase.BROUGHT_BACK)
            self._started()
            raise
        if not self._started():
            raise Fault(Reason.START_FAILED, "it ended at once")

    async def tail(self) -> str:
        """Return what the service wrote: nothing."""
        self._call("tail")
        return ""

    async def close(self) -> None:
        """Hold nothing."""
        self.calls.append("close")

    def _start(self) -> None:
        self._instance += 1
        self.state = State.STARTING

    def _started(self) -> bool:
        if self._state is not State.STARTING:
            return True
        match self.behaviour:
            case Behaviour.DIES_AT_ONCE:
                self.state = State.FAILED
                return False
            case Behaviour.DIES_LATER:
                self.state = State.RUNNING
                self._dies_at = anyio.current_time() + self.life_seconds
            case Behaviour.NEVER_HEALTHY:
                self.state = State.DEGRADED
            case Behaviour.NEVER_STARTS:
                pass
            case _:
                self.state = State.RUNNING
        return True

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.behaviour is Behaviour.UNREACHABLE:
            raise Fault(Reason.UNREACHABLE, "the service manager cannot be reached")

    @staticmethod
    async def _takes(seconds: float, *, forever: bool) -> None:
        if forever:
            await anyio.sleep_forever()
        await anyio.sleep(seconds)


class MemoryOptions(DriverOptions):
    """A service that exists in memory only. Times are in seconds."""

    apart = True

    state: Annotated[State, Strict(False)] = State.RUNNING
    behaviour: Annotated[Behaviour, Strict(False)] = Behaviour.GOOD
    stop_seconds: Annotated[float, Field(ge=0)] = 0.0
    start_seconds: Annotated[float, Field(ge=0)] = 0.0
    life_seconds: Annotated[float, Field(ge=0)] = 0.5

    def build(self) -> MemoryDriver:
        """Make the driver, in a world of its own."""
        return MemoryDriver(
            self.state,
            self.behaviour,
            stop_seconds=self.stop_seconds,
            start_seconds=self.start_seconds,
            life_seconds=self.life_seconds,
        )

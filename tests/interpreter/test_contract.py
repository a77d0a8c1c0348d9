"""The contract of drivers finds what is wrong with one. That the drivers here keep it is seen in tests/system."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.interpreter.virtual_time import BACKEND

from guideway.interpreter.drivers import contract
from guideway.interpreter.drivers.base import Fault, Observation, Phase, ServiceDriver
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.results import Reason, State

pytestmark = pytest.mark.anyio

Enter = Callable[[Phase], None]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return BACKEND


class Stage:
    """Services in memory, by one class of driver."""

    def __init__(self, kind: type[MemoryDriver]) -> None:
        self._kind = kind

    async def running(self) -> ServiceDriver:
        return self._kind(stop_seconds=1, start_seconds=1)

    async def stopped(self) -> ServiceDriver:
        return self._kind(State.STOPPED)

    async def dies(self) -> ServiceDriver:
        return self._kind(behaviour=Behaviour.DIES_LATER)

    async def unknown(self) -> ServiceDriver | None:
        made = self._kind()
        made.behaviour = Behaviour.UNREACHABLE
        return made

    async def unreachable(self) -> ServiceDriver:
        return self._kind(behaviour=Behaviour.UNREACHABLE)


class Blind(MemoryDriver):
    async def observe(self) -> Observation:
        self._call("observe")
        return Observation(State.RUNNING, "1")


class Anonymous(MemoryDriver):
    async def observe(self) -> Observation:
        await super().observe()
        return Observation(self.state)


class Restless(MemoryDriver):
    looks = 0

    async def observe(self) -> Observation:
        self.looks += 1
        return Observation((await super().observe()).state, str(self.looks))


class Mute(MemoryDriver):
    async def restart(self, enter: Enter, end: float) -> None:  # noqa: ARG002
        await super().restart(lambda _: None, end)


class Lazy(MemoryDriver):
    async def restart(self, enter: Enter, end: float) -> None:  # noqa: ARG002
        self._call("restart")
        enter(Phase.STOPPING)
        enter(Phase.STARTING)


class Careless(MemoryDriver):
    """What is cancelled stays as it is."""

    async def restart(self, enter: Enter, end: float) -> None:  # noqa: ARG002
        self._call("restart")
        enter(Phase.STOPPING)
        self.state = State.STOPPED
        await anyio.sleep(1)
        enter(Phase.STARTING)
        self._start()
        self._started()


class Shouting(MemoryDriver):
    async def observe(self) -> Observation:
        if self.behaviour is Behaviour.UNREACHABLE:
            raise Fault(Reason.UNREACHABLE, "Connection refused.")
        return await super().observe()


class Raising(MemoryDriver):
    async def observe(self) -> Observation:
        if self.behaviour is Behaviour.UNREACHABLE:
            raise ConnectionRefusedError
        return await super().observe()


class Optimistic(MemoryDriver):
    """It never looks again at what it has started."""

    async def observe(self) -> Observation:
        seen = await super().observe()
        return Observation(State.RUNNING, "2") if seen.state is State.FAILED else seen


class Leaving(MemoryDriver):
    async def close(self) -> None:
        if "close" in self.calls:
            raise RuntimeError("closed already")
        await super().close()


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (contract.a_running_service_is_seen_as_one, Anonymous),
        (contract.a_running_service_is_seen_as_one, Restless),
        (contract.a_stopped_service_is_seen_as_one, Blind),
        (contract.a_restart_brings_another_instance, Lazy),
        (contract.a_restart_brings_another_instance, Mute),
        (contract.a_restart_starts_what_is_stopped, Lazy),
        (contract.a_service_that_dies_is_not_restarted, Optimistic),
        (contract.a_service_that_is_not_known_is_not_found, MemoryDriver),
        (contract.a_manager_that_is_not_there_is_unreachable, Shouting),
        (contract.a_manager_that_is_not_there_is_unreachable, Raising),
        (contract.a_restart_cancelled_at_any_moment_leaves_the_service_up, Careless),
        (contract.looks_can_be_many_at_once, Restless),
        (contract.a_driver_that_is_closed_holds_nothing, Leaving),
    ],
)
async def test_a_driver_that_breaks_the_contract_is_found(
    check: Callable[[contract.Stage], Awaitable[None]], kind: type[MemoryDriver]
) -> None:
    with pytest.raises((contract.BrokenError, RuntimeError)):
        await check(Stage(kind))


async def test_every_check_is_run() -> None:
    named = {
        value
        for name, value in vars(contract).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == contract.__name__ and callable(value)
    }
    assert named - {contract.BrokenError, contract.Stage} == set(contract.CHECKS)

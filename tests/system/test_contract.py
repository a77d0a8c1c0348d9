"""Every driver that comes with the product keeps the contract of drivers, on real services."""

from collections.abc import Iterator
from typing import Any

import anyio.to_thread
import pytest
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd, need_containers
from tests.system.units import UNITS

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.drivers.contract import CHECKS, Stage
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.results import State

pytestmark = pytest.mark.anyio


class InMemory:
    """Services that exist in memory only."""

    async def running(self) -> ServiceDriver:
        return MemoryDriver(stop_seconds=0.01, start_seconds=0.01)

    async def stopped(self) -> ServiceDriver:
        return MemoryDriver(State.STOPPED)

    async def dies(self) -> ServiceDriver:
        return MemoryDriver(behaviour=Behaviour.DIES_LATER, life_seconds=0.2)

    async def unknown(self) -> ServiceDriver | None:
        return None

    async def unreachable(self) -> ServiceDriver:
        return MemoryDriver(behaviour=Behaviour.UNREACHABLE)


class OnSupervisord:
    """Programs of a supervisord."""

    def __init__(self, world: Supervisord) -> None:
        self._world = world

    async def running(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._run)
        return self._driver("good")

    async def stopped(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._run)
        await anyio.to_thread.run_sync(self._world.stop, "good")
        return self._driver("good")

    async def dies(self) -> ServiceDriver:
        return self._driver("dies")

    async def unknown(self) -> ServiceDriver | None:
        return self._driver("unknown")

    async def unreachable(self) -> ServiceDriver:
        return self._driver("good", socket=str(self._world.folder / "none"))

    def _run(self) -> None:
        if self._world.pid("good") == 0:
            self._world.run("good")

    def _driver(self, program: str, **options: Any) -> ServiceDriver:
        given = {"program": program, "socket": str(self._world.socket), **options}
        return DRIVERS["supervisord"].model_validate(given).build()


class OnSystemd:
    """Units of a systemd."""

    def __init__(self, world: Systemd) -> None:
        self._world = world

    async def running(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._world.run, "good.service")
        return self._driver("good.service")

    async def stopped(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._world.stop, "good.service")
        return self._driver("good.service")

    async def dies(self) -> ServiceDriver:
        return self._driver("dies_at_once.service")

    async def unknown(self) -> ServiceDriver | None:
        return self._driver("unknown.service")

    async def unreachable(self) -> ServiceDriver:
        return self._driver("good.service", bus=str(self._world.folder / "none"))

    def _driver(self, unit: str, **options: Any) -> ServiceDriver:
        return DRIVERS["systemd"].model_validate({"unit": unit, "bus": str(self._world.bus), **options}).build()


@pytest.fixture(scope="module", params=["memory", "supervisord", "systemd"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "memory":
        yield InMemory()
    elif request.param == "supervisord":
        programs = {"good": ["sleep", "1000"], "dies": ["sh", "-c", "sleep 0.2; exit 3"]}
        # A SIGTERM that comes between fork and exec is lost in supervisord's own handler.
        with Supervisord(programs, {"good": {"stopwaitsecs": "1"}}) as supervisord:
            yield OnSupervisord(supervisord)
    else:
        need_containers()
        with Systemd({name: UNITS[name] for name in ("good.service", "dies_at_once.service")}) as systemd:
            yield OnSystemd(systemd)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_every_driver(check: Any, stage: Stage) -> None:
    await check(stage)

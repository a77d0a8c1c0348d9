"""Every driver that comes with the product keeps the contract of drivers, on real services."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio.to_thread
import pytest
from tests.system.containers import CONTAINERS
from tests.system.engines import KINDS, Engine, need_engine
from tests.system.sshd import Sshd, need_sshd
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd, need_containers
from tests.system.units import UNITS

from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.drivers.container import ContainerOptions
from guideway.interpreter.drivers.contract import CHECKS, Stage
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.systemd import SystemdOptions
from guideway.interpreter.drivers.ways import HERE, Way
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
    """Programs of a supervisord, on the machine that a way leads to."""

    def __init__(self, world: Supervisord, way: Way) -> None:
        self._world = world
        self._way = way

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
        return SupervisordOptions.model_validate(given).build_over(self._way)


class OnSystemd:
    """Units of a systemd, on the machine that a way leads to."""

    def __init__(self, world: Systemd, way: Way) -> None:
        self._world = world
        self._way = way

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
        return SystemdOptions.model_validate({"unit": unit, "bus": str(self._world.bus), **options}).build_over(
            self._way
        )


class OnEngine:
    """Containers of a Docker or Podman, on the machine that a way leads to."""

    def __init__(self, world: Engine, way: Way) -> None:
        self._world = world
        self._way = way

    async def running(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._world.run, "good")
        return self._driver("good")

    async def stopped(self) -> ServiceDriver:
        await anyio.to_thread.run_sync(self._world.run, "good")
        await anyio.to_thread.run_sync(self._world.stop, "good")
        return self._driver("good")

    async def dies(self) -> ServiceDriver:
        return self._driver("dies_later")

    async def unknown(self) -> ServiceDriver | None:
        return self._driver("unknown")

    async def unreachable(self) -> ServiceDriver:
        return self._driver("good", socket=str(self._world.folder / "none"))

    def _driver(self, name: str, **options: Any) -> ServiceDriver:
        given = {"container": name, "socket": str(self._world.socket), **options}
        return ContainerOptions.model_validate(given).build_over(self._way)


_STAGES = ("memory", "supervisord", "systemd", *KINDS, "supervisord over ssh", "systemd over ssh", "docker over ssh")


@pytest.fixture(scope="module", params=_STAGES)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    manager, _, far = request.param.partition(" over ")
    with ExitStack() as started:
        way = HERE
        if far:
            need_sshd()
            way = started.enter_context(Sshd()).way()
        if manager == "memory":
            yield InMemory()
        elif manager == "supervisord":
            programs = {"good": ["sleep", "1000"], "dies": ["sh", "-c", "sleep 0.2; exit 3"]}
            # A SIGTERM that comes between fork and exec is lost in supervisord's own handler.
            yield OnSupervisord(started.enter_context(Supervisord(programs, {"good": {"stopwaitsecs": "1"}})), way)
        elif manager in KINDS:
            need_engine(manager)
            containers = {name: CONTAINERS[name] for name in ("good", "dies_later")}
            yield OnEngine(started.enter_context(Engine(manager, containers)), way)
        else:
            need_containers()
            units = {name: UNITS[name] for name in ("good.service", "dies_at_once.service")}
            yield OnSystemd(started.enter_context(Systemd(units)), way)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_every_driver(check: Any, stage: Stage) -> None:
    await check(stage)

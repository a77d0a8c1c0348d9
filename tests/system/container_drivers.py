"""What the tests of containers share: drivers as a configuration makes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
from tests.system.engines import Engine
from tests.system.remains import closed_later

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.service import Service


def driver(world: Engine, name: str, **options: Any) -> ServiceDriver:
    """Return a driver as a configuration makes it."""
    return closed_later(
        DRIVERS["container"].model_validate({"container": name, "socket": str(world.socket), **options}).build()
    )


def service(world: Engine, name: str, *, settle: float = 0.2, health: TcpProbe | None = None) -> Service:
    """Return a service as a configuration makes it."""
    return Service(name, driver(world, name), settle=settle, health=health)


@asynccontextmanager
async def checking(world: Engine, name: str) -> AsyncIterator[None]:
    """Have a container's health checked again and again, as it is where Podman has systemd's timers."""

    async def check() -> None:
        while True:
            await anyio.sleep(0.2)
            await anyio.to_thread.run_sync(world.check_health, name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(check)
        yield
        tasks.cancel_scope.cancel()

"""What the tests of systemd's units share: drivers that are closed afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.remains import closed_later
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.drivers.systemd.bus import Bus
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.service import Service

GUEST = 65534  # nobody


def driver(world: Systemd, unit: str, *, start_new: bool = False) -> ServiceDriver:
    """Return a driver as a configuration makes it."""
    said = {"unit": unit, "bus": str(world.bus), "start_new": start_new}
    return closed_later(DRIVERS["systemd"].model_validate(said).build())


def driver_of_guest(world: Systemd, unit: str) -> SystemdDriver:
    """Return a driver that is the guest to the bus."""
    return closed_later(SystemdDriver(unit, Bus(world.bus, GUEST)))


def service(world: Systemd, unit: str, *, settle: float = 0.2, health: TcpProbe | None = None) -> Service:
    """Return a service as a configuration makes it."""
    return Service(unit, driver(world, unit), settle=settle, health=health)


@contextmanager
def as_guest() -> Iterator[None]:
    """Be a user without rights."""
    os.seteuid(GUEST)
    try:
        yield
    finally:
        os.seteuid(0)


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

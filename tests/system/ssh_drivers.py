"""What the tests of services over SSH share: drivers of both kinds, and a count of what is left."""

import asyncio
import os
import tempfile
from pathlib import Path

import anyio
import pytest
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd
from tests.system.test_supervisord import open_sockets

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.systemd import SystemdOptions
from guideway.interpreter.drivers.ways import Way

Left = tuple[int, int, int, int]


def left() -> Left:
    """Return what a driver could leave: tasks, sockets, open files, and folders for sockets."""
    folders = len(list(Path(tempfile.gettempdir()).glob("guideway-*/s")))
    return len(asyncio.all_tasks()), open_sockets(), len(os.listdir("/proc/self/fd")), folders


async def nothing_more_than(before: Left) -> None:
    """Wait until no more is left than before: a connection that was ended is gone a few turns of the loop later."""
    with anyio.move_on_after(5):
        while left() != before:
            await anyio.sleep(0.005)
    assert left() == before


def program(world: Supervisord, name: str, way: Way) -> ServiceDriver:
    """Return a driver as a configuration makes it."""
    return SupervisordOptions(program=name, socket=world.socket, ssh="there").build_over(way)


def unit(world: Systemd, name: str, way: Way) -> ServiceDriver:
    """Return a driver as a configuration makes it."""
    return SystemdOptions(unit=name, bus=world.bus, ssh="there").build_over(way)


async def fault_of(driver: ServiceDriver) -> Fault:
    """Return the fault that a look ends with, and close the driver."""
    try:
        with pytest.raises(Fault) as caught:
            await driver.observe()
    finally:
        await driver.close()
    return caught.value

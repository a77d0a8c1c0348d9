"""What the tests of services over SSH share: programs of a supervisord, and drivers of each kind."""

from typing import Final

import pytest
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.systemd import SystemdOptions
from guideway.interpreter.drivers.ways import Way

PROGRAMS: Final = {
    "good": ["sleep", "1000"],
    "stubborn": ["sh", "-c", "trap '' TERM; exec sleep 1000"],
}
SETTINGS: Final = {"good": {"stopwaitsecs": "1"}, "stubborn": {"stopwaitsecs": "1"}}


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

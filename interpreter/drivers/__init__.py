"""One file a backend. A driver says what a service manager says; what that means is decided in ``service``."""

from collections.abc import Mapping
from types import MappingProxyType

from guideway.interpreter.drivers.base import DriverOptions
from guideway.interpreter.drivers.memory import MemoryOptions
from guideway.interpreter.drivers.supervisord import SupervisordOptions

#: What a configuration can call a driver.
DRIVERS: Mapping[str, type[DriverOptions]] = MappingProxyType(
    {"supervisord": SupervisordOptions, "memory": MemoryOptions}
)

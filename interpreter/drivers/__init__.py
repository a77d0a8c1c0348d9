"""One file a backend. A driver says what a service manager says; what that means is decided in ``service``."""

from collections.abc import Mapping
from types import MappingProxyType

from guideway.interpreter.drivers.base import DriverOptions
from guideway.interpreter.drivers.container import ContainerOptions
from guideway.interpreter.drivers.installed import Installed
from guideway.interpreter.drivers.kubernetes import KubernetesOptions
from guideway.interpreter.drivers.memory import MemoryOptions
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.systemd import SystemdOptions

_OWN: Mapping[str, type[DriverOptions]] = MappingProxyType(
    {
        "supervisord": SupervisordOptions,
        "systemd": SystemdOptions,
        "container": ContainerOptions,
        "kubernetes": KubernetesOptions,
        "memory": MemoryOptions,
    }
)

#: What a configuration can call a driver: these, and what other packages have installed.
DRIVERS: Mapping[str, type[DriverOptions]] = Installed(_OWN, "guideway.drivers", DriverOptions)  # type: ignore[type-abstract]

"""One file a probe. A probe says how it asked, and never takes a question that it could not send for one unanswered."""

from collections.abc import Mapping
from types import MappingProxyType

from guideway.interpreter.drivers.base import ProbeOptions
from guideway.interpreter.drivers.installed import Installed
from guideway.interpreter.probes.command import CommandOptions
from guideway.interpreter.probes.http import HttpOptions
from guideway.interpreter.probes.icmp import IcmpOptions
from guideway.interpreter.probes.memory import MemoryProbeOptions
from guideway.interpreter.probes.tcp import TcpOptions

_OWN: Mapping[str, type[ProbeOptions]] = MappingProxyType(
    {
        "icmp": IcmpOptions,
        "tcp": TcpOptions,
        "http": HttpOptions,
        "command": CommandOptions,
        "memory": MemoryProbeOptions,
    }
)

#: What a configuration can call a probe: these, and what other packages have installed.
PROBES: Mapping[str, type[ProbeOptions]] = Installed(_OWN, "guideway.probes", ProbeOptions)  # type: ignore[type-abstract]

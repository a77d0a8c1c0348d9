"""What the configuration says there is: hosts, services and SSH hosts, by name and by pattern of names; checked.

It makes nothing: putting parts together is ``wiring``'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from guideway.dsl.patterns import NamePattern
from guideway.interpreter.drivers.base import DriverOptions, ProbeOptions
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.server.sections import HostSection, ServiceSection
from guideway.server.templates import Template


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host as configured: which probe, with which options."""

    kind: str
    probe: ProbeOptions
    common: HostSection


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """A service as configured: which driver, with which options, and how its health is seen."""

    kind: str
    driver: DriverOptions
    health_kind: str | None
    health: ProbeOptions | None
    common: ServiceSection


@dataclass(frozen=True, slots=True)
class HostPatternEntry:
    """Hosts by a pattern, as configured."""

    pattern: NamePattern
    kind: str
    probe: Template[ProbeOptions]
    common: HostSection


@dataclass(frozen=True, slots=True)
class ServicePatternEntry:
    """Services by a pattern, as configured. ``common`` holds for each of them."""

    pattern: NamePattern
    kind: str
    driver: Template[DriverOptions]
    health_kind: str | None
    health: Template[ProbeOptions] | None
    common: ServiceSection


@dataclass(frozen=True, slots=True)
class SshPatternEntry:
    """SSH hosts by a pattern, as configured."""

    pattern: NamePattern
    options: Template[SshOptions]


@dataclass(frozen=True, slots=True)
class Entries:
    """The hosts and services of one owner, by name and by pattern."""

    hosts: Mapping[str, HostEntry] = field(default_factory=dict)
    services: Mapping[str, ServiceEntry] = field(default_factory=dict)
    host_patterns: Mapping[str, HostPatternEntry] = field(default_factory=dict)
    service_patterns: Mapping[str, ServicePatternEntry] = field(default_factory=dict)

    def every_host(self) -> dict[str, HostEntry | HostPatternEntry]:
        """Return the hosts by name, and those by pattern under its text."""
        return {**self.hosts, **self.host_patterns}

    def every_service(self) -> dict[str, ServiceEntry | ServicePatternEntry]:
        """Return the services by name, and those by pattern under its text."""
        return {**self.services, **self.service_patterns}

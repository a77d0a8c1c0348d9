"""Which services are one unit under several names, also in several tenants: they share locks and quotas.

Where a link leads is looked at once for a configuration, here: what is loaded agrees with itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from guideway.interpreter.drivers.base import DriverOptions
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.server.entries import Entries, ServiceEntry
from guideway.server.ssh_ways import SshHosts


@dataclass(frozen=True, slots=True)
class Named:
    """An entry for one service: whose it is, and under which name."""

    tenant: str | None
    name: str
    entry: ServiceEntry


def unit_of(tenant: str | None, name: str, options: DriverOptions, hosts: SshHosts) -> str:
    """Return what is really restarted. Raises ``ValueError`` where its machine is not known."""
    machine = hosts.machine(options.ssh) if isinstance(options, SocketOptions) and options.ssh is not None else None
    key = options.unit_key(machine)
    if key is not None:
        return key
    return name if tenant is None else f"{tenant}/{name}"  # no name has a slash in it


class Units:
    """The units of the services that have an entry by their name; those of an unknown machine are left out."""

    def __init__(self, shared: Entries, own: Mapping[str, Entries], hosts: SshHosts) -> None:
        found: dict[str, list[Named]] = {}
        self._of: dict[tuple[str | None, str], str] = {}
        for named in _named(shared, own):
            try:
                unit = unit_of(named.tenant, named.name, named.entry.driver, hosts)
            except ValueError:
                continue
            found.setdefault(unit, []).append(named)
            self._of[named.tenant, named.name] = unit
        self.several: Mapping[str, list[Named]] = MappingProxyType(found)

    def of(self, tenant: str | None, name: str) -> str:
        """Return the unit of a service by whose it is and its name. Raises ``KeyError``."""
        return self._of[tenant, name]


def _named(shared: Entries, own: Mapping[str, Entries]) -> Iterator[Named]:
    for name, entry in shared.services.items():
        yield Named(None, name, entry)
    for tenant, entries in own.items():
        for name, entry in entries.services.items():
            yield Named(tenant, name, entry)

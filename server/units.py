"""Which services are one unit under several names, also in several tenants: they share locks and quotas."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


def units(shared: Entries, own: Mapping[str, Entries], hosts: SshHosts) -> dict[str, list[Named]]:
    """Return the services that have an entry by their name, by unit; those of an unknown machine are left out."""
    found: dict[str, list[Named]] = {}
    for named in _named(shared, own):
        try:
            unit = unit_of(named.tenant, named.name, named.entry.driver, hosts)
        except ValueError:
            continue
        found.setdefault(unit, []).append(named)
    return found


def _named(shared: Entries, own: Mapping[str, Entries]) -> Iterator[Named]:
    for name, entry in shared.services.items():
        yield Named(None, name, entry)
    for tenant, entries in own.items():
        for name, entry in entries.services.items():
            yield Named(tenant, name, entry)

"""The machines that are reached over SSH: what each name means, and one way for each, made when a service on it is."""

import ipaddress
import weakref
from collections.abc import Iterable, Mapping

from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import Way
from guideway.server.entries import SshPatternEntry


class SshHosts:
    """SSH hosts by name, also those that a pattern means."""

    def __init__(self, hosts: Mapping[str, SshOptions], patterns: Iterable[SshPatternEntry]) -> None:
        self._named = hosts
        self._patterns = tuple(patterns)

    def options(self, name: str) -> SshOptions:
        """Return what is configured of a machine. Raises ``ValueError``: no such machine is known."""
        if name in self._named:
            return self._named[name]
        for entry in self._patterns:
            stars = entry.pattern.match(name)
            if stars is not None:
                return entry.options.fill(name, stars)
        raise ValueError(f"there is no SSH host `{name}`")

    def machine(self, name: str) -> str:
        """Return which machine a name means, whoever is the user there. Raises ``ValueError``."""
        options = self.options(name)
        return f"{_one_spelling(options.host)}:{options.port}"


def _one_spelling(host: str) -> str:
    """Return a host as it is always written: names know no case, and IPv6 addresses have many spellings."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().rstrip(".")
    return str(getattr(address, "ipv4_mapped", None) or address)


class SshWays:
    """Ways by the names of SSH hosts. One of a pattern's is kept by the services on it, and gone with the last."""

    def __init__(self, hosts: Mapping[str, SshOptions], patterns: Iterable[SshPatternEntry]) -> None:
        self._made_at_once = {name: options.build() for name, options in hosts.items()}
        self._hosts = SshHosts(hosts, patterns)
        self._made: weakref.WeakValueDictionary[str, Way] = weakref.WeakValueDictionary()

    def of(self, name: str) -> Way:
        """Return the way to a machine, the same one for everybody. Raises ``ValueError``: no such machine is known."""
        way = self._made_at_once.get(name) or self._made.get(name)
        if way is None:
            way = self._made[name] = self._hosts.options(name).build()
        return way

"""The machines that are reached over SSH: one way for each, made when a service on it is."""

import weakref
from collections.abc import Iterable, Mapping

from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import Way
from guideway.server.entries import SshPatternEntry


class SshWays:
    """Ways by the names of SSH hosts. One of a pattern's is kept by the services on it, and gone with the last."""

    def __init__(self, hosts: Mapping[str, SshOptions], patterns: Iterable[SshPatternEntry]) -> None:
        self._hosts = {name: options.build() for name, options in hosts.items()}
        self._patterns = tuple(patterns)
        self._made: weakref.WeakValueDictionary[str, Way] = weakref.WeakValueDictionary()

    def of(self, name: str) -> Way:
        """Return the way to a machine, the same one for everybody. Raises ``ValueError``: no such machine is known."""
        way = self._hosts.get(name) or self._made.get(name)
        if way is None:
            way = self._made[name] = self._options(name).build()
        return way

    def _options(self, name: str) -> SshOptions:
        for entry in self._patterns:
            stars = entry.pattern.match(name)
            if stars is not None:
                return entry.options.fill(name, stars)
        raise ValueError(f"there is no SSH host `{name}`")

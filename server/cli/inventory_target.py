"""What an entry of the inventory is to who runs it: a unit, a program, a workload, on which machine."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from guideway.interpreter.drivers.base import ProbeOptions
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.server.config import Config
from guideway.server.entries import (
    Entries,
    HostEntry,
    HostPatternEntry,
    ServiceEntry,
    ServicePatternEntry,
    SshPatternEntry,
)
from guideway.server.templates import Template

_SSH_PORT: Final = 22
_LONGEST: Final = 60  # what a line shows of a name


def target_of(entry: ServiceEntry | ServicePatternEntry) -> dict[str, Any]:
    """Return the options that say what a service is to its service manager, and its SSH machine if it has one.

    Those of a pattern have placeholders in the place of what the name makes of them.
    """
    if isinstance(entry, ServicePatternEntry):
        model = entry.driver.model
        usual = {key: field.default for key, field in model.model_fields.items() if not field.is_required()}
        said, shown = {**usual, **entry.driver.table}, model.shown
    else:
        said, shown = entry.driver.model_dump(), entry.driver.shown
    return {"target": {key: str(said[key]) for key in shown}, "ssh": said.get("ssh")}


_Probed = ProbeOptions | Template[ProbeOptions] | None


def probe_of(owners: Sequence[Entries], kind: str, name: str) -> _Probed:
    """Return what a ``host`` or ``service`` that a program can name is asked by, None where it is not."""
    for owned in owners:
        entry = owned.hosts.get(name) if kind == "host" else owned.services.get(name)
        if entry is not None:
            return probe_in(entry)
    for owned in owners:
        patterns: Iterator[HostPatternEntry | ServicePatternEntry] = iter(
            owned.host_patterns.values() if kind == "host" else owned.service_patterns.values()
        )
        for pattern in patterns:
            if pattern.pattern.match(name):
                return probe_in(pattern)
    return None


def probe_in(entry: HostEntry | HostPatternEntry | ServiceEntry | ServicePatternEntry) -> _Probed:
    """Return what an entry's hosts, or the health of its services, are asked by."""
    return entry.probe if isinstance(entry, HostEntry | HostPatternEntry) else entry.health


def probed_by(probe: _Probed) -> dict[str, str]:
    """Return the options that say what a probe runs; empty for one that sends."""
    if probe is None:
        return {}
    if isinstance(probe, Template):
        return {key: str(probe.table[key]) for key in probe.model.shown if key in probe.table}
    return {key: str(getattr(probe, key)) for key in probe.shown}


def target_words(said: dict[str, Any]) -> str:
    """Return the same in short, to stand behind the name of a driver; empty where there is nothing to say."""
    whole = " ".join(said["target"].values())
    name = whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}..."
    return (f" {name}" if name else "") + (f" on {said['ssh']}" if said["ssh"] else "")


def machines(config: Config) -> list[dict[str, Any]]:
    """Return the SSH machines by name, and those by pattern under its text."""
    every: dict[str, SshOptions | SshPatternEntry] = {**config.ssh, **config.ssh_patterns}
    return [_machine(name, entry) for name, entry in sorted(every.items())]


def _machine(name: str, entry: SshOptions | SshPatternEntry) -> dict[str, Any]:
    said = entry.options.table if isinstance(entry, SshPatternEntry) else entry.model_dump()
    return {"name": name, "host": said["host"], "port": said.get("port", _SSH_PORT), "user": said["user"]}


def machine_words(machine: dict[str, Any]) -> str:
    """Return who is where, such as ``ops at web1.internal, port 2222``."""
    port = "" if machine["port"] == _SSH_PORT else f", port {machine['port']}"
    return f"{machine['user']} at {machine['host']}{port}"

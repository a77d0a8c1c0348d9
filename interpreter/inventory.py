"""What there is to name: hosts with their probes, services with their drivers. Names are checked when it is made."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

import anyio

from guideway.dsl.ast import Target
from guideway.dsl.lexer import is_name
from guideway.interpreter.drivers.base import Echo, Fault, Probe, only_faults
from guideway.interpreter.results import Reason
from guideway.interpreter.service import Service


@dataclass(frozen=True, slots=True)
class Host:
    """Something to ping. ``deadline`` is in seconds; None takes the default of the command."""

    name: str
    probe: Probe
    deadline: float | None = None

    async def ping(self, deadline: float = math.inf) -> Echo:
        """Return the host's answer. Raises ``Fault``, at the latest after ``deadline`` seconds."""
        with only_faults(self.name), anyio.move_on_after(deadline):
            return await self.probe.probe()
        raise Fault(Reason.NO_ANSWER, f"no answer within {deadline:g} s")


class Inventory:
    """The hosts and services of an installation, by name.

    Raises ``ValueError`` for a name that the language cannot spell.
    """

    def __init__(self, hosts: Iterable[Host] = (), services: Iterable[Service] = ()) -> None:
        self.hosts: Mapping[str, Host] = MappingProxyType({host.name: host for host in hosts})
        self.services: Mapping[str, Service] = MappingProxyType({service.name: service for service in services})
        for name in (*self.hosts, *self.services):
            if not is_name(name):
                raise ValueError(f"`{name}` is not a name that a program can spell")
        self._names = {
            Target.HOST: tuple(sorted(self.hosts)),
            Target.SERVICE: tuple(sorted(self.services)),
            Target.RESTARTABLE: tuple(sorted(name for name, service in self.services.items() if service.restartable)),
        }

    def names(self, target: Target) -> tuple[str, ...]:
        """Return the names of one kind, sorted."""
        return self._names[target]

    def allows(self, target: Target, name: str) -> bool:
        """Say whether a name is one of a kind."""
        match target:
            case Target.HOST:
                return name in self.hosts
            case Target.SERVICE:
                return name in self.services
            case Target.RESTARTABLE:
                return name in self.services and self.services[name].restartable
            case _:
                assert_never(target)

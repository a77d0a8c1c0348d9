"""A small world in memory, and callers for it."""

from dataclasses import dataclass, field

import anyio

from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.base import Echo
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service

READER = Principal("reader", frozenset({Scope.READ}))
WRITER = Principal("writer", frozenset({Scope.WRITE}))
OPERATOR = Principal("operator", frozenset({Scope.READ, Scope.WRITE}))
NOBODY = Principal("nobody", frozenset())


@dataclass
class HostInMemory:
    """A probe that answers, or does not, after some seconds."""

    seconds: float = 0.0
    fault: Exception | None = None
    calls: list[str] = field(default_factory=list)

    async def probe(self) -> Echo:
        self.calls.append("probe")
        await anyio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        return Echo("tcp", 0.0012)


@dataclass
class World:
    """Services and hosts in memory. ``calls`` tells what was done to any of them."""

    services: dict[str, MemoryDriver]
    hosts: dict[str, HostInMemory]

    @property
    def calls(self) -> list[str]:
        made = [f"{name} {call}" for name, driver in self.services.items() for call in driver.calls]
        return made + [f"{name} {call}" for name, host in self.hosts.items() for call in host.calls]

    def pipeline(self, **seconds: float) -> Pipeline:
        inventory = Inventory(
            hosts=[Host(name, probe) for name, probe in self.hosts.items()],
            services=[Service(name, driver, settle=0.0, risk=HARMLESS) for name, driver in self.services.items()],
        )
        return Pipeline(inventory, deadlines=Deadlines(**{"restart": 5.0, **seconds}))

"""What there is to name: hosts with their probes, services with their drivers. Names are checked when it is made."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar, assert_never

import anyio

from guideway.dsl.ast import Target
from guideway.dsl.lexer import is_name
from guideway.dsl.patterns import STAR, Spelling, clashes
from guideway.interpreter.drivers.base import Echo, Fault, Probe, only_faults
from guideway.interpreter.fleet import HostPattern, ServicePattern
from guideway.interpreter.results import Reason
from guideway.interpreter.service import Service

_Pattern = TypeVar("_Pattern", HostPattern, ServicePattern)


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
    """The hosts and services of an installation, by name, and by patterns of names for what is made when it is named.

    A name means what has it as its own name, else what the one pattern means that it fits. Everything that goes by
    names goes by this class: no other place says what one means. Raises ``ValueError`` for a name that the language
    cannot spell, and for patterns of one kind that have a name in common.
    """

    def __init__(
        self,
        hosts: Iterable[Host] = (),
        services: Iterable[Service] = (),
        *,
        host_patterns: Iterable[HostPattern] = (),
        service_patterns: Iterable[ServicePattern] = (),
    ) -> None:
        self.hosts: Mapping[str, Host] = MappingProxyType({host.name: host for host in hosts})
        self.services: Mapping[str, Service] = MappingProxyType({service.name: service for service in services})
        self.host_patterns: Patterns[HostPattern] = Patterns(host_patterns)
        self.service_patterns: Patterns[ServicePattern] = Patterns(service_patterns)
        for name in (*self.hosts, *self.services):
            if not is_name(name):
                raise ValueError(f"`{name}` is not a name that a program can spell")
        restartable = tuple(sorted(name for name, service in self.services.items() if service.restartable))
        self._names = {
            Target.HOST: tuple(sorted(self.hosts)),
            Target.SERVICE: tuple(sorted(self.services)),
            Target.RESTARTABLE: restartable,
        }
        left_out: dict[ServicePattern, set[str]] = {}
        for name in self.services.keys() - set(restartable):
            if (meaning := self.service_patterns.find(name)) is not None:
                left_out.setdefault(meaning[0], set()).add(name)
        self._patterns = {
            Target.HOST: tuple(found.pattern for found in self.host_patterns),
            Target.SERVICE: tuple(found.pattern for found in self.service_patterns),
            Target.RESTARTABLE: tuple(
                found.pattern.replace(but=frozenset(left_out.get(found, ())))
                for found in self.service_patterns
                if found.restartable
            ),
        }

    def names(self, target: Target) -> tuple[str, ...]:
        """Return the names of one kind that are listed by name, sorted."""
        return self._names[target]

    def spellings(self, target: Target) -> tuple[Spelling, ...]:
        """Return all that there is of one kind: its patterns, and behind them the names that are listed by name.

        A pattern leaves out what is not of the kind: of those that may be restarted, the names that have an entry of
        their own which says that they may not.
        """
        return (*self._patterns[target], *self._names[target])

    def allows(self, target: Target, name: str) -> bool:
        """Say whether a name is one of a kind."""
        match target:
            case Target.HOST:
                return name in self.hosts or self.host_patterns.find(name) is not None
            case Target.SERVICE:
                return name in self.services or self.service_patterns.find(name) is not None
            case Target.RESTARTABLE:
                if name in self.services:
                    return self.services[name].restartable
                found = self.service_patterns.find(name)
                return found is not None and found[0].restartable
            case _:
                assert_never(target)

    def host(self, name: str) -> Host:
        """Return the host of a name. Raises ``KeyError``."""
        found = self.hosts.get(name)
        if found is None:
            pattern, stars = self.host_patterns[name]
            found = pattern.host(name, stars)
        return found

    def service(self, name: str) -> Service:
        """Return the service of a name: always the same one while anybody has it. Raises ``KeyError``."""
        found = self.services.get(name)
        if found is None:
            pattern, stars = self.service_patterns[name]
            found = pattern.service(name, stars)
        return found

    def ping_seconds(self, name: str) -> float | None:
        """Return what a host itself says of its deadline, without making it. Raises ``KeyError``."""
        return (self.hosts.get(name) or self.host_patterns[name][0]).deadline

    def restart_seconds(self, name: str) -> float | None:
        """Return what a service itself says of its restart's deadline, without making it. Raises ``KeyError``."""
        return (self.services.get(name) or self.service_patterns[name][0]).deadline


class Patterns(Generic[_Pattern]):
    """Patterns of one kind, of which at most one means a name. Raises ``ValueError`` where two have one in common.

    They are looked up by what a name must begin and end with, so that the many of a large fleet cost what a few do.
    """

    def __init__(self, patterns: Iterable[_Pattern]) -> None:
        self._all: tuple[_Pattern, ...] = tuple(sorted(patterns, key=lambda found: found.pattern.text))
        self._by_ends: dict[tuple[int, int], dict[tuple[str, str], list[_Pattern]]] = {}
        for one, other, name in clashes(found.pattern for found in self._all):
            raise ValueError(f"`{one}` and `{other}` would both mean `{name}`")
        for found in self._all:
            begins, _, _ = found.pattern.text.partition(STAR)
            _, _, ends = found.pattern.text.rpartition(STAR)
            self._by_ends.setdefault((len(begins), len(ends)), {}).setdefault((begins, ends), []).append(found)

    def __iter__(self) -> Iterator[_Pattern]:
        return iter(self._all)

    def __getitem__(self, name: str) -> tuple[_Pattern, tuple[str, ...]]:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def find(self, name: str) -> tuple[_Pattern, tuple[str, ...]] | None:
        """Return the pattern that means a name, with what its stars stand for; None where there is none."""
        for (begins, ends), patterns in self._by_ends.items():
            for found in patterns.get((name[:begins], name[len(name) - ends :]), ()):
                stars = found.pattern.match(name)
                if stars is not None:
                    return found, stars
        return None

"""The policy of an installation: what the configuration says of the gate for impact, and the version of it by tenant.

A ticket is bound to that version, so that what a person approved under one policy does not run under another.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel

from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.base import DriverOptions
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import MODEL_VERSION
from guideway.interpreter.weighing import Rules
from guideway.interpreter.windows import ALWAYS, Calendar, Freeze
from guideway.server.config import Config
from guideway.server.entries import Entries, ServiceEntry, ServicePatternEntry
from guideway.server.risk_checks import guards_that_differ, is_frozen
from guideway.server.sections import ServiceSection
from guideway.server.ssh_ways import SshHosts
from guideway.server.units import Named, unit_of

_AS_IT_IS: Final = frozenset({bool, int, float})
_LOCAL: Final = "local"  # the issuer of callers that the configuration itself names


@dataclass(frozen=True, slots=True)
class _Owned:
    """What one owner's entries are to the version: a digest of them, and the machines and groups that they name."""

    digest: str
    machines: frozenset[str]
    groups: frozenset[str]


class Policy:
    """The policy of a configuration. It is read once, and does not change."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._hosts = SshHosts(config.ssh, config.ssh_patterns.values())
        self._units = config.units.several
        self._patterns = [(owner, each) for owner, own in config.entries() for each in own.service_patterns.values()]
        self.groups: Mapping[str, int] = {
            name: section.bound(len(self._members(name))) for name, section in config.groups.items()
        }
        path = config.path
        self._beside = "" if path is None else os.path.join(os.path.dirname(os.path.abspath(path)), "")
        self._owned = {owner: self._owns(entries) for owner, entries in config.entries()}

    def calendar(self, name: str, common: ServiceSection, pattern: str | None = None) -> Calendar:
        """Return when a service may be changed; ``pattern`` is the text of the one that means it."""
        freezes = tuple(self._config.freezes[freeze].freeze(freeze) for freeze in self._frozen(name, common, pattern))
        if not freezes and not common.windows:
            return ALWAYS
        return Calendar(common.change_windows(), freezes, common.windows)

    def unit_of(self, tenant: str | None, name: str) -> str:
        """Return what is really restarted where a service has an entry by its name. Raises ``KeyError``."""
        return self._config.units.of(tenant, name)

    def unit(self, tenant: str | None, name: str, options: DriverOptions) -> str:
        """Return what is really restarted. Raises ``ValueError`` where its machine is not known."""
        return unit_of(tenant, name, options, self._hosts)

    def require_alike(self, unit: str, name: str, entry: ServicePatternEntry, options: DriverOptions) -> None:
        """Raise ``ValueError`` where a name that a pattern means is a unit which another entry guards otherwise.

        ``options`` are those of the name. What a pattern comes to is known only now, and it must not be a way around:
        neither around an entry by a name, nor around another pattern.
        """
        common, pattern = entry.common, entry.pattern.text
        for other in self._units.get(unit, ()):
            theirs = other.entry.common
            frozen, others_frozen = self._frozen(name, common, pattern), self._frozen(other.name, theirs)
            if common.restartable and guards_that_differ(common, theirs, frozen, others_frozen):
                raise ValueError("it is the unit of a service that has an entry of its own, and is not guarded alike")
        for tenant, rival in self._patterns:
            if rival is entry or rival.kind != entry.kind or not (common.restartable and rival.common.restartable):
                continue
            named = self._name_by(tenant, rival, options, unit)
            if named is None:
                continue
            frozen = self._frozen(name, common, pattern)
            others_frozen = self._frozen(named, rival.common, rival.pattern.text)
            if guards_that_differ(common, rival.common, frozen, others_frozen):
                raise ValueError(f"it is a unit that `{rival.pattern}` means as well, and is not guarded alike")

    def _name_by(self, tenant: str | None, rival: ServicePatternEntry, options: DriverOptions, unit: str) -> str | None:
        """Return the name by which a pattern means a unit of such options, None where it does not."""
        stars = rival.driver.stars_of(rival.pattern, options)
        name = "" if stars is None else rival.pattern.spelled(stars)
        seen = [self._config.shared, *([] if tenant is None else [self._config.own[tenant]])]
        if stars is None or not rival.pattern.match(name) or any(name in entries.services for entries in seen):
            return None
        with suppress(ValueError):  # no options can be made of that name
            if self.unit(tenant, name, rival.driver.fill(name, stars)) == unit:
                return name
        return None

    def rules(self) -> Rules:
        """Return what the gate goes by."""
        config, approvals = self._config, self._config.approvals
        return Rules(
            policy={tenant: self.version(tenant) for tenant in (None, *config.own)},
            groups=self.groups,
            bounds={
                None: config.quotas.bounds(),
                **{name: section.bounds() for name, section in config.tenants.items()},
            },
            lifetime=approvals.lifetime_seconds,
            wait=approvals.wait_seconds,
            most_open=approvals.most_open,
            own_requests=approvals.own_requests,
            can_ask=self.can_ask,
        )

    def can_ask(self, asker: Principal) -> bool:
        """Say whether anybody could approve what a caller asks for.

        Who shows tokens is known to their issuer alone: where tokens are asked for, somebody may.
        """
        config, approvals = self._config, self._config.approvals
        if approvals.own_requests and _LOCAL in approvals.form and asker.issuer == _LOCAL:
            return True  # themselves, in a form of their client's
        return config.asks_for_tokens or any(
            Scope.APPROVE in section.scopes
            and section.tenant == asker.tenant
            and (approvals.own_requests or (asker.issuer, asker.subject) != (_LOCAL, name))
            for name, section in config.callers.items()
        )

    def version(self, tenant: str | None) -> str:
        """Return the version of all that decides on a tenant's programs: SHA-256, in hexadecimal.

        It is the same on each replica and after each start, also where the configuration lies in another folder. No
        secret is in it: the configuration names files and environment variables, and what they hold is not read.
        """
        config, approvals = self._config, self._config.approvals
        seen = [self._owned[owner] for owner in {None, tenant}]
        facts = {
            "model": MODEL_VERSION,
            "entries": sorted(owned.digest for owned in seen),
            "ssh": {name: config.ssh[name] for owned in seen for name in owned.machines},
            "ssh_patterns": {name: entry.options.table for name, entry in config.ssh_patterns.items()},
            "groups": {name: self.groups[name] for owned in seen for name in owned.groups},
            "bounds": config.quotas if tenant is None else _bounds(config, tenant),
            "approvals": {
                "lifetime": approvals.lifetime_seconds,
                "own_requests": approvals.own_requests,
                "wait": approvals.wait_seconds,
                "most_open": approvals.most_open,
                "form": approvals.form,
            },
        }
        return _digest(facts, self._beside)

    def _owns(self, entries: Entries) -> _Owned:
        """Return what is of the version in the entries of one owner; every tenant sees the shared ones."""
        services = entries.every_service()
        frozen = {name: self._frozen(name, entry.common, name) for name, entry in services.items()}
        facts = {
            "hosts": {name: _entry(entry) for name, entry in entries.every_host().items()},
            "services": {name: _entry(entry) for name, entry in services.items()},
            "frozen": frozen,
            "freezes": {
                freeze: self._config.freezes[freeze].freeze(freeze) for several in frozen.values() for freeze in several
            },
        }
        groups = {entry.common.group for entry in services.values() if entry.common.group is not None}
        return _Owned(_digest(facts, self._beside), frozenset(self._machines(entries)), frozenset(groups))

    def _machines(self, entries: Entries) -> Iterator[str]:
        """Yield the SSH hosts that services are on; those of a pattern of services may be on any."""
        if any("ssh" in entry.driver.table for entry in entries.service_patterns.values()):
            yield from self._config.ssh
            return
        for entry in entries.services.values():
            options = entry.driver
            if isinstance(options, SocketOptions) and options.ssh is not None and options.ssh in self._config.ssh:
                yield options.ssh

    def _members(self, group: str) -> list[str]:
        """Return the units that are in a group."""
        return [unit for unit, several in self._units.items() if any(_in(group, named) for named in several)]

    def _frozen(self, name: str, common: ServiceSection, pattern: str | None = None) -> tuple[str, ...]:
        """Return the freezes of a service."""
        freezes = self._config.freezes.items()
        return tuple(freeze for freeze, section in freezes if is_frozen(section, name, pattern, common.group))


def _in(group: str, named: Named) -> bool:
    return named.entry.common.group == group and named.entry.common.restartable


def _bounds(config: Config, tenant: str) -> Any:
    return config.tenants[tenant].model_dump(include={"restarts_per_hour", "restarts_per_day", "restarts_at_once"})


def _entry(entry: Any) -> Any:
    """Return what an entry says, of whichever kind it is."""
    if isinstance(entry, ServiceEntry):
        return [entry.kind, entry.driver, entry.health_kind, entry.health, entry.common]
    if isinstance(entry, ServicePatternEntry):
        health = entry.health.table if entry.health else None
        return [entry.kind, entry.driver.table, entry.health_kind, health, entry.common]
    probe = entry.probe if isinstance(entry.probe, BaseModel) else entry.probe.table
    return [entry.kind, probe, entry.common]


def _digest(facts: Mapping[str, Any], beside: str) -> str:
    return hashlib.sha256(json.dumps(_plain(facts, beside), sort_keys=True).encode()).hexdigest()


def _plain(value: Any, beside: str) -> Any:
    """Return a value as JSON has it, the same for equal values: sets in order, paths beside the file relative to it.

    ``beside`` is what such a path begins with. What an inventory has by far the most of comes first.
    """
    kind = type(value)
    if value is None or kind in _AS_IT_IS:
        return value
    if kind is str:
        return value.removeprefix(beside)
    if isinstance(value, BaseModel):
        return {key: _plain(inner, beside) for key, inner in value.__dict__.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, beside) for inner in value]
    return _seldom(value, beside)


def _seldom(value: Any, beside: str) -> Any:
    match value:
        case Enum():
            return _plain(value.value, beside)
        case Freeze():
            return [_plain(part, beside) for part in (value.begins, value.ends, value.reason)]
        case Mapping():
            return {str(key): _plain(inner, beside) for key, inner in value.items()}
        case AbstractSet():
            return sorted((_plain(inner, beside) for inner in value), key=json.dumps)
        case PurePath():  # in the table of a pattern a path is a text
            return str(value).removeprefix(beside)
        case datetime():  # aware of its zone
            return value.astimezone(UTC).isoformat()
        case _:
            return str(value)

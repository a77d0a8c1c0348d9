"""What the tables of the gate for impact say of each other and of what there is: every mistake, where it stands.

Where what is stated would weaken a tier, the server does not start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from guideway.dsl.lexer import is_name
from guideway.server import toml_places
from guideway.server.config_errors import dotted
from guideway.server.entries import Entries, ServiceEntry, ServicePatternEntry
from guideway.server.risk_sections import FreezeSection
from guideway.server.sections import Document, ServiceSection
from guideway.server.table_reader import TableReader
from guideway.server.units import Named, Units

TABLES: Final = ("approvals", "freezes", "groups", "issuers")
"""The tables that are looked at."""

_STRICT: Final = "the server does not start weakened: remove it, or raise it"


def check_risk(
    reader: TableReader, document: Document, shared: Entries, own: Mapping[str, Entries], units: Units
) -> None:
    """Note every mistake."""
    check = _Check(reader, document, shared, own)
    check.tables()
    check.groups()
    check.freezes()
    check.tiers()
    check.one_risk_a_unit(units)


@dataclass(frozen=True, slots=True)
class _Check:
    reader: TableReader
    document: Document
    shared: Entries
    own: Mapping[str, Entries]

    def tables(self) -> None:
        """Look at what is named, and at who is asked."""
        approvals = self.document.approvals
        named = [("groups", name) for name in self.document.groups]
        named += [("freezes", name) for name in self.document.freezes]
        for path in (*named, *(("approvals", "webhooks", name) for name in approvals.webhooks)):
            self.reader.require_name(path)
        if approvals.issuer is not None and approvals.issuer not in self.document.issuers:
            self.reader.choose(("approvals", "issuer"), approvals.issuer, self.document.issuers, "is not an issuer")
        if approvals.form and not approvals.own_requests:
            why = "has no effect: what is answered in a form is the caller's own approval"
            self.reader.say(("approvals", "form"), why, "say `own_requests = true`, or remove it")

    def groups(self) -> None:
        """Look at whether groups are there, and at whether it is known how many are in them."""
        groups = self.document.groups
        for path, entry in self._services():
            group = entry.common.group
            if group is None:
                continue
            if group not in groups:
                self.reader.choose((*path, "group"), group, groups, "is not a group")
            elif isinstance(entry, ServicePatternEntry) and groups[group].share is not None:
                self.reader.say(
                    ("groups", group, "share"),
                    f"is a part of nobody knows how many: [{dotted(path)}] is in the group, and is a pattern",
                    "say `at_once`",
                )

    def freezes(self) -> None:
        """Look at whether what is frozen is there."""
        services = {str(path[-1]) for path, _ in self._services()}
        for name, freeze in self.document.freezes.items():
            path = ("freezes", name)
            for place, group in enumerate(freeze.groups or ()):
                if group not in self.document.groups:
                    self.reader.choose((*path, "groups", place), group, self.document.groups, "is not a group")
            for place, service in enumerate(freeze.services or ()):
                if service not in services and not self._is_meant(service):
                    self.reader.choose((*path, "services", place), service, services, "is not a service")

    def tiers(self) -> None:
        """Look at whether a tier is below what else is stated."""
        for path, entry in self._services():
            why = entry.common.risk().why_weaker
            if why is not None:
                self.reader.say((*path, "tier"), why, _STRICT)

    def one_risk_a_unit(self, units: Units) -> None:
        """Look at whether a unit has less of a guard under one name than under another."""
        for several in units.several.values():
            restartable = [named for named in several if named.entry.common.restartable]
            for other in restartable[1:]:
                first = restartable[0]
                differs = guards_that_differ(
                    first.entry.common, other.entry.common, self._frozen(first), self._frozen(other)
                )
                if differs:
                    self.reader.say(
                        _path(other),
                        f"is the same unit as [{dotted(_path(first))}], and not guarded alike: {', '.join(differs)}",
                        "say the same in both",
                    )

    def _frozen(self, named: Named) -> tuple[str, ...]:
        group = named.entry.common.group
        return tuple(name for name, one in self.document.freezes.items() if is_frozen(one, named.name, None, group))

    def _is_meant(self, name: str) -> bool:
        return is_name(name) and any(
            isinstance(entry, ServicePatternEntry) and entry.pattern.match(name) for _, entry in self._services()
        )

    def _services(self) -> Iterator[tuple[toml_places.Path, ServiceEntry | ServicePatternEntry]]:
        for name, entry in self.shared.every_service().items():
            yield ("services", name), entry
        for tenant, entries in self.own.items():
            for name, entry in entries.every_service().items():
                yield ("tenants", tenant, "services", name), entry


def guards_that_differ(
    one: ServiceSection, other: ServiceSection, frozen: tuple[str, ...] = (), others_frozen: tuple[str, ...] = ()
) -> list[str]:
    """Return the keys, as a person knows them, in which two entries for one unit guard it differently."""
    pairs = {f"`{key}`": (getattr(one, key), getattr(other, key)) for key in _GUARDS}
    pairs["freezes"] = frozen, others_frozen
    return [key for key, (mine, its) in pairs.items() if mine != its]


_GUARDS: Final = (
    *("impact", "reversibility", "tier", "critical"),
    *("restarts_per_hour", "restarts_per_day", "cooldown_seconds", "windows", "group"),
)


def is_frozen(freeze: FreezeSection, name: str, pattern: str | None, group: str | None) -> bool:
    """Say whether a freeze is one of a service, by its name, by the pattern that means it, or by its group."""
    if freeze.all or (group is not None and group in (freeze.groups or ())):
        return True
    return any(frozen in (name, pattern) for frozen in freeze.services or ())


def _path(named: Named) -> toml_places.Path:
    owner = () if named.tenant is None else ("tenants", named.tenant)
    return (*owner, "services", named.name)

"""How what there is is read from the configuration: hosts, services and SSH hosts, by name and by pattern of names.

Owns what their tables say of each other: that each name means one thing, and that what they name is there.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from guideway.dsl.patterns import NamePattern, clashes, common_name, is_pattern, read_pattern
from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Options, ProbeOptions
from guideway.interpreter.drivers.installed import UnusableError
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.probes import PROBES
from guideway.server import toml_places
from guideway.server.config_errors import dotted, suggestion
from guideway.server.config_paths import absolute
from guideway.server.entries import (
    Entries,
    HostEntry,
    HostPatternEntry,
    ServiceEntry,
    ServicePatternEntry,
    SshPatternEntry,
)
from guideway.server.section import Section
from guideway.server.sections import HostSection, ServiceSection
from guideway.server.table_reader import TableReader, tables_of
from guideway.server.templates import TRIED, Template

_Model = TypeVar("_Model", bound=BaseModel)
_Options = TypeVar("_Options", bound=Options)

_Placed = dict[toml_places.Path, NamePattern]

_HEALTH_MEND = 'health = { probe = "tcp", … }'


class InventoryReader(TableReader):
    """Reads what there is."""

    def entries(self, owner: toml_places.Path) -> Entries:
        """Return the hosts and services of an owner; what has mistakes is left out."""
        table: Any = self.raw
        for key in owner:
            table = table.get(key)
        hosts: dict[str, HostEntry] = {}
        services: dict[str, ServiceEntry] = {}
        host_patterns: dict[str, HostPatternEntry] = {}
        service_patterns: dict[str, ServicePatternEntry] = {}
        for name, said in tables_of(table.get("hosts")).items():
            host = self._host((*owner, "hosts", name), said)
            if isinstance(host, HostEntry):
                hosts[name] = host
            elif host is not None:
                host_patterns[name] = host
        for name, said in tables_of(table.get("services")).items():
            service = self._service((*owner, "services", name), said)
            if isinstance(service, ServiceEntry):
                services[name] = service
            elif service is not None:
                service_patterns[name] = service
        return Entries(hosts, services, host_patterns, service_patterns)

    def ssh_patterns(self) -> dict[str, SshPatternEntry]:
        """Return the SSH hosts by pattern; ``plain`` is the document without them."""
        found = {}
        for name, table in tables_of(self.raw.get("ssh")).items():
            path = ("ssh", name)
            if is_pattern(name) and (pattern := self._pattern(path)) is not None:
                options = self._template(SshOptions, table, path, pattern, apart=True)
                if options is not None:
                    found[name] = SshPatternEntry(pattern, options)
        return found

    def plain(self) -> dict[str, Any]:
        """Return the document without SSH hosts by pattern, whose keys hold what no name has been put into."""
        hosts = self.raw.get("ssh")
        if not isinstance(hosts, dict):
            return self.raw
        return {**self.raw, "ssh": {name: table for name, table in hosts.items() if not is_pattern(name)}}

    def check_entries(
        self, shared: Entries, own: Mapping[str, Entries], ssh_patterns: Mapping[str, SshPatternEntry]
    ) -> None:
        """Note where a name would mean two things, or a service is on a machine that is not there."""
        for tenant, entries in own.items():
            twice = [("hosts", name) for name in entries.hosts if name in shared.hosts]
            twice += [("services", name) for name in entries.services if name in shared.services]
            for kind, name in twice:
                self.say(("tenants", tenant, kind, name), "is a shared name already", "choose another one")
        self._check_clashes(shared, own)
        ssh: _Placed = {("ssh", name): entry.pattern for name, entry in ssh_patterns.items()}
        self._say_clashes(ssh, {})
        patterns = tuple(ssh.values())
        self._check_ssh(("services",), shared, patterns)
        for tenant, entries in own.items():
            self._check_ssh(("tenants", tenant, "services"), entries, patterns)

    def _check_clashes(self, shared: Entries, own: Mapping[str, Entries]) -> None:
        """Look at each kind of pattern, in what everybody and in what each tenant can see."""
        everybody: list[_Placed] = []
        for kind, found in _by_kind(shared):
            everybody.append({(kind, name): pattern for name, pattern in found.items()})
            self._say_clashes(everybody[-1], {})
        for tenant, entries in own.items():
            for (kind, found), others in zip(_by_kind(entries), everybody, strict=True):
                owned: _Placed = {("tenants", tenant, kind, name): pattern for name, pattern in found.items()}
                self._say_clashes(owned, others)

    def _say_clashes(self, patterns: _Placed, others: _Placed) -> None:
        """Note where two patterns would mean one name; those of ``others`` among themselves were looked at before."""
        paths = {id(pattern): path for path, pattern in [*others.items(), *patterns.items()]}
        own = set(map(id, patterns.values()))
        for one, other, name in clashes([*others.values(), *patterns.values()]):
            if own.isdisjoint((id(one), id(other))):
                continue
            for mine, its in ((one, other), (other, one)):
                where = f"[{dotted(paths[id(its)])}]"
                self.say(paths[id(mine)], f"would mean `{name}`, which {where} means too", "make one of them narrower")

    def _check_ssh(self, owner: toml_places.Path, entries: Entries, patterns: tuple[NamePattern, ...]) -> None:
        known = [name for name in tables_of(self.raw.get("ssh")) if not is_pattern(name)]

        def check(path: toml_places.Path, name: str) -> None:
            if name not in known and not any(pattern.match(name) for pattern in patterns):
                self.choose(path, name, [*known, *map(str, patterns)], "is not an SSH host")

        for name, entry in entries.services.items():
            if isinstance(entry.driver, SocketOptions) and entry.driver.ssh is not None:
                check((*owner, name, "ssh"), entry.driver.ssh)
        for name, made in entries.service_patterns.items():
            means = made.driver.pattern_of("ssh", made.pattern)
            if means is None or not is_pattern(means):
                if means is not None:
                    check((*owner, name, "ssh"), means)
                continue
            try:
                pattern = read_pattern(means)
            except ValueError as error:
                self.say((*owner, name, "ssh"), f"comes to `{means}` for all names, which {error}")
                continue
            if not any(pattern.match(one) for one in known) and not any(common_name(pattern, one) for one in patterns):
                self.choose((*owner, name, "ssh"), means, [*known, *map(str, patterns)], "means no SSH host")

    def _host(self, path: toml_places.Path, table: dict[str, Any]) -> HostEntry | HostPatternEntry | None:
        pattern = self._pattern(path) if is_pattern(str(path[-1])) else None
        if pattern is None and not self._require_name(path):
            return None
        common = self._common(HostSection, table, path)
        chosen = self._chosen(PROBES, "probe", table, path, HostSection)
        if chosen is None:
            return None
        kind, model, options, also = chosen
        if pattern is None:
            probe = self.check(model, options, path, also)
            return HostEntry(kind, probe, common) if common and probe else None
        made = self._template(model, options, path, pattern, also, apart=True)
        return HostPatternEntry(pattern, kind, made, common) if common and made else None

    def _service(self, path: toml_places.Path, table: dict[str, Any]) -> ServiceEntry | ServicePatternEntry | None:
        pattern = self._pattern(path) if is_pattern(str(path[-1])) else None
        if pattern is None and not self._require_name(path):
            return None
        table = dict(table)  # a copy to take from
        health = table.pop("health", None)
        common = self._common(ServiceSection, table, path)
        chosen = self._chosen(DRIVERS, "driver", table, path, ServiceSection, "health")
        checks = None
        if isinstance(health, dict):
            checks = self._chosen(PROBES, "probe", health, (*path, "health"))
        elif health is not None:
            self.say((*path, "health"), "must be a table", _HEALTH_MEND)
        if pattern is None:
            driver = chosen and self.check(chosen[1], chosen[2], path, chosen[3])
            probe = checks and self.check(checks[1], checks[2], (*path, "health"), checks[3])
            if chosen and driver and common:
                return ServiceEntry(chosen[0], driver, checks[0] if checks and probe else None, probe, common)
            return None
        made = chosen and self._template(chosen[1], chosen[2], path, pattern, chosen[3], apart=True)
        asks: Template[ProbeOptions] | None = None
        if checks:
            asks = self._template(checks[1], checks[2], (*path, "health"), pattern, checks[3], apart=False)
        if chosen and made and common:
            return ServicePatternEntry(pattern, chosen[0], made, checks[0] if checks and asks else None, asks, common)
        return None

    def _require_name(self, path: toml_places.Path) -> bool:
        """Note what is no name. Return whether there is anything else to be read: not where it was to be a pattern."""
        if is_pattern(str(path[-1])):
            return False
        self.require_name(path)
        return True

    def _pattern(self, path: toml_places.Path) -> NamePattern | None:
        try:
            return read_pattern(str(path[-1]))
        except ValueError as error:
            self.say(path, str(error))
            return None

    def _template(
        self,
        model: type[_Options],
        table: dict[str, Any],
        path: toml_places.Path,
        pattern: NamePattern,
        also: tuple[str, ...] = (),
        *,
        apart: bool,
    ) -> Template[_Options] | None:
        """Return a table that holds for all names of a pattern; ``apart``: it has to tell these apart."""
        template = Template(model, absolute(self.folder, model, table))
        mistakes = list(template.mistakes(pattern))
        for mistake in mistakes:
            self.say((*path, *([mistake.key] if mistake.key else [])), mistake.message, mistake.mend)
        if mistakes:
            return None
        tried = [(pattern.example(star), (star,) * pattern.stars) for star in TRIED]
        for name, stars in tried:
            try:
                template.fill(name, stars)
            except ValueError:
                continue
            break
        else:
            self._say_of_example(template, *tried[0], path, also)
            return None
        if apart and (confusion := template.confusion(pattern)) is not None:
            self.say(path, confusion.message, confusion.mend)
            return None
        return template

    def _say_of_example(
        self,
        template: Template[_Options],
        name: str,
        stars: tuple[str, ...],
        path: toml_places.Path,
        also: tuple[str, ...],
    ) -> None:
        """Note what is wrong with the options for a name that the pattern means."""
        try:
            self.check(template.model, template.filled(name, stars), path, also)
        except ValueError as error:
            self.say(path, f"cannot mean `{name}`, say: {error}")

    def _common(self, model: type[_Model], table: dict[str, Any], path: toml_places.Path) -> _Model | None:
        said = {key: table[key] for key in model.model_fields if key in table}
        return self.check(model, said, path) if said else _unsaid(model)

    def _chosen(
        self,
        kinds: Mapping[str, type[_Model]],
        chooser: str,
        table: dict[str, Any],
        path: toml_places.Path,
        common: type[BaseModel] = Section,
        *more: str,
    ) -> tuple[str, type[_Model], dict[str, Any], tuple[str, ...]] | None:
        """Return the kind that a table chooses, the model of its options, these, and the keys that others read.

        ``common`` and ``more`` are such keys.
        """
        kind = table.get(chooser)
        rest = _rest_of_name(table, chooser)
        if rest and path[-1] != "health":
            quoted = f'[{dotted(path[:-1])}."{path[-1]}.{rest}"]'
            self.say(path, "holds a table", f"a name with dots stands in quotes: {quoted}")
            return None
        if not isinstance(kind, str):
            what = "is missing" if kind is None else "must be a string"
            self.say((*path, chooser), what, suggestion("", kinds))
            return None
        if kind not in kinds:
            self.choose((*path, chooser), kind, kinds, f"is not a {chooser}")
            return None
        try:
            model = kinds[kind]
        except UnusableError as error:
            self.say((*path, chooser), str(error))
            return None
        others = {chooser, *common.model_fields}
        options = {key: value for key, value in table.items() if key not in others}
        return kind, model, options, (*others, *more)


@cache
def _unsaid(model: type[_Model]) -> _Model:
    """Return what holds for each entry that says nothing: of a large inventory most do not."""
    return model()


def _by_kind(entries: Entries) -> Iterator[tuple[str, Mapping[str, NamePattern]]]:
    yield "hosts", {name: entry.pattern for name, entry in entries.host_patterns.items()}
    yield "services", {name: entry.pattern for name, entry in entries.service_patterns.items()}


def _rest_of_name(table: dict[str, Any], chooser: str) -> str:
    """Return what was meant as more of a name: the keys down to the table that has a ``chooser``, empty where none."""
    keys: list[str] = []
    while chooser not in table:
        inner = [(key, value) for key, value in table.items() if isinstance(value, dict)]
        if len(inner) != 1:
            return ""
        key, table = inner[0]
        keys.append(key)
    return ".".join(keys)

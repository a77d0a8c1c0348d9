"""The configuration: one TOML file, read and checked whole. Every key has a default, and every default is safe.

Owns what its tables say of each other, and that mistakes are told all at once, each with file, line and key. Where the
file is looked for is ``config_file``'s. It makes nothing: putting parts together is ``wiring``'s.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from guideway.dsl.lexer import is_name
from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import DriverOptions, ProbeOptions
from guideway.interpreter.drivers.installed import UnusableError
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.probes import PROBES
from guideway.server import toml_places
from guideway.server.config_errors import ConfigError, Problem, dotted, explain, suggestion, syntax_problem
from guideway.server.config_file import read
from guideway.server.config_paths import absolute
from guideway.server.sections import (
    DEVELOPMENT,
    CallerSection,
    DeadlinesSection,
    DevelopmentIssuerSection,
    Document,
    HostSection,
    IssuerSection,
    LimitsSection,
    Section,
    ServerSection,
    ServiceSection,
    TenantSection,
    is_loopback,
)


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host as configured: which probe, with which options."""

    kind: str
    probe: ProbeOptions
    common: HostSection


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """A service as configured: which driver, with which options, and how its health is seen."""

    kind: str
    driver: DriverOptions
    health_kind: str | None
    health: ProbeOptions | None
    common: ServiceSection


@dataclass(frozen=True, slots=True)
class Entries:
    """The hosts and services of one owner, by name."""

    hosts: Mapping[str, HostEntry]
    services: Mapping[str, ServiceEntry]


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was checked. ``path`` is None where no file was found and the defaults hold.

    ``shared`` is what everybody may name, ``own`` what each tenant may name beside it; no name is in both.
    """

    path: Path | None
    caller: str | None
    callers: Mapping[str, CallerSection]
    server: ServerSection
    issuers: Mapping[str, IssuerSection]
    development_issuer: DevelopmentIssuerSection | None
    tenants: Mapping[str, TenantSection]
    limits: LimitsSection
    deadlines: DeadlinesSection
    ssh: Mapping[str, SshOptions]
    shared: Entries
    own: Mapping[str, Entries]

    @property
    def asks_for_tokens(self) -> bool:
        """Whether HTTP is served to whoever shows a token, and not to the configured caller."""
        return bool(self.issuers) or self.development_issuer is not None

    def entries(self) -> Iterator[tuple[str | None, Entries]]:
        """Yield the shared entries, with None, and each tenant's own."""
        yield None, self.shared
        yield from self.own.items()


def load(path: Path | None) -> Config:
    """Return the configuration of a file, or the defaults for None. Raises ``ConfigError``."""
    if path is None:
        return _config(None, Document(), Entries({}, {}), {})
    text = read(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, [syntax_problem(error, text)]) from None
    except RecursionError:
        raise ConfigError(path, [Problem("is nested too deeply")]) from None
    return _Reader(path, text, raw).config()


def _config(path: Path | None, document: Document, shared: Entries, own: Mapping[str, Entries]) -> Config:
    return Config(
        path=path,
        caller=document.caller,
        callers=MappingProxyType(document.callers),
        server=document.server,
        issuers=MappingProxyType(document.issuers),
        development_issuer=document.development_issuer,
        tenants=MappingProxyType(document.tenants),
        limits=document.limits,
        deadlines=document.deadlines,
        ssh=MappingProxyType(document.ssh),
        shared=shared,
        own=MappingProxyType(own),
    )


def exposure(server: ServerSection, host: str, *, tokens: bool) -> str | None:
    """Say why HTTP must not be served on an address, None where it may be.

    Beyond this machine everybody must show a token, and no token may cross the network in the clear.
    """
    if is_loopback(host):
        return None
    if not tokens:
        return "only loopback is served without [issuers.NAME]: nobody else could be told apart"
    if server.tls is None and not server.proxies:
        return "only loopback is served without [server.tls], or `proxies` that do it instead: tokens would be readable"
    if server.url is None:
        return "tokens are for one URL: beyond loopback `url` must say under which clients reach this server"
    return None


_Model = TypeVar("_Model", bound=BaseModel)


class _Reader:
    """Reads one document, and gathers every mistake in it."""

    def __init__(self, path: Path, text: str, raw: dict[str, Any]) -> None:
        self._path = path
        self._folder = os.path.dirname(os.path.abspath(path))
        self._raw = raw
        self._text = text
        self._problems: list[tuple[toml_places.Path, str, str | None]] = []

    def config(self) -> Config:
        """Return the configuration. Raises ``ConfigError``."""
        document, broken = self._document()
        shared = self._entries(())
        own = {name: self._entries(("tenants", name)) for name in _tables(self._raw.get("tenants"))}
        for table in ("callers", "issuers", "tenants"):
            for name in _tables(self._raw.get(table)):
                self._require_name((table, name))
        caller, callers = self._raw.get("caller"), self._raw.get("callers", {})
        if isinstance(caller, str) and isinstance(callers, dict) and caller not in callers:
            self._choose(("caller",), caller, callers, "is not a caller")
        for check, tables in (
            (self._check_server, ("server", "issuers", "development_issuer")),
            (self._check_issuers, ("issuers",)),
            (self._check_tenants, ("callers", "tenants", "issuers")),
        ):
            if broken.isdisjoint(tables):
                check(document)
        self._check_names(shared, own)
        self._check_ssh(("services",), shared)
        for tenant, entries in own.items():
            self._check_ssh(("tenants", tenant, "services"), entries)
        if self._problems:
            raise ConfigError(self._path, self._told())
        return _config(self._path, document, shared, own)

    def _document(self) -> tuple[Document, frozenset[str]]:
        """Return the document, and the tables that have mistakes and are left out of it."""
        document = self._check(Document, self._raw, ())
        if document is not None:
            return document, frozenset()
        broken = frozenset(str(path[0]) for path, _, _ in self._problems if path)
        kept = {key: value for key, value in self._raw.items() if key in Document.model_fields and key not in broken}
        return Document.model_validate(absolute(self._folder, Document, kept)), broken

    def _check_server(self, document: Document) -> None:
        server, development = document.server, document.development_issuer
        why = exposure(server, server.host, tokens=bool(document.issuers))
        if development is not None:
            if not is_loopback(server.host) or (server.url and not is_loopback(urlsplit(server.url).hostname or "")):
                self._say(("development_issuer",), "is for loopback only, and [server] is reached from elsewhere")
            elif server.proxies:
                self._say(("development_issuer",), "is for loopback only, and [server] has `proxies`")
        elif why:
            self._say(("server", "host"), f"cannot be `{server.host}`: {why}")

    def _check_issuers(self, document: Document) -> None:
        seen: dict[str, str] = {}
        for name, issuer in document.issuers.items():
            path = ("issuers", name)
            if name == DEVELOPMENT:
                self._say(path, "is the name of the development issuer", "choose another one")
            if issuer.issuer in seen:
                self._say((*path, "issuer"), f"is that of `{seen[issuer.issuer]}` already")
            seen.setdefault(issuer.issuer, name)
            if issuer.tokens == "opaque" and issuer.introspection is None:
                self._say((*path, "introspection"), "is missing", "opaque tokens have to be asked about")
            asks = issuer.introspection
            if asks and (asks.client_secret_file is None) == (asks.client_secret_env is None):
                mend = "one of them says where the secret is"
                self._say((*path, "introspection"), "needs `client_secret_file` or `client_secret_env`", mend)
            words = [issuer.word(scope) for scope in Scope]
            if len(set(words)) < len(words):
                self._say((*path, "scopes"), "gives two scopes one word")

    def _check_tenants(self, document: Document) -> None:
        for name, caller in document.callers.items():
            if caller.tenant is not None and caller.tenant not in document.tenants:
                self._choose(("callers", name, "tenant"), caller.tenant, document.tenants, "is not a tenant")
        taken: dict[tuple[str, str], str] = {}
        for tenant, section in document.tenants.items():
            for issuer, values in section.members.items():
                path = ("tenants", tenant, "members", issuer)
                if issuer not in document.issuers:
                    self._choose(path, issuer, document.issuers, "is not an issuer")
                elif document.issuers[issuer].tenant_claim is None:
                    self._say(path, f"has no effect: [issuers.{issuer}] names no `tenant_claim`")
                for value in sorted(values):
                    other = taken.setdefault((issuer, value), tenant)
                    if other != tenant:
                        self._say(path, f"gives `{value}` to this tenant, and it is `{other}`'s")

    def _check_names(self, shared: Entries, own: Mapping[str, Entries]) -> None:
        for tenant, entries in own.items():
            twice = [("hosts", name) for name in entries.hosts if name in shared.hosts]
            twice += [("services", name) for name in entries.services if name in shared.services]
            for kind, name in twice:
                self._say(("tenants", tenant, kind, name), "is a shared name already", "choose another one")

    def _check_ssh(self, owner: toml_places.Path, entries: Entries) -> None:
        known = _tables(self._raw.get("ssh"))
        for name, entry in entries.services.items():
            path = (*owner, name, "ssh")
            if isinstance(entry.driver, SocketOptions) and entry.driver.ssh not in {None, *known}:
                self._choose(path, str(entry.driver.ssh), known, "is not an SSH host")

    def _entries(self, owner: toml_places.Path) -> Entries:
        table: Any = self._raw
        for key in owner:
            table = table.get(key)
        return Entries(
            MappingProxyType(self._hosts(_tables(table.get("hosts")), (*owner, "hosts"))),
            MappingProxyType(self._services(_tables(table.get("services")), (*owner, "services"))),
        )

    def _hosts(self, tables: Mapping[str, dict[str, Any]], owner: toml_places.Path) -> dict[str, HostEntry]:
        entries = {}
        for name, table in tables.items():
            path = (*owner, name)
            self._require_name(path)
            common = self._common(HostSection, table, path)
            read = self._backend(PROBES, "probe", table, path, HostSection)
            if common and read:
                entries[name] = HostEntry(*read, common)
        return entries

    def _services(self, tables: Mapping[str, dict[str, Any]], owner: toml_places.Path) -> dict[str, ServiceEntry]:
        entries = {}
        for name, table in tables.items():
            path = (*owner, name)
            self._require_name(path)
            table = dict(table)  # noqa: PLW2901  # a copy to take from
            health = table.pop("health", None)
            common = self._common(ServiceSection, table, path)
            read = self._backend(DRIVERS, "driver", table, path, ServiceSection, "health")
            checked: tuple[str, ProbeOptions] | None = None
            if isinstance(health, dict):
                checked = self._backend(PROBES, "probe", health, (*path, "health"))
            elif health is not None:
                self._say((*path, "health"), "must be a table", 'health = { probe = "tcp", … }')
            if common and read:
                health_kind, probe = checked or (None, None)
                entries[name] = ServiceEntry(*read, health_kind, probe, common)
        return entries

    def _common(self, model: type[_Model], table: dict[str, Any], path: toml_places.Path) -> _Model | None:
        return self._check(model, {key: table[key] for key in model.model_fields if key in table}, path)

    def _backend(
        self,
        kinds: Mapping[str, type[_Model]],
        chooser: str,
        table: dict[str, Any],
        path: toml_places.Path,
        common: type[BaseModel] = Section,
        *more: str,
    ) -> tuple[str, _Model] | None:
        """Return the kind that a table chooses and its options; ``common`` and ``more`` are the keys of others."""
        kind = table.get(chooser)
        rest = _rest_of_name(table, chooser)
        if rest and path[-1] != "health":
            quoted = f'[{dotted(path[:-1])}."{path[-1]}.{rest}"]'
            self._say(path, "holds a table", f"a name with dots stands in quotes: {quoted}")
            return None
        if not isinstance(kind, str):
            what = "is missing" if kind is None else "must be a string"
            self._say((*path, chooser), what, suggestion("", kinds))
            return None
        if kind not in kinds:
            self._choose((*path, chooser), kind, kinds, f"is not a {chooser}")
            return None
        try:
            model = kinds[kind]
        except UnusableError as error:
            self._say((*path, chooser), str(error))
            return None
        others = {chooser, *common.model_fields}
        options = {key: value for key, value in table.items() if key not in others}
        checked = self._check(model, options, path, also=(*others, *more))
        return None if checked is None else (kind, checked)

    def _check(
        self, model: type[_Model], table: dict[str, Any], path: toml_places.Path, also: Iterable[str] = ()
    ) -> _Model | None:
        try:
            return model.model_validate(absolute(self._folder, model, table))
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                place = _existing(self._raw, (*path, *error["loc"]), missing=error["type"] == "missing")
                self._say(place, *explain(error, model, also))
        return None

    def _require_name(self, path: toml_places.Path) -> None:
        if not is_name(str(path[-1])):
            self._say(
                path,
                "is not a name that a program can spell",
                "a name is at most 253 letters, digits and `. _ : @ -`, and starts with a letter or digit",
            )

    def _choose(self, path: toml_places.Path, value: str, allowed: Iterable[str], what: str) -> None:
        self._say(path, f"{what}: `{value}`", suggestion(value, allowed))

    def _say(self, path: toml_places.Path, message: str, mend: str | None = None) -> None:
        self._problems.append((path, message, mend))

    def _told(self) -> list[Problem]:
        """Return the problems in the order of the file, several about one key as one."""
        lines = toml_places.key_lines(self._text)
        merged: dict[toml_places.Path, tuple[list[str], str | None]] = {}
        for path, message, mend in self._problems:
            messages, _ = merged.setdefault(path, ([], mend))
            if message not in messages:
                messages.append(message)
        problems = [
            Problem(" or ".join(messages), toml_places.line_of(lines, path), dotted(path), mend)
            for path, (messages, mend) in merged.items()
        ]
        return sorted(problems, key=lambda problem: problem.line or 0)


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    """Return the tables of a table that may be anything; what else it holds has been told already."""
    return {name: table for name, table in value.items() if isinstance(table, dict)} if isinstance(value, dict) else {}


def _existing(raw: Any, path: toml_places.Path, *, missing: bool) -> toml_places.Path:
    """Return the part of a path that the document has, and the missing key behind it: pydantic adds parts of its own,
    for the arms of a union.
    """
    for depth, key in enumerate(path):
        try:
            raw = raw[key]
        except (KeyError, IndexError, TypeError):
            return path[: depth + missing]
    return path


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

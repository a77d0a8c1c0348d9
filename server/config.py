"""The configuration: one TOML file, read and checked whole. Every key has a default, and every default is safe.

Owns what its tables say of each other, and that mistakes are told all at once, each with file, line and key. Where the
file is looked for is ``config_file``'s. It makes nothing: putting parts together is ``wiring``'s.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from pydantic import ValidationError

from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.server import toml_places
from guideway.server.audit_section import AuditSection
from guideway.server.config_errors import UNKNOWN_KEY, ConfigError, Problem, syntax_problem
from guideway.server.config_file import read
from guideway.server.config_paths import absolute
from guideway.server.entries import Entries, SshPatternEntry
from guideway.server.inventory_reader import InventoryReader
from guideway.server.restart_checks import check_restart_times
from guideway.server.risk_checks import TABLES, check_risk
from guideway.server.risk_sections import ApprovalsSection, BoundsSection, FreezeSection, GroupSection, StoreSection
from guideway.server.section import is_loopback
from guideway.server.sections import (
    DEVELOPMENT,
    CallerSection,
    DeadlinesSection,
    DevelopmentIssuerSection,
    Document,
    IssuerSection,
    LimitsSection,
    ServerSection,
    TenantSection,
)
from guideway.server.ssh_ways import SshHosts
from guideway.server.table_reader import tables_of, without
from guideway.server.telemetry_sections import MetricsSection, TelemetrySection
from guideway.server.uncollected import uncollected
from guideway.server.units import Units


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was checked. ``path`` is None where no file was found and the defaults hold.

    ``shared`` is what everybody may name, ``own`` what each tenant may name beside it; no name is in both. Of patterns
    that a tenant can see no two would mean one name, and a name with an entry of its own means that.
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
    store: StoreSection
    audit: AuditSection
    approvals: ApprovalsSection
    quotas: BoundsSection
    groups: Mapping[str, GroupSection]
    freezes: Mapping[str, FreezeSection]
    metrics: MetricsSection | None
    telemetry: TelemetrySection | None
    ssh: Mapping[str, SshOptions]
    ssh_patterns: Mapping[str, SshPatternEntry]
    shared: Entries
    own: Mapping[str, Entries]
    units: Units

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
        nothing = Units(Entries(), {}, SshHosts({}, ()))
        return _config(None, Document(), shared=Entries(), own={}, ssh_patterns={}, units=nothing)
    text = read(path)
    with uncollected():
        return _read(path, text)


def _read(path: Path, text: str) -> Config:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, [syntax_problem(error, text)]) from None
    except RecursionError:
        raise ConfigError(path, [Problem("is nested too deeply")]) from None
    return _Reader(path, text, raw).config()


def _config(
    path: Path | None,
    document: Document,
    *,
    shared: Entries,
    own: Mapping[str, Entries],
    ssh_patterns: Mapping[str, SshPatternEntry],
    units: Units,
) -> Config:
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
        store=document.store,
        audit=document.audit,
        approvals=document.approvals,
        quotas=document.quotas,
        groups=MappingProxyType(document.groups),
        freezes=MappingProxyType(document.freezes),
        metrics=document.metrics,
        telemetry=document.telemetry,
        ssh=MappingProxyType(document.ssh),
        ssh_patterns=MappingProxyType(ssh_patterns),
        shared=shared,
        own=MappingProxyType(own),
        units=units,
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


def _left_out(path: toml_places.Path, message: str) -> toml_places.Path:
    """Return what is left out of a document for a mistake in it."""
    if message == UNKNOWN_KEY and all(isinstance(key, str) for key in path):
        return path
    return path[:2] if path[0] in ("callers", "issuers", "tenants") else path[:1]


class _Reader(InventoryReader):
    """Reads one document, and gathers every mistake in it."""

    def config(self) -> Config:
        """Return the configuration. Raises ``ConfigError``."""
        document, broken = self._document()
        shared = self.entries(())
        own = {name: self.entries(("tenants", name)) for name in tables_of(self.raw.get("tenants"))}
        ssh_patterns = self.ssh_patterns()
        for table in ("callers", "issuers", "tenants"):
            for name in tables_of(self.raw.get(table)):
                self.require_name((table, name))
        caller, callers = self.raw.get("caller"), self.raw.get("callers", {})
        if isinstance(caller, str) and isinstance(callers, dict) and caller not in callers:
            self.choose(("caller",), caller, callers, "is not a caller")
        for check, tables in (
            (self._check_server, ("server", "issuers", "development_issuer")),
            (self._check_issuers, ("issuers",)),
            (self._check_tenants, ("callers", "tenants", "issuers")),
        ):
            if broken.isdisjoint(tables):
                check(document)
        self.check_entries(shared, own, ssh_patterns)
        units = Units(shared, own, SshHosts(document.ssh, ssh_patterns.values()))
        if broken.isdisjoint(TABLES):
            check_risk(self, document, shared, own, units)
        if "deadlines" not in broken:
            check_restart_times(self, document.deadlines, shared, own)
        if self.problems:
            raise ConfigError(self.path, self.told())
        return _config(self.path, document, shared=shared, own=own, ssh_patterns=ssh_patterns, units=units)

    def _document(self) -> tuple[Document, frozenset[str]]:
        """Return the document without what is wrong in it, and the tables that are not there or not whole for that.

        Of a table whose entries stand for themselves, such as ``issuers``, an entry that is wrong is left out, and of
        any table a key that is not known: the rest is there to be held against the other tables.
        """
        plain = self.plain()
        document = self.check(Document, plain, ())
        if document is not None:
            return document, frozenset()
        wrong = {_left_out(path, message) for path, message, _ in self.problems if path}
        try:
            document = Document.model_validate(absolute(self.folder, Document, without(plain, wrong)))
        except ValidationError:  # it shows more mistakes: one at a time, then
            wrong = {path[:1] for path in wrong}
            document = Document.model_validate(absolute(self.folder, Document, without(plain, wrong)))
        return document, frozenset(str(path[0]) for path in wrong if len(path) == 1)

    def _check_server(self, document: Document) -> None:
        server, development = document.server, document.development_issuer
        why = exposure(server, server.host, tokens=bool(tables_of(self.raw.get("issuers"))))
        if development is not None:
            if not is_loopback(server.host) or (server.url and not is_loopback(urlsplit(server.url).hostname or "")):
                self.say(("development_issuer",), "is for loopback only, and [server] is reached from elsewhere")
            elif server.proxies:
                self.say(("development_issuer",), "is for loopback only, and [server] has `proxies`")
        elif why:
            self.say(("server", "host"), f"cannot be `{server.host}`: {why}")

    def _check_issuers(self, document: Document) -> None:
        seen: dict[str, str] = {}
        for name, issuer in document.issuers.items():
            path = ("issuers", name)
            if name == DEVELOPMENT:
                self.say(path, "is the name of the development issuer", "choose another one")
            if issuer.issuer in seen:
                self.say((*path, "issuer"), f"is that of `{seen[issuer.issuer]}` already")
            seen.setdefault(issuer.issuer, name)
            if issuer.tokens == "opaque" and issuer.introspection is None:
                self.say((*path, "introspection"), "is missing", "opaque tokens have to be asked about")
            asks = issuer.introspection
            if asks and (asks.client_secret_file is None) == (asks.client_secret_env is None):
                mend = "one of them says where the secret is"
                self.say((*path, "introspection"), "needs `client_secret_file` or `client_secret_env`", mend)
            words = [issuer.word(scope) for scope in Scope]
            if len(set(words)) < len(words):
                self.say((*path, "scopes"), "gives two scopes one word")

    def _check_tenants(self, document: Document) -> None:
        tenants, issuers = tables_of(self.raw.get("tenants")), tables_of(self.raw.get("issuers"))
        for name, caller in document.callers.items():
            if caller.tenant is not None and caller.tenant not in tenants:
                self.choose(("callers", name, "tenant"), caller.tenant, tenants, "is not a tenant")
        taken: dict[tuple[str, str], str] = {}
        for tenant, section in document.tenants.items():
            for issuer, values in section.members.items():
                path = ("tenants", tenant, "members", issuer)
                if issuer not in issuers:
                    self.choose(path, issuer, issuers, "is not an issuer")
                elif issuer in document.issuers and document.issuers[issuer].tenant_claim is None:
                    self.say(path, f"has no effect: [issuers.{issuer}] names no `tenant_claim`")
                for value in sorted(values):
                    other = taken.setdefault((issuer, value), tenant)
                    if other != tenant:
                        self.say(path, f"gives `{value}` to this tenant, and it is `{other}`'s")

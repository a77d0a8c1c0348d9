"""Where parts are put together, and the only place: a configuration becomes a pipeline, a caller, and a way in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from guideway.dsl.parser import Limits
from guideway.interpreter.drivers.base import DriverOptions, Probe, ServiceDriver
from guideway.interpreter.drivers.nowhere import Nowhere
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.extras import install
from guideway.interpreter.fleet import Fleet, HostPattern, ServicePattern
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.secret import read_secret
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store
from guideway.interpreter.watch import StoreWatch, Watch
from guideway.server.approvals.paths import DEVELOPMENT_CLIENT
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import FILE_NAME
from guideway.server.entries import Entries, HostPatternEntry, ServiceEntry, ServicePatternEntry
from guideway.server.oauth.access import Access, PageClient
from guideway.server.policy import Policy
from guideway.server.sections import DEVELOPMENT, IssuerSection, ServiceSection
from guideway.server.ssh_ways import SshWays
from guideway.server.stores import open_configured
from guideway.server.uncollected import uncollected

#: The caller where the configuration names none. Nobody gave it a scope, so it has none.
NOBODY = Principal("nobody", frozenset())


def build(config: Config, *, watch: Watch | None = None, store_watch: StoreWatch | None = None) -> Pipeline:
    """Return the pipeline of a configuration. Whoever asks for it closes its inventory.

    ``watch`` is told what its runs do, and ``store_watch`` what its store does.
    """
    with uncollected():
        pipeline = _built(config)
    pipeline.watch = watch
    if isinstance(pipeline.gate.records, Store):
        pipeline.gate.records.opened.watch = store_watch
    return pipeline


def _built(config: Config) -> Pipeline:
    limits, deadlines = config.limits, config.deadlines
    ways = SshWays(config.ssh, config.ssh_patterns.values())
    policy, fleet = Policy(config), Fleet()
    records, leases = open_configured(config)
    shared = _Made(config.shared, _Maker(None, policy, ways, fleet))
    tenants = {tenant: _Made(own, _Maker(tenant, policy, ways, fleet)) for tenant, own in config.own.items()}
    return Pipeline(
        shared.inventory(),
        tenants={tenant: shared.inventory(own) for tenant, own in tenants.items()},
        limits=Limits(bytes=limits.bytes, nesting=limits.nesting, commands=limits.commands),
        deadlines=Deadlines(
            ping=deadlines.ping,
            get_status=deadlines.get_status,
            if_running=deadlines.if_running,
            restart=deadlines.restart,
            pipeline=deadlines.pipeline,
        ),
        reads_at_once=limits.reads_at_once,
        trail=records.trail,
        reads_without_trail=config.audit.reads_without_trail,
        repeats=records.repeats if isinstance(records, Store) else None,
        idempotency_seconds=config.store.idempotency_hours * 3600,
        gate=ImpactGate(
            policy.rules(),
            records=records,
            leases=leases,
            outbox=records.outbox if isinstance(records, Store) and config.approvals.webhooks else None,
        ),
    )


class _Made:
    """What the entries of one owner come to. An inventory is made of one, or of the shared one and a tenant's."""

    def __init__(self, entries: Entries, maker: "_Maker") -> None:
        self.hosts = [
            Host(name, entry.probe.build(), entry.common.ping_seconds) for name, entry in entries.hosts.items()
        ]
        self.services = [maker.service(name, entry) for name, entry in entries.services.items()]
        self.host_patterns = [_host_pattern(entry) for entry in entries.host_patterns.values()]
        self.service_patterns = [maker.service_pattern(entry) for entry in entries.service_patterns.values()]

    def inventory(self, *own: "_Made") -> Inventory:
        """Return an inventory of all that was made of these."""
        made = (self, *own)
        return Inventory(
            (host for one in made for host in one.hosts),
            (service for one in made for service in one.services),
            host_patterns=(pattern for one in made for pattern in one.host_patterns),
            service_patterns=(pattern for one in made for pattern in one.service_patterns),
        )


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the services of one owner, None for what is shared."""

    tenant: str | None
    policy: Policy
    ways: SshWays
    fleet: Fleet

    def service(self, name: str, entry: ServiceEntry) -> Service:
        """Return a service that has an entry by its name."""
        unit = self.policy.unit_of(self.tenant, name)
        health = entry.health.build() if entry.health else None
        return self._service(name, unit, _driver(entry.driver, self.ways), health, entry.common)

    def service_pattern(self, entry: ServicePatternEntry) -> ServicePattern:
        """Return what makes the services of a pattern."""

        def make(name: str, stars: tuple[str, ...]) -> Service:
            health: Probe | None = None
            unit = f"{self.tenant or ''}/{name}"
            try:
                options = entry.driver.fill(name, stars)
                unit = self.policy.unit(self.tenant, name, options)
                self.policy.require_alike(unit, name, entry, options)
                driver = _driver(options, self.ways)
                if entry.health is not None:
                    health = entry.health.fill(name, stars).build()
            except ValueError as error:
                driver = Nowhere(f"`{entry.pattern}` cannot mean this name: {error}")
            return self._service(name, unit, driver, health, entry.common, pattern=entry.pattern.text)

        common = entry.common
        return ServicePattern(entry.pattern, make, self.fleet, common.restartable, common.restart_seconds)

    def _service(
        self,
        name: str,
        unit: str,
        driver: ServiceDriver,
        health: Probe | None,
        common: ServiceSection,
        *,
        pattern: str | None = None,
    ) -> Service:
        return Service(
            name,
            driver,
            health=health,
            restartable=common.restartable,
            settle=common.settle_seconds,
            health_seconds=common.health_seconds,
            deadline=common.restart_seconds,
            risk=common.risk(),
            calendar=self.policy.calendar(name, common, pattern),
            group=common.group,
            key=unit,
        )


def _host_pattern(entry: HostPatternEntry) -> HostPattern:
    def make(name: str, stars: tuple[str, ...]) -> Host:
        try:
            probe = entry.probe.fill(name, stars).build()
        except ValueError as error:
            probe = Nowhere(f"`{entry.pattern}` cannot mean this name: {error}")
        return Host(name, probe, entry.common.ping_seconds)

    return HostPattern(entry.pattern, make, entry.common.ping_seconds)


def _driver(options: DriverOptions, ways: SshWays) -> ServiceDriver:
    """Make a driver. Raises ``ValueError`` where its machine is not known."""
    if isinstance(options, SocketOptions) and options.ssh is not None:
        return options.build_over(ways.of(options.ssh))
    return options.build()


def caller(config: Config, name: str | None = None) -> Principal:
    """Return a configured caller: the one that is named, else ``caller`` of the file, else nobody.

    Raises ``KeyError`` where no caller has that name.
    """
    name = name or config.caller
    if not name:
        return NOBODY
    section = config.callers[name]
    return Principal(name, section.scopes, tenant=section.tenant)


@asynccontextmanager
async def access(config: Config, resource: str, *, development: IssuerSection | None = None) -> AsyncIterator[Access]:
    """Open the way in for tokens of the configured issuers, and of the development issuer where that runs.

    ``resource`` is the endpoint's URL as clients know it. Raises ``ConfigError`` where a file or a secret that the
    configuration names cannot be used.
    """
    from guideway.server.oauth.verifier import TrustedIssuers  # noqa: PLC0415  # most commands need no cryptography

    issuers = {**config.issuers, **({DEVELOPMENT: development} if development else {})}
    try:
        trusted = TrustedIssuers(issuers, resource=resource, tenants=config.tenants)
        page = _page(config, development)
    except ValueError as error:
        raise ConfigError(config.path or Path(FILE_NAME), [Problem(str(error))]) from None
    async with trusted as verifier:
        yield Access(verifier, resource, tuple(issuers.values()), page)


def _page(config: Config, development: IssuerSection | None) -> PageClient | None:
    """Return how people sign in to the approval page: at the issuer that is named for it, else the development issuer.

    Raises ``ValueError`` where a secret cannot be read.
    """
    approvals = config.approvals
    if approvals.issuer is None or approvals.client_id is None:
        return PageClient(development, DEVELOPMENT_CLIENT) if development else None
    if lacking := [package for package in ("authlib", "jinja2") if find_spec(package) is None]:
        raise ValueError(f"[approvals] `client_id`: the page needs `{lacking[0]}`; {install('approvals')}")
    secret = None
    if approvals.client_secret_file is not None or approvals.client_secret_env is not None:
        key = "client_secret_file" if approvals.client_secret_file is not None else "client_secret_env"
        try:
            secret = read_secret(approvals.client_secret_file, approvals.client_secret_env)
        except ValueError as error:
            raise ValueError(f"[approvals] `{key}`: what it names {error}") from None
    return PageClient(config.issuers[approvals.issuer], approvals.client_id, secret)

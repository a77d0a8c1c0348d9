"""Where parts are put together, and the only place: a configuration becomes a pipeline, a caller, and a way in."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from guideway.dsl.parser import Limits
from guideway.interpreter.drivers.base import DriverOptions, ServiceDriver
from guideway.interpreter.drivers.ways import SocketOptions, Way
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.service import Service
from guideway.server.config import Config, Entries
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import FILE_NAME
from guideway.server.oauth.access import Access
from guideway.server.sections import DEVELOPMENT, IssuerSection

#: The caller where the configuration names none. Nobody gave it a scope, so it has none.
NOBODY = Principal("nobody", frozenset())


def build(config: Config) -> Pipeline:
    """Return the pipeline of a configuration. Whoever asks for it closes its inventory."""
    limits, deadlines = config.limits, config.deadlines
    ways = {name: options.build() for name, options in config.ssh.items()}
    hosts, services = _hosts(config.shared), _services(config.shared, ways)
    tenants = {
        tenant: Inventory([*hosts, *_hosts(own)], [*services, *_services(own, ways)])
        for tenant, own in config.own.items()
    }
    return Pipeline(
        Inventory(hosts, services),
        tenants=tenants,
        limits=Limits(bytes=limits.bytes, nesting=limits.nesting, commands=limits.commands),
        deadlines=Deadlines(
            ping=deadlines.ping,
            get_status=deadlines.get_status,
            if_running=deadlines.if_running,
            restart=deadlines.restart,
            pipeline=deadlines.pipeline,
        ),
        reads_at_once=limits.reads_at_once,
    )


def _hosts(entries: Entries) -> list[Host]:
    return [Host(name, entry.probe.build(), entry.common.ping_seconds) for name, entry in entries.hosts.items()]


def _services(entries: Entries, ways: Mapping[str, Way]) -> list[Service]:
    return [
        Service(
            name,
            _driver(entry.driver, ways),
            health=entry.health.build() if entry.health else None,
            restartable=entry.common.restartable,
            settle=entry.common.settle_seconds,
            health_seconds=entry.common.health_seconds,
            deadline=entry.common.restart_seconds,
        )
        for name, entry in entries.services.items()
    ]


def _driver(options: DriverOptions, ways: Mapping[str, Way]) -> ServiceDriver:
    if isinstance(options, SocketOptions) and options.ssh is not None:
        return options.build_over(ways[options.ssh])
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
    except ValueError as error:
        raise ConfigError(config.path or Path(FILE_NAME), [Problem(str(error))]) from None
    async with trusted as verifier:
        yield Access(verifier, resource, tuple(issuers.values()))

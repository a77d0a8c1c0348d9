"""The real server on loopback, as an attacker finds it: two trusted issuers, one that is not, two tenants.

Services and hosts are in memory and keep what was done to them, so that a test can say that nothing was.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin

import anyio
from anyio.from_thread import start_blocking_portal

from guideway.interpreter.drivers.base import Probe
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.app import serve_http
from guideway.server.load import Load
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection, TenantSection
from guideway.server.tool import build_server
from tests.attacks.oauth.forge import Mint, ec_key, ed_key, rsa_key
from tests.attacks.oauth.forgeries import Ground
from tests.attacks.oauth.provider import Provider
from tests.interpreter.worlds import HostInMemory
from tests.server.world import ROOMY

SHARED: Final = "database"
TENANTS: Final = {
    "acme": TenantSection(members={"corp": frozenset({"org_acme"}), "partner": frozenset({"team_acme"})}),
    "zeta": TenantSection(members={"corp": frozenset({"org_zeta"})}),
}


@dataclass
class World:
    """What can be touched: a shared service and host, and a service of each tenant."""

    services: dict[str, MemoryDriver] = field(
        default_factory=lambda: {name: MemoryDriver() for name in (SHARED, "ledger", "shop", "vault")}
    )
    host: HostInMemory = field(default_factory=HostInMemory)
    probes: Mapping[str, Probe] = field(default_factory=dict)

    @property
    def calls(self) -> list[str]:
        """Return what was done to any of it."""
        made = [f"{name} {call}" for name, driver in self.services.items() for call in driver.calls]
        return made + [f"api.internal {call}" for call in self.host.calls]

    @property
    def restarts(self) -> int:
        """Return how often the shared service was restarted."""
        return self.services[SHARED].calls.count("restart")

    def pipeline(self) -> Pipeline:
        """Return the pipeline over it."""
        made = {name: Service(name, driver, settle=0.0, risk=HARMLESS) for name, driver in self.services.items()}
        known = [Host(name, self.host) for name in ("api.internal", SHARED)]
        hosts = [*known, *(Host(name, probe) for name, probe in self.probes.items())]
        shared = [made[SHARED], made["ledger"]]
        return Pipeline(
            Inventory(hosts, shared),
            tenants={
                "acme": Inventory(hosts, [*shared, made["shop"]]),
                "zeta": Inventory(hosts, [*shared, made["vault"]]),
            },
        )


@dataclass
class Stage:
    """A server that is listening."""

    world: World
    url: str
    ground: Ground
    providers: Mapping[str, Provider]

    @property
    def grammar(self) -> str:
        """Where the copies are."""
        return urljoin(self.url, "/grammar")

    @property
    def metadata(self) -> str:
        """Where a client is led to."""
        return urljoin(self.url, "/.well-known/oauth-protected-resource/mcp")

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Hold that nothing is done to any service or host within."""
        before = self.world.calls
        yield
        assert self.world.calls == before


def trusted(providers: Mapping[str, Provider], **more: Any) -> dict[str, IssuerSection]:
    """Return the sections of issuers that are trusted for JWTs."""
    return {
        name: IssuerSection.model_validate({"issuer": provider.url, "tenant_claim": "org", **more})
        for name, provider in providers.items()
    }


@asynccontextmanager
async def served(world: World, issuers: Mapping[str, IssuerSection], **settings: Any) -> AsyncIterator[str]:
    """Serve a world to whoever shows a token of these issuers; give the URL."""

    @asynccontextmanager
    async def access(resource: str) -> AsyncIterator[Access]:
        async with TrustedIssuers(issuers, resource=resource, tenants=TENANTS) as verifier:
            yield Access(verifier, resource, tuple(issuers.values()))

    pipeline = world.pipeline()
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            server = build_server(pipeline, caller, load=Load(ROOMY))
            await serve_http(server, signals=False, grace=0, access=access, task_status=task_status, **settings)

        url = await tasks.start(serve)
        try:
            yield url
        finally:
            tasks.cancel_scope.cancel()


@contextmanager
def staged(
    *,
    providers: Mapping[str, Provider] | None = None,
    issuers: Mapping[str, IssuerSection] | None = None,
    world: World | None = None,
    **settings: Any,
) -> Iterator[Stage]:
    """Serve in a thread of its own, so that a test can speak plain sockets to it."""
    world = world or World()
    with ExitStack() as stack:
        if providers is None:
            providers = {"corp": corp(), "partner": Provider().publish(ec_key("partner-ec"))}
        for provider in providers.values():
            stack.enter_context(provider)
        issuers = trusted(providers) if issuers is None else issuers
        portal = stack.enter_context(start_blocking_portal())
        url = stack.enter_context(portal.wrap_async_context_manager(served(world, issuers, **settings)))
        resource = settings.get("url") or url
        yield Stage(world, url, ground(providers, resource), providers)


def corp() -> Provider:
    """Return an issuer with keys of every kind, and some that it should not have published."""
    keys = (rsa_key("corp-rsa"), ec_key("corp-ec"), ec_key("corp-384", "ES384"), ed_key("corp-ed"))
    provider = Provider().publish(*keys, ec_key("corp-k", "ES256K"), rsa_key("corp-weak", 1024))
    provider.publish(rsa_key("corp-enc"), use="enc")
    return provider.publish(rsa_key("corp-rs-only"), alg="RS256")


def ground(providers: Mapping[str, Provider], resource: str) -> Ground:
    """Return what tokens are made from where these are trusted."""
    first, *others = [provider.url for provider in providers.values()] or [""]
    return Ground(
        corp=Mint(first, resource, rsa_key("corp-rsa")),
        partner=Mint(others[0] if others else first, resource, ec_key("partner-ec")),
        stranger=Mint("https://stranger.example", resource, rsa_key("stranger")),
        resource=resource,
    )

"""What the tables of the configuration may hold: keys, types, bounds and defaults. Every default is safe.

Mistakes that one table shows by itself are found here; what tables say of each other is ``config``'s to check.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.pipeline import DEFAULT_DEADLINES
from guideway.interpreter.reads import READS_AT_ONCE
from guideway.server.audit_section import AuditSection
from guideway.server.load_bounds import DEFAULT_BOUNDS, LoadBounds
from guideway.server.risk_sections import (
    ApprovalsSection,
    BoundsSection,
    FreezeSection,
    GroupSection,
    RiskSection,
    StoreSection,
)
from guideway.server.section import FilePath, Seconds, Section, Text, Url, address
from guideway.server.telemetry_sections import MetricsSection, TelemetrySection

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ENDPOINT: Final = "/mcp"
"""Where the endpoint stands."""

_WIDEST_V4: Final = 8
_WIDEST_V6: Final = 16
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_PRIVATE: Final = (ipaddress.IPv6Network("fc00::/7"), ipaddress.IPv6Network("fe80::/10"))

DEVELOPMENT: Final = "development"
"""The name under which the development issuer is trusted; no other issuer can have it."""


def _word(text: str) -> str:
    """Check a scope-token: RFC 6749, section 3.3. Any other could not stand in a token or in a challenge."""
    if not (text.isascii() and text.isprintable()) or not {" ", '"', "\\"}.isdisjoint(text):
        raise ValueError('must be one word of ASCII, without spaces, `"` and `\\`')
    return text


def _network(text: Any) -> Any:
    if not isinstance(text, str):
        raise ValueError("must be an address or a network such as `10.0.0.0/8`")  # noqa: TRY004  # pydantic's way
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("must be an address or a network such as `10.0.0.0/8`") from None
    if _is_too_wide(network):
        raise ValueError(
            "cannot be so wide: everybody in it could send tokens in the clear; name the proxies themselves"
        )
    return network


def _is_too_wide(network: Network) -> bool:
    """Say whether a network has more of the world in it than anybody's own can have."""
    if isinstance(network, ipaddress.IPv4Network):
        return network.prefixlen < _WIDEST_V4
    if network.subnet_of(_MAPPED):  # IPv4 in the words of IPv6
        return network.prefixlen - _MAPPED.prefixlen < _WIDEST_V4
    return network.prefixlen < _WIDEST_V6 and not any(network.subnet_of(private) for private in _PRIVATE)


_Word = Annotated[Text, AfterValidator(_word)]
_ScopeKey = Annotated[Scope, Strict(False)]


class CallerSection(Section):
    """``[callers.NAME]``: somebody who may be asking here. Without scopes they may do nothing."""

    scopes: Annotated[frozenset[_ScopeKey], Strict(False)] = frozenset()
    tenant: str | None = None


class TlsSection(Section):
    """``[server.tls]``: PEM files. With ``client_ca`` a client must show a certificate that it signed."""

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class ServerSection(Section):
    """``[server]``: where HTTP is served, and under which address clients know it.

    ``url`` is the endpoint as clients reach it, and so the resource that tokens are for (RFC 8707); None where that is
    the address that is listened on. ``proxies`` are the reverse proxies whose forwarded headers are believed.
    From ``log_level`` on is logged, in ``log_format``; ``info`` has a line a run. When it is told to stop, it
    goes on for ``drain_seconds``, and then calls have ``grace_seconds`` to end.
    """

    host: Annotated[str, AfterValidator(address)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    url: Url | None = None
    tls: TlsSection | None = None
    proxies: Annotated[tuple[Annotated[Network, BeforeValidator(_network)], ...], Strict(False)] = ()
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    drain_seconds: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = 0.0
    grace_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 10.0


class IntrospectionSection(Section):
    """``[issuers.NAME.introspection]``: how opaque tokens are asked about (RFC 7662).

    The secret is read from a file or from an environment variable, one of them. A revoked token is believed for up to
    ``cache_seconds``.
    """

    client_id: Text
    client_secret_file: FilePath | None = None
    client_secret_env: Text | None = None
    endpoint: Url | None = None
    cache_seconds: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = 30.0


Profile = Literal["rfc9068", "auth0", "entra", "keycloak", "okta"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]


class IssuerSection(Section):
    """``[issuers.NAME]``: an authorization server whose tokens are believed.

    ``audience`` None is the server's own URL. ``scopes`` maps scopes of Guideway to the issuer's words for them;
    what is not in it has the same word. ``tenant_claim`` is a claim's name, or the path to one inside of claims.
    ``client_claim`` and ``scope_claim`` None take what the profile says.
    """

    issuer: Url
    audience: Text | Annotated[tuple[Text, ...], Field(min_length=1), Strict(False)] | None = None
    tokens: Literal["jwt", "opaque"] = "jwt"
    profile: Profile = "rfc9068"
    algorithms: Annotated[frozenset[Algorithm], Field(min_length=1), Strict(False)] = frozenset(
        ("RS256", "PS256", "ES256", "Ed25519", "EdDSA")
    )
    scopes: dict[_ScopeKey, _Word] = Field(default_factory=dict)
    scope_claim: Text | None = None
    client_claim: Text | None = None
    tenant_claim: Text | Annotated[tuple[Text, ...], Field(min_length=1), Strict(False)] | None = None
    leeway_seconds: Annotated[int, Field(ge=0, le=300)] = 30
    dpop: Literal["if_bound", "required"] = "if_bound"
    metadata_url: Url | None = None
    jwks_url: Url | None = None
    ca_file: FilePath | None = None
    introspection: IntrospectionSection | None = None

    def word(self, scope: Scope) -> str:
        """Return the issuer's word for a scope."""
        return self.scopes.get(scope, scope.value)

    def words(self, scopes: Iterable[Scope]) -> tuple[str, ...]:
        """Return the issuer's words for scopes, in the order of the scopes."""
        return tuple(self.word(scope) for scope in Scope if scope in frozenset(scopes))


class TenantSection(BoundsSection):
    """``[tenants.NAME]``: whose tokens belong to a tenant, what only they may name, and how often they may restart.

    ``members`` maps the name of an issuer to the values of its tenant claim.
    """

    members: dict[str, Annotated[frozenset[Text], Field(min_length=1), Strict(False)]] = Field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    services: dict[str, dict[str, Any]] = Field(default_factory=dict)


class DevelopmentIssuerSection(Section):
    """``[development_issuer]``: the built-in issuer for one machine, which is on where this table stands.

    ``people`` are who may sign in, each with the most scopes that they can grant to a client.
    """

    people: Annotated[dict[Text, Annotated[frozenset[_ScopeKey], Strict(False)]], Field(min_length=1)]
    port: Annotated[int, Field(ge=0, le=65_535)] = 8766
    token_seconds: Annotated[int, Field(ge=5, le=3_600)] = 600
    state_folder: FilePath | None = None


class LimitsSection(Section):
    """``[limits]``: the largest program that is read, how many reads may be open for one to be begun ahead, and how
    much is taken on at a time, from whom.

    The upper ends keep the parser's work and stack small, open sockets below what systems allow, and who waits in the
    queue below the minute after which clients give a request up.
    """

    bytes: Annotated[int, Field(ge=1, le=1_048_576)] = DEFAULT_LIMITS.bytes
    nesting: Annotated[int, Field(ge=1, le=100)] = DEFAULT_LIMITS.nesting
    commands: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_LIMITS.commands
    reads_at_once: Annotated[int, Field(ge=1, le=500)] = READS_AT_ONCE
    calls_at_once: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_BOUNDS.calls_at_once
    calls_at_once_of_caller: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_BOUNDS.calls_at_once_of_caller
    calls_per_minute_of_caller: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_BOUNDS.calls_per_minute_of_caller
    queue: Annotated[int, Field(ge=0, le=10_000)] = DEFAULT_BOUNDS.queue
    queue_seconds: Annotated[float, Field(gt=0, le=50, allow_inf_nan=False)] = DEFAULT_BOUNDS.queue_seconds
    refused_per_minute_of_address: Annotated[int, Field(ge=1, le=1_000_000)] = (
        DEFAULT_BOUNDS.refused_per_minute_of_address
    )
    refused_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_BOUNDS.refused_per_minute

    def load(self) -> LoadBounds:
        """Return what of it bounds the load."""
        return LoadBounds(**{each.name: getattr(self, each.name) for each in fields(LoadBounds)})


class DeadlinesSection(Section):
    """``[deadlines]``: seconds that a command, and a whole pipeline, may take."""

    ping: Seconds = DEFAULT_DEADLINES.ping
    get_status: Seconds = DEFAULT_DEADLINES.get_status
    if_running: Seconds = DEFAULT_DEADLINES.if_running
    restart: Seconds = DEFAULT_DEADLINES.restart
    pipeline: Seconds = DEFAULT_DEADLINES.pipeline


class HostSection(Section):
    """The keys of ``[hosts.NAME]`` beside its probe's own. ``ping_seconds`` None takes ``[deadlines] ping``."""

    ping_seconds: Seconds | None = None


class ServiceSection(RiskSection):
    """The keys of ``[services.NAME]`` beside its driver's own. No ``restart_seconds``: ``[deadlines] restart``."""

    restartable: bool = True
    restart_seconds: Seconds | None = None
    settle_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 1.0
    health_seconds: Seconds = 2.0


class Document(Section):
    """The whole file, with hosts and services still to be read by what their probe or driver asks."""

    caller: str | None = None
    callers: dict[str, CallerSection] = Field(default_factory=dict)
    server: ServerSection = ServerSection()
    issuers: dict[str, IssuerSection] = Field(default_factory=dict)
    development_issuer: DevelopmentIssuerSection | None = None
    tenants: dict[str, TenantSection] = Field(default_factory=dict)
    limits: LimitsSection = LimitsSection()
    deadlines: DeadlinesSection = DeadlinesSection()
    store: StoreSection = StoreSection()
    audit: AuditSection = AuditSection()
    approvals: ApprovalsSection = ApprovalsSection()
    quotas: BoundsSection = BoundsSection()
    groups: dict[str, GroupSection] = Field(default_factory=dict)
    freezes: dict[str, FreezeSection] = Field(default_factory=dict)
    metrics: MetricsSection | None = None
    telemetry: TelemetrySection | None = None
    ssh: dict[str, SshOptions] = Field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    services: dict[str, dict[str, Any]] = Field(default_factory=dict)

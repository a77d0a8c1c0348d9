"""An issuer as this server trusts it: its part of the configuration, resolved to what a token is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from guideway.dsl.scopes import Scope
from guideway.server.oauth.profiles import PROFILES, Profile
from guideway.server.sections import IssuerSection, TenantSection


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, and how old they may be, in seconds.

    Keys are fetched again every ``refresh``, and are not used for new tokens once they are older than ``stale``. An
    issuer that did not answer is asked again after ``gap``, for a key that nobody knows after ``again``.
    ``request`` bounds one request from its first byte to its last.
    """

    refresh: float = 600.0
    gap: float = 10.0
    again: float = 0.25
    stale: float = 3_600.0
    request: float = 5.0


DEFAULT_PATIENCE: Final = Patience()


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """One of ``[issuers]``. ``tenants`` maps values of its tenant claim to tenants, ``words`` its scopes to ours."""

    name: str
    section: IssuerSection
    profile: Profile
    audiences: frozenset[str]
    tenants: Mapping[str, str]
    words: Mapping[str, Scope]

    @property
    def client_claims(self) -> tuple[str, ...]:
        """The claims that may hold the client, the first one first."""
        named = self.section.client_claim
        return self.profile.client_claims if named is None else (named,)

    @property
    def scope_claim(self) -> str:
        """The claim that holds the scopes."""
        return self.section.scope_claim or self.profile.scope_claim

    @property
    def tenant_path(self) -> tuple[str, ...]:
        """The way to the tenant claim, from the outermost claim in; empty where there is none."""
        named = self.section.tenant_claim
        return (named,) if isinstance(named, str) else named or ()


def trusted_issuer(
    name: str, section: IssuerSection, *, resource: str, tenants: Mapping[str, TenantSection]
) -> TrustedIssuer:
    """Return an issuer of the configuration as it is trusted by the server whose URL is ``resource``."""
    named = section.audience
    audiences = (resource,) if named is None else (named,) if isinstance(named, str) else named
    return TrustedIssuer(
        name=name,
        section=section,
        profile=PROFILES[section.profile],
        audiences=frozenset(audiences),
        tenants={value: tenant for tenant, its in tenants.items() for value in its.members.get(name, ())},
        words={section.word(scope): scope for scope in Scope},
    )

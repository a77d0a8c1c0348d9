"""The OpenID provider that the tests start: npm `oidc-provider`, as tests/node/oauth/provider.mjs sets it up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from guideway.dsl.scopes import Scope
from tests.interop.npm import PLACE
from tests.interop.oauth.browser import REDIRECT
from tests.interop.oauth.processes import Environment, running

BY_HAND: dict[str, Any] = {
    "client_id": "entered-by-hand",
    "redirect_uris": [REDIRECT],
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "application_type": "native",
    "scope": f"offline_access {Scope.READ} {Scope.WRITE}",
}
"""A client that an operator has entered at the provider, with every scope that lets a program run."""

PAGE: dict[str, Any] = {
    "client_id": "approval-page",
    "client_secret": "the page's own + secret",
    "redirect_uris": ["http://127.0.0.1/approvals/signed-in"],  # at any port: it is loopback
    "token_endpoint_auth_method": "client_secret_basic",
    "grant_types": ["authorization_code"],
    "response_types": ["code"],
    "application_type": "native",
    "scope": f"openid {Scope.APPROVE}",
}
"""The approval page, as an operator has entered it."""


@dataclass(frozen=True)
class Asked:
    """What was asked of the provider since its settings were last changed."""

    authorization: list[dict[str, str]]
    registrations: int
    tokens: int
    bound_tokens: int

    @property
    def scopes(self) -> list[frozenset[str]]:
        """The scopes of each authorization request, without the one that asks for a refresh token."""
        return [frozenset(asked.get("scope", "").split(" ")) - {"offline_access"} for asked in self.authorization]


@dataclass(frozen=True)
class Provider:
    """A provider that runs, and the ways in which its operator can change it."""

    issuer: str

    def set(self, **settings: Any) -> None:
        """Change settings, named as in the script; the others are as at first. What was asked is forgotten."""
        httpx2.post(f"{self.issuer}/control", json=settings).raise_for_status()

    def keys(self, change: Literal["rotate", "withdraw"]) -> None:
        """Sign with new keys from now on and publish the old beside them; or publish the old no more."""
        self.set(keys=change)

    @property
    def asked(self) -> Asked:
        """What was asked of it."""
        told = httpx2.get(f"{self.issuer}/control").raise_for_status().json()
        bound = sum(asked["bound"] for asked in told["token"])
        return Asked(told["authorization"], told["registrations"], len(told["token"]), bound)

    def published_keys(self) -> list[str]:
        """Return the ids of the keys that it publishes."""
        return [key["kid"] for key in httpx2.get(f"{self.issuer}/jwks").raise_for_status().json()["keys"]]


@contextmanager
def serving(environment: Environment) -> Iterator[Provider]:
    """Run a provider."""
    script = PLACE / "oauth" / "provider.mjs"
    with running(["node", str(script), json.dumps([BY_HAND, PAGE])], environment) as started:
        yield Provider(started["issuer"])

"""Verifying tokens of issuers in the tests: with a clock that can be put forward."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from guideway.server.oauth.trusted import Patience
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection, TenantSection
from tests.server.oauth.issuer import RESOURCE


@dataclass
class Clock:
    """The time, and as much later as it was put forward."""

    later: float = 0.0

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time() + self.later

    def ticks(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic() + self.later


def trusting(
    *sections: IssuerSection,
    tenants: Mapping[str, TenantSection] | None = None,
    clock: Clock | None = None,
    **patience: float,
) -> TrustedIssuers:
    """Return the verifier that trusts some issuers, which are called `corp`, `corp1`, `corp2`."""
    clock = clock or Clock()
    return TrustedIssuers(
        {f"corp{number or ''}": section for number, section in enumerate(sections)},
        resource=RESOURCE,
        tenants=tenants or {},
        patience=Patience(**patience),
        now=clock.now,
        ticks=clock.ticks,
    )


async def refusal(trusted: TrustedIssuers, token: str) -> str:
    """Return why a token is refused."""
    with pytest.raises(TokenRefused) as refused:
        await trusted.verify(token)
    return str(refused.value)


async def retry_after(trusted: TrustedIssuers, token: str) -> int:
    """Return in how many seconds to ask again about a token that nobody can judge now."""
    with pytest.raises(IssuerUnavailable) as unavailable:
        await trusted.verify(token)
    assert str(unavailable.value) == "the issuer of the token does not answer"
    return unavailable.value.retry_after


async def subject(trusted: TrustedIssuers, token: str) -> Any:
    """Return who is behind a token."""
    return (await trusted.verify(token)).principal.subject

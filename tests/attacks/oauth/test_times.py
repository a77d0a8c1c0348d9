"""The edges of a token's time: to the second, with the leeway that is configured and no more.

The story: a token that has ended, or is not yet good, shown by somebody who has set a clock wrong, or waits for the
second at which two comparisons disagree.
"""

from typing import Any

import pytest

from guideway.server.oauth.verified import TokenRefused
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection
from tests.attacks.oauth.forge import Mint, ec_key
from tests.attacks.oauth.provider import Provider

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000
HERE = "https://diag.example.com/mcp"
EXPIRED = "the token has expired"
NOT_YET = "the token is not valid yet"


@pytest.mark.parametrize("leeway", [0, 1, 30, 300])
@pytest.mark.parametrize(
    ("claim", "passes", "refused", "why"),
    [
        ("exp", 1, 0, EXPIRED),  # "on or after" which it must not be taken: RFC 7519, section 4.1.4
        ("nbf", 0, 1, NOT_YET),
        ("iat", 0, 1, NOT_YET),
    ],
)
async def test_a_second_decides(leeway: int, claim: str, passes: int, refused: int, why: str) -> None:
    """``passes`` and ``refused`` are seconds from the edge, which is the leeway away from now."""
    key = ec_key("corp-ec")
    edge = NOW - leeway if claim == "exp" else NOW + leeway

    def saying(seconds: float) -> str:
        claims: dict[str, Any] = {"iat": NOW, "exp": NOW + 600, claim: edge + seconds}
        return Mint(corp.url, HERE, key).saying(**claims)

    with Provider().publish(key) as corp:
        issuers = {"corp": IssuerSection(issuer=corp.url, leeway_seconds=leeway)}
        async with TrustedIssuers(issuers, resource=HERE, tenants={}, now=lambda: NOW) as verifier:
            verified = await verifier.verify(saying(passes))
            if claim == "exp":
                assert verified.principal.expires_at == NOW + 1
            for seconds in (refused, refused + (-0.5 if claim == "exp" else 0.5)):
                with pytest.raises(TokenRefused, match=why):
                    await verifier.verify(saying(seconds))


async def test_a_verdict_does_not_outlive_its_token() -> None:
    """Verified while it was good, shown again a second too late: what is remembered of it counts for nothing."""
    key, clock = ec_key("corp-ec"), [float(NOW)]
    with Provider().publish(key) as corp:
        issuers = {"corp": IssuerSection(issuer=corp.url, leeway_seconds=30)}
        async with TrustedIssuers(issuers, resource=HERE, tenants={}, now=lambda: clock[0]) as verifier:
            token = Mint(corp.url, HERE, key).saying(iat=NOW, exp=NOW + 60)
            assert await verifier.verify(token) == await verifier.verify(token)
            clock[0] = NOW + 89.999
            await verifier.verify(token)
            clock[0] = NOW + 90
            with pytest.raises(TokenRefused, match=EXPIRED):
                await verifier.verify(token)

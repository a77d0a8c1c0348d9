"""What comes of looking at a token: a verified caller, a refusal with a reason, or no answer for now.

Reasons are this program's own words, in ASCII without quotes: they go into headers, bodies and logs. No part of a
token, and no text that came with one, is ever in them.
"""

from dataclasses import dataclass
from typing import Protocol

from guideway.interpreter.principal import Principal
from guideway.server.sections import IssuerSection


@dataclass(frozen=True, slots=True)
class Verified:
    """A caller whose token was verified.

    ``principal.expires_at`` is the token's ``exp`` with the issuer's leeway added. ``issuer`` has the words that the
    issuer uses for scopes. ``key_thumbprint`` is the key that the token is bound to (RFC 9449, section 6.1), None for a
    bearer token.
    """

    principal: Principal
    issuer: IssuerSection
    key_thumbprint: str | None = None


class TokenRefused(Exception):  # noqa: N818  # it is an answer, not a fault
    """The token is not believed: ``invalid_token`` (RFC 6750, section 3.1). The message is the description."""


class IssuerUnavailable(Exception):  # noqa: N818  # it is an answer, not a fault
    """Whether the token is good cannot be said now. ``retry_after`` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Verifier(Protocol):
    """Whoever can say who is behind a token."""

    async def verify(self, token: str) -> Verified:
        """Return the caller behind a token. Raises ``TokenRefused`` and ``IssuerUnavailable``."""
        ...

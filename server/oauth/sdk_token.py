"""A verified token in the shape that the SDK knows, with the caller inside.

Owns what the SDK gets to see of a token. The SDK compares the expiry without leeway, so it is given one that has it;
and it tells owners of sessions apart by client, issuer and subject, so all three are filled in.
"""

import math

from mcp.server.auth.provider import AccessToken
from pydantic import Field, PrivateAttr

from guideway.server.oauth.verified import Verified


class VerifiedToken(AccessToken):
    """The SDK's token, with ``verified`` beside it. Neither the token nor the caller is in its text or its dump."""

    token: str = Field(repr=False, exclude=True)
    _verified: Verified = PrivateAttr()

    @property
    def verified(self) -> Verified:
        """The caller behind the token."""
        return self._verified


def sdk_token(token: str, verified: Verified, resource: str) -> VerifiedToken:
    """Return a verified token for the SDK. ``resource`` is the URL that it was checked to be for (RFC 8707)."""
    caller = verified.principal
    made = VerifiedToken(
        token=token,
        client_id=caller.client or "",
        scopes=sorted(scope.value for scope in caller.scopes),
        expires_at=None if caller.expires_at is None else math.floor(caller.expires_at),
        resource=resource,
        subject=caller.subject,
        claims={"iss": caller.issuer},
    )
    made._verified = verified  # noqa: SLF001  # pydantic takes no private attribute when it makes one
    return made

"""Sign-ins as they are kept, made up."""

import time
from typing import Any

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl

from guideway.server.sign_in.entry import Entry, Secrets

SERVER = "https://guideway.example.com/mcp"
ISSUER = "https://login.example.com"
ACCESS, REFRESH, SECRET = "access-0123456789", "refresh-0123456789", "secret-0123456789"


def entry(server: str = SERVER, issuer: str = ISSUER, *, lasts: float | None = 600, **client: Any) -> Entry:
    """Return a sign-in whose access token lasts for some seconds."""
    return Entry(
        server=server,
        resource=server,
        metadata=OAuthMetadata(
            issuer=AnyHttpUrl(issuer),
            authorization_endpoint=AnyHttpUrl(f"{issuer}/authorize"),
            token_endpoint=AnyHttpUrl(f"{issuer}/token"),
            revocation_endpoint=AnyHttpUrl(f"{issuer}/revoke"),
        ),
        expires_at=None if lasts is None else time.time() + lasts,
        secrets=Secrets(
            tokens=OAuthToken(access_token=ACCESS, refresh_token=REFRESH, scope="mcp:diag:read"),
            client=OAuthClientInformationFull(client_id="a-client", **client),
        ),
    )

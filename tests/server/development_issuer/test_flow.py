"""From a client's first request to its tokens, and what the tokens are."""

import time

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.server.development_issuer.world import READ, RESOURCE, WRITE, Client

pytestmark = pytest.mark.anyio


async def test_a_client_gets_tokens_that_the_published_keys_verify(issuer: str, client: Client) -> None:
    tokens = await client.tokens()
    assert tokens["token_type"] == "Bearer"  # noqa: S105
    assert tokens["expires_in"] == 600
    assert tokens["scope"].split(" ") == [READ, WRITE]
    metadata = (await client.http.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
    keys = KeySet.import_key_set((await client.http.get(metadata["jwks_uri"])).json())
    verified = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
    assert verified.header["typ"] == "at+jwt"
    claims = dict(verified.claims)
    assert claims.pop("exp") - claims["iat"] == 600
    assert abs(claims.pop("iat") - time.time()) < 60
    assert claims.pop("jti")
    assert claims == {
        "iss": issuer,
        "sub": "alice",
        "aud": RESOURCE,
        "client_id": client.client_id,
        "scope": f"{READ} {WRITE}",
    }

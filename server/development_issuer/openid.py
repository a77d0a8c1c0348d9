"""Just enough of OpenID Connect for people to sign in: an ID token for a code that was asked for with ``openid``.

Authlib's own part for it is not loaded: it would bring request objects, which are fetched from wherever one says.
"""

import time
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import KeySet

from guideway.server.development_issuer.keys import ALGORITHM
from guideway.server.development_issuer.store import Credential

SCOPE: Final = "openid"
"""What asks for an ID token. It is no scope of an access token."""

_SECONDS: Final = 300


class IdTokens:
    """An extension of the code grant: adds ID tokens to its answers (OpenID Connect Core, sections 2 and 3.1.3.3)."""

    def __init__(self, keys: KeySet, issuer: str) -> None:
        self._key = keys.keys[0]
        self._issuer = issuer

    def __call__(self, grant: Any) -> None:
        """Be asked by a grant before it answers."""
        grant.register_hook("after_create_token_response", self._add)

    def _add(self, grant: Any, response: Any) -> Any:
        _, token, _ = response
        code: Credential = grant.request.authorization_code
        if code.openid:
            token["id_token"] = self._issue(code)
        return token

    def _issue(self, code: Credential) -> str:
        now = int(time.time())
        claims = {
            "iss": self._issuer,
            "sub": code.grant.person,
            "aud": code.grant.client,
            "iat": now,
            "exp": now + _SECONDS,
            **({} if code.nonce is None else {"nonce": code.nonce}),
        }
        return jwt.encode({"alg": ALGORITHM, "kid": self._key.kid, "typ": "JWT"}, claims, self._key, [ALGORITHM])

"""Access tokens: JWT by RFC 9068, for one resource and nothing else, in the words that a consent page showed."""

from collections.abc import Iterable
from typing import Any

from authlib.common.security import generate_token
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import KeySet

from guideway.dsl.scopes import Scope, scope_list
from guideway.server.development_issuer.client import Client, ClientMetadata
from guideway.server.development_issuer.keys import ALGORITHM
from guideway.server.development_issuer.store import Grant


class AccessTokens(JWTBearerTokenGenerator):
    """Makes the tokens of one issuer. What Authlib calls the user is a ``Grant``."""

    def __init__(self, keys: KeySet, *, issuer: str, seconds: int) -> None:
        super().__init__(issuer, ALGORITHM, _refresh_token, lambda _client, _grant_type: seconds)
        self._keys = keys

    def get_jwks(self) -> KeySet:
        """Return the keys to sign with: as a set, so that the token says which."""
        return self._keys

    def get_audiences(self, client: object, user: Grant, scope: object) -> str:  # noqa: ARG002  # Authlib's signature
        """Return the resource that the grant is for (RFC 8707)."""
        return user.resource

    def issue(self, person: str, scopes: Iterable[Scope], *, client_id: str, resource: str) -> str:
        """Return a token without a grant behind it: who may read the key may say what it signs."""
        client = Client(client_id, ClientMetadata(redirect_uris=["https://localhost/"]))  # where nothing is ever sent
        grant = Grant("", client_id, person, frozenset(scopes), resource)
        return self.access_token_generator(client, "", grant, scope_list(scopes))


def _refresh_token(**_: Any) -> str:
    return str(generate_token(48))

"""The authorization server: Authlib's, with what it leaves to us, and with what it would let pass made strict.

PKCE with S256 for everybody (RFC 7636, OAuth 2.1), one resource and no other (RFC 8707), codes that are good once
(RFC 6749, section 4.1.2), refresh tokens that are good once (RFC 9700, section 4.14.2), `iss` in every answer that
goes back by redirect (RFC 9207). It is synchronous throughout, and so nothing comes between two of its steps.
"""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from authlib.oauth2 import AuthorizationServer, JsonRequest, OAuth2Error
from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint, InvalidClientMetadataError, InvalidRedirectURIError
from authlib.oauth2.rfc7636 import CodeChallenge
from starlette.responses import Response

from guideway.dsl.record import Record
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.server.development_issuer.client import (
    GRANT_TYPES,
    Client,
    ClientMetadata,
    MetadataRefused,
    read_metadata,
)
from guideway.server.development_issuer.messages import Message, to_response
from guideway.server.development_issuer.openid import SCOPE as OPENID
from guideway.server.development_issuer.openid import IdTokens
from guideway.server.development_issuer.store import Credential, Grant, Store, new_grant
from guideway.server.development_issuer.tokens import AccessTokens

# Authlib logs what it issues, tokens included, when it is asked to log everything.
logging.getLogger("authlib").setLevel(logging.INFO)

_CHALLENGE_LENGTH: Final = 43  # base64url of SHA-256, RFC 7636, section 4.2


class InvalidTargetError(OAuth2Error):
    """The resource is another one, or none (RFC 8707, section 2)."""

    error = "invalid_target"


class UnsupportedTokenTypeError(OAuth2Error):
    """Tokens of this kind cannot be revoked (RFC 7009, section 2.2.1)."""

    error = "unsupported_token_type"


class Decision(Record):
    """What a person has just allowed a client."""

    person: str
    scopes: frozenset[Scope]


class Authorization(AuthorizationServer):
    """The authorization server of one resource.

    ``people`` has the most scopes of everybody who can allow something; it is asked anew at every exchange, so that a
    grant is never worth more than its person.
    """

    def __init__(
        self, store: Store, tokens: AccessTokens, *, issuer: str, resource: str, people: Mapping[str, frozenset[Scope]]
    ) -> None:
        super().__init__()
        self.store = store
        self.issuer = issuer
        self.resource = resource
        self.people = people
        self.register_token_generator("default", tokens)
        self.register_grant(_CodeGrant, [_Pkce(required=True), IdTokens(tokens.get_jwks(), issuer)])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Revocation)
        self.register_endpoint(_Registration)  # type: ignore[arg-type]  # the stubs forget that it is one

    def query_client(self, client_id: str) -> Client | None:  # type: ignore[override]  # the stubs forget None
        """Return a client, or None."""
        return self.store.client(client_id)

    def save_token(self, token: Mapping[str, Any], request: Message) -> None:  # type: ignore[override]
        """Use up what the token was asked for with. Only the first use gets it; a second one ends the grant."""
        code: Credential | None = request.authorization_code
        refresh_token = token.get("refresh_token")
        if code is not None:
            first, used = self.store.redeem(code, refresh_token), code
        else:
            used = request.refresh_token  # type: ignore[assignment]  # one of the two is there
            first = self.store.rotate(used, str(refresh_token))
        if not first:
            self.store.revoke(used.grant.id)
            raise InvalidGrantError

    def worth(self, credential: Credential | None) -> Credential | None:
        """Return a credential with the scopes that its person still has; None where it is worth nothing.

        One that was used already ends its grant: somebody else has it too.
        """
        if credential is None:
            return None
        if credential.used:
            self.store.revoke(credential.grant.id)
            return None
        grant = credential.grant
        scopes = grant.scopes & self.people.get(grant.person, frozenset())
        if not scopes or grant.resource != self.resource:
            return None
        return credential.replace(grant=grant.replace(scopes=scopes))

    def require_resource(self, request: Message, redirect_uri: str | None = None, *, given: bool) -> None:
        """Raise ``InvalidTargetError`` for any resource but the one. Where it was ``given`` it may be left out."""
        if set(request.resources) != {self.resource} and (request.resources or not given):
            raise InvalidTargetError(f"resource must be {self.resource}", redirect_uri=redirect_uri)

    def consent(self, message: Message) -> Any:
        """Return the grant that a request asks for, checked. Raises ``OAuth2Error``."""
        return self.get_consent_grant(message)  # type: ignore[no-untyped-call]

    def answer(self, message: Message, decision: Decision | None, grant: Any) -> Response:
        """Return the redirect that tells a client what was decided."""
        return _response(self.create_authorization_response(message, decision, grant))

    def refusal(self, error: OAuth2Error) -> Response:
        """Return the answer that tells a client of an error."""
        return self.handle_response(*error())

    def exchange(self, message: Message) -> Response:
        """Return the answer of the token endpoint."""
        return _response(self.create_token_response(message))

    def endpoint(self, name: str, request: Message | JsonRequest) -> Response:
        """Return the answer of another endpoint."""
        return _response(self.create_endpoint_response(name, request))  # type: ignore[no-untyped-call]

    def create_oauth2_request(self, request: Message) -> Message:
        """Return the request: it is read before it comes here."""
        return request

    def create_json_request(self, request: Any) -> Any:
        """Return the request: it is read before it comes here."""
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        """Return Authlib's answer as a response."""
        return to_response(status, body, dict(headers), self.issuer)

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Tell nobody: there is nobody to tell."""


def _response(made: object) -> Response:
    """Return what ``handle_response`` made and Authlib hands back, whose stubs cannot know its type."""
    assert isinstance(made, Response)  # noqa: S101  # for the type checker
    return made


class _Pkce(CodeChallenge):
    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012  # as in the base
    DEFAULT_CODE_CHALLENGE_METHOD = "S256"  # never asked for: the method has to be named
    CODE_CHALLENGE_METHODS = {"S256": CodeChallenge.CODE_CHALLENGE_METHODS["S256"]}  # noqa: RUF012

    def validate_code_challenge(self, grant: Any, redirect_uri: Any) -> None:
        parameters = grant.request.payload.data
        if parameters.get("code_challenge_method") != "S256":
            raise InvalidRequestError("code_challenge_method must be S256")
        if len(parameters.get("code_challenge", "")) != _CHALLENGE_LENGTH:
            raise InvalidRequestError("code_challenge must be the base64url of a SHA-256 hash")
        super().validate_code_challenge(grant, redirect_uri)


class _CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    server: Authorization
    request: Message

    def validate_authorization_request(self) -> str:
        redirect_uri = super().validate_authorization_request()
        parameters = self.request.form
        if "request" in parameters or "request_uri" in parameters:  # RFC 9101: they would overrule what was checked
            raise OAuth2Error("request objects are not taken", error="request_not_supported", redirect_uri=redirect_uri)
        if parameters.get("response_mode", "query") != "query":
            raise InvalidRequestError("response_mode must be query", redirect_uri=redirect_uri)
        if "none" in parameters.get("prompt", "").split(" "):  # OpenID Connect Core, section 3.1.2.6
            raise OAuth2Error("somebody has to be asked", error="interaction_required", redirect_uri=redirect_uri)
        self.server.require_resource(self.request, redirect_uri, given=False)
        return redirect_uri

    def save_authorization_code(self, code: str, request: Any) -> None:
        decision: Decision = request.user
        grant = new_grant(request.client.client_id, decision.person, decision.scopes, self.server.resource)
        parameters = request.form
        self.server.store.allow(
            code,
            grant,
            redirect_uri=parameters["redirect_uri"],
            challenge=parameters["code_challenge"],
            openid=OPENID in parameters.get("scope", "").split(" "),
            nonce=parameters.get("nonce"),
        )

    def query_authorization_code(self, code: str, client: Any) -> Credential | None:
        found = self.server.store.code(code)
        return self.server.worth(found) if found is not None and found.check_client(client) else None

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.server.require_resource(self.request, given=True)

    def authenticate_user(self, authorization_code: Credential) -> Grant:
        return authorization_code.grant

    def delete_authorization_code(self, authorization_code: Credential) -> None:
        """Keep it, used up: that it comes a second time must be seen."""


class _RefreshGrant(RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    INCLUDE_NEW_REFRESH_TOKEN = True
    server: Authorization
    request: Message

    def authenticate_refresh_token(self, refresh_token: str) -> Any:
        client: Any = self.request.client
        found = self.server.store.refresh_token(refresh_token)
        return self.server.worth(found) if found is not None and found.check_client(client) else None

    def validate_token_request(self) -> None:
        super().validate_token_request()
        self.server.require_resource(self.request, given=True)

    def authenticate_user(self, refresh_token: Credential) -> Grant:
        return refresh_token.grant

    def revoke_old_credential(self, refresh_token: Any) -> None:
        """Keep it, used up: that it comes a second time must be seen."""


class _Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = ("none",)
    server: Authorization

    def check_params(self, request: Message, client: Any) -> None:  # noqa: ARG002  # Authlib's signature
        token = request.form.get("token")
        if token is None:
            raise InvalidRequestError("token is missing")
        if "." in token:  # refresh tokens have none, and JWTs two
            raise UnsupportedTokenTypeError("access tokens run out by themselves: revoke the refresh token")

    def query_token(self, token_string: str, token_type_hint: str | None) -> Credential | None:  # noqa: ARG002
        return self.server.store.refresh_token(token_string)

    def revoke_token(self, token: Credential, request: Message) -> None:  # noqa: ARG002  # Authlib's signature
        self.server.store.revoke(token.grant.id)


class _Registration(ClientRegistrationEndpoint):
    """Dynamic registration (RFC 7591), open to whoever reaches this machine's loopback.

    Nothing is granted by it. What a client asks for beyond what is served is replaced, and it is told so (section
    3.2.1). The scope is widened to all there is: clients register with the scope of their first challenge, and a later
    step-up must not fail by that.
    """

    server: Authorization

    def authenticate_token(self, request: JsonRequest) -> bool:  # noqa: ARG002  # Authlib's signature
        return True

    def extract_client_metadata(self, request: JsonRequest) -> dict[str, Any]:
        try:
            metadata = read_metadata(request.payload.data if request.payload else None)
        except MetadataRefused as refusal:
            kind = InvalidRedirectURIError if refusal.about_redirect else InvalidClientMetadataError
            raise kind(str(refusal)) from None
        return metadata.model_dump(exclude_none=True) | {
            "grant_types": [name for name in GRANT_TYPES if name in metadata.grant_types],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": scope_list(PROGRAM_SCOPES),
        }

    def generate_client_info(self, request: JsonRequest) -> dict[str, Any]:  # noqa: ARG002  # Authlib's signature
        return {"client_id": secrets.token_urlsafe(16), "client_id_issued_at": int(time.time())}

    def save_client(self, client_info: Any, client_metadata: Any, request: JsonRequest) -> Client:  # noqa: ARG002
        client = Client(client_info["client_id"], ClientMetadata.model_validate(client_metadata))
        self.server.store.keep_client(client)
        return client

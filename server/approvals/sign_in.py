"""Signing in to the approval page by OpenID Connect: where a browser is sent, and who comes back.

The protocol is Authlib's client (code with PKCE S256). Who somebody is and what they may do is decided in one place
for the whole server, on the access token for this resource (RFC 8707): by its verifier. The ID token shows that the
answer is to the question that was asked, by this page, in this browser. Neither is kept, shown or logged.
"""

import hmac
import logging
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.server.approvals.id_token import IdTokenRefused, check_id_token
from guideway.server.approvals.paths import SIGNED_IN
from guideway.server.approvals.view import words
from guideway.server.oauth.access import Access
from guideway.server.oauth.discovery import discover, endpoint
from guideway.server.oauth.issuer_http import IssuerHttp, NoAnswer, authorities, basic_credentials, bounded
from guideway.server.oauth.keys import KeySet, no_key_set, read_keys
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused

_log: Final = logging.getLogger(__name__)
_REQUEST_SECONDS: Final = 10.0
_METADATA_SECONDS: Final = 600.0
_KEPT: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9]{48})\.([A-Za-z0-9_-]{0,64})")


class NotSignedIn(Exception):  # noqa: N818  # it is an answer, not a fault
    """Nobody was signed in. The message is for the person at the browser, and holds no secret.

    ``person`` is who it would have been, where that is known.
    """

    def __init__(self, message: str, help_: str, status: int = 403, *, person: Principal | None = None) -> None:
        super().__init__(message)
        self.person = person
        self.help = help_
        self.status = status


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that was begun: where the browser goes, and what it keeps for its return.

    ``kept`` binds the answer to this browser. It names a ticket and no address, so that it leads nowhere else.
    """

    url: str
    kept: str


@dataclass(slots=True)
class _Metadata:
    known: Mapping[str, Any] = field(default_factory=dict)
    until: float = 0.0


class SignIn:
    """Sign-in at the issuer of a page. Raises ``ValueError`` where there is none, or its file cannot be used."""

    def __init__(self, access: Access, *, now: Callable[[], float] = time.time) -> None:
        if access.page is None:
            raise ValueError("nobody can sign in to a page")
        self._client = access.page
        self._access = access
        self._redirect_uri = access.url(SIGNED_IN)
        self._now = now
        self._tls: ssl.SSLContext = authorities(self._client.issuer.ca_file)
        self._metadata = _Metadata()

    @property
    def issuer(self) -> str:
        """The issuer, as people know it."""
        return self._client.issuer.issuer

    async def begin(self, ticket_id: str, *, again: bool = False) -> Begun:
        """Return where to send a browser. ``again`` lets a person be somebody else. Raises ``NotSignedIn``."""
        metadata = await self._discovered()
        state, nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32), generate_token(48)
        try:
            authorize = endpoint(metadata, "authorization_endpoint", self._client.issuer)
        except NoAnswer as answer:
            raise self._unanswered(answer) from None
        more = {"prompt": "login"} if again else {}
        async with self._http() as http:
            url, _ = http.create_authorization_url(
                authorize, state=state, nonce=nonce, code_verifier=verifier, resource=self._access.resource, **more
            )
        return Begun(url, f"{state}.{nonce}.{verifier}.{ticket_id}")

    async def finish(self, kept: str, answer: Mapping[str, str]) -> tuple[Principal, str]:
        """Return who has signed in, and the ticket that they came for. Raises ``NotSignedIn``."""
        found = _KEPT.fullmatch(kept)
        if found is None or not hmac.compare_digest(answer.get("state", "").encode(), found[1].encode()):
            raise NotSignedIn("this sign-in was not begun in this browser, or is over", "sign in again", 400)
        _, nonce, verifier, ticket_id = found.groups()
        metadata = await self._discovered()
        self._check_issuer(answer, metadata)
        if "error" in answer:
            said = words(answer["error"], 60)
            raise NotSignedIn(f"the issuer did not sign you in: it says `{said}`", "sign in again, and allow it")
        token = await self._exchange(metadata, answer.get("code", ""), verifier)
        access_token = token.get("access_token")
        if not isinstance(access_token, str):
            raise NotSignedIn("the issuer gave no access token", "sign in again")
        try:
            check_id_token(
                token.get("id_token"),
                self._client.issuer,
                await self._keys(metadata),
                client_id=self._client.client_id,
                nonce=nonce,
                access_token=access_token,
                now=self._now(),
            )
        except IdTokenRefused as refused:
            _log.warning("nobody was signed in: the ID token: %s", refused)
            raise NotSignedIn("what the issuer says of you cannot be believed", "sign in again") from None
        return await self._person(access_token), ticket_id

    def _check_issuer(self, answer: Mapping[str, str], metadata: Mapping[str, Any]) -> None:
        """Hold an answer to be from the issuer that was asked: RFC 9207, section 2.4."""
        promised = metadata.get("authorization_response_iss_parameter_supported") is True
        if answer.get("iss", None if promised else self.issuer) != self.issuer:
            raise NotSignedIn("the answer is from another issuer than was asked", "sign in again", 400)

    async def _exchange(self, metadata: Mapping[str, Any], code: str, verifier: str) -> Mapping[str, Any]:
        try:
            url = endpoint(metadata, "token_endpoint", self._client.issuer)
            with anyio.fail_after(_REQUEST_SECONDS):
                async with self._http() as http:
                    token: Mapping[str, Any] = await http.fetch_token(
                        url, code=code, code_verifier=verifier, resource=self._access.resource
                    )
        except NoAnswer as answer:
            raise self._unanswered(answer) from None
        except OAuthError as error:
            _log.warning("nobody was signed in: the token endpoint says %s", words(error.error, 60))
            raise NotSignedIn("the issuer gave nothing for its answer", "sign in again") from None
        except (httpx2.HTTPError, TimeoutError, ValueError, TypeError) as error:  # no answer, or none in JSON
            _log.warning("nobody was signed in: the token endpoint: %s", type(error).__name__)
            raise NotSignedIn("the issuer does not answer", "try again in a while", 502) from None
        return token

    async def _person(self, access_token: str) -> Principal:
        """Return whom the access token is of, with what they may do. Raises ``NotSignedIn``."""
        try:
            verified = await self._access.verifier.verify(access_token)
        except TokenRefused as refused:
            _log.warning("nobody was signed in: the access token: %s", refused)
            raise NotSignedIn(
                f"the issuer's access token is not for here: {refused}",
                "the operator has to mend the issuer or its settings here: docs/approvals.md",
            ) from None
        except IssuerUnavailable:
            raise NotSignedIn("the issuer does not answer", "try again in a while", 502) from None
        principal = verified.principal
        if principal.issuer != self.issuer:
            raise NotSignedIn("the access token is of another issuer", "sign in again")
        if verified.key_thumbprint is not None:
            raise NotSignedIn("the access token is bound to a key that this page does not have", "sign in again")
        if not principal.holds(Scope.APPROVE, self._now()):
            who = words(principal.subject, 100)
            raise NotSignedIn(
                f"you are signed in as {who}, who may not approve here",
                f"approving needs the scope `{self._client.issuer.word(Scope.APPROVE)}`: be somebody else, or ask your "
                "operator for it; and allow it when the issuer asks",
                person=principal,
            )
        return principal

    async def _discovered(self) -> Mapping[str, Any]:
        if self._now() >= self._metadata.until:
            http = IssuerHttp(self._tls, _REQUEST_SECONDS)
            try:
                self._metadata = _Metadata(await discover(http, self._client.issuer), self._now() + _METADATA_SECONDS)
            except NoAnswer as answer:
                raise self._unanswered(answer) from None
            finally:
                await http.aclose()
        return self._metadata.known

    async def _keys(self, metadata: Mapping[str, Any]) -> KeySet:
        """Return the issuer's keys as they are now. Raises ``NotSignedIn``."""
        section = self._client.issuer
        http = IssuerHttp(self._tls, _REQUEST_SECONDS)
        try:
            answer = await http.get(section.jwks_url or endpoint(metadata, "jwks_uri", section))
        except NoAnswer as no_answer:
            raise self._unanswered(no_answer) from None
        finally:
            await http.aclose()
        published = answer.get("keys")
        if not isinstance(published, list):
            raise self._unanswered(no_key_set())
        return KeySet(read_keys(published, frozenset(section.algorithms), KeySet(()))[0])

    def _http(self) -> Any:
        """Return Authlib's client: to one issuer, without redirects, proxies and cookies of anybody's."""
        secret = self._client.secret
        return AsyncOAuth2Client(
            self._client.client_id,
            secret,
            token_endpoint_auth_method=_basic if secret else "none",
            scope=f"openid {self._client.issuer.word(Scope.APPROVE)}",
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            verify=self._tls,
            trust_env=False,
            follow_redirects=False,
            timeout=_REQUEST_SECONDS,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [bounded]},
        )

    def _unanswered(self, answer: NoAnswer) -> NotSignedIn:
        _log.warning("nobody was signed in: %s", answer.told())
        where = urlsplit(self.issuer).netloc
        return NotSignedIn(f"the issuer at {where} does not answer as it should", "try again in a while", 502)


def _basic(client: Any, _method: str, uri: str, headers: Any, body: Any) -> tuple[str, Any, Any]:
    """Authenticate as RFC 6749, section 2.3.1, has it: Authlib's own leaves out the encoding of id and secret."""
    headers["Authorization"] = basic_credentials(client.client_id, client.client_secret)
    return uri, headers, body

"""One sign-in in a browser, by the SDK's OAuth client: discovery, registration, PKCE, the exchange, the step-up.

Here it is given a challenge that asks for all that is wanted, and what it sends and hears is looked at on its way: it
goes over TLS, to the issuer that the server names, and an issuer's refusal is put in words.
"""

import json
import logging
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import is_valid_client_metadata_url, validate_authorization_response_iss
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from guideway.server.section import is_loopback
from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.challenge import Challenge
from guideway.server.sign_in.entry import Entry, Secrets, end_of
from guideway.server.sign_in.errors import DeclinedError, SignInError, WrongUsageError, theirs
from guideway.server.sign_in.redirect import Redirect, listen
from guideway.server.sign_in.servers import client, explain, require_private, said
from guideway.server.sign_in.session import Session, metadata

# It logs what it raises, with a trace: what servers said, and what was read of an answer with tokens in it.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

#: What an issuer may be asked for, and leave out, without a program noticing.
OFFLINE: Final = "offline_access"


class Wish:
    """How a person wants to sign in: for which scopes, where not for those that the server names; as which client.

    ``port`` is where the browser comes back to, for an issuer that knows this client with a port.
    """

    def __init__(
        self,
        scopes: tuple[str, ...] = (),
        *,
        client_id: str | None = None,
        client_metadata_url: str | None = None,
        port: int | None = None,
    ) -> None:
        if client_metadata_url is not None and not is_valid_client_metadata_url(client_metadata_url):
            raise WrongUsageError(
                f"`{theirs(client_metadata_url)}` cannot be a client id", "it is the https URL of a document"
            )
        self.scopes = scopes
        self.client_id = client_id
        self.client_metadata_url = client_metadata_url
        self.port = port


async def sign_in(session: Session, challenge: Challenge, person: Person, wish: Wish | None = None) -> Entry:
    """Let a person sign in for what a challenge asks, and keep what comes of it. Raises ``SignInError``."""
    wish = wish or Wish()
    session.store.try_out()
    kept = session.store.read(session.server)
    known = _known_client(kept, wish)
    refused: SignInError | None = None
    async with listen(wish.port or _port(known), exactly=wish.port is not None) as redirect:
        # A client that was registered for a port that is taken is registered anew: not every issuer lets the port of
        # a loopback address differ (RFC 8252, section 7.3).
        if known is not None and known.redirect_uris and redirect.uri not in map(str, known.redirect_uris):
            known = None
        attempt = _Attempt(
            session=session, kept=kept, challenge=challenge, person=person, wish=wish, redirect=redirect, known=known
        )
        try:
            entry = await attempt.made()
            await session.keep(entry)
            redirect.end(worked=True)
        except SignInError as error:  # kept until here, so that it comes in no group
            refused = error
        finally:
            person.forget()
    if refused is not None:
        raise refused
    return entry


def asked_for(challenge: Challenge, entry: Entry | None) -> tuple[str, ...]:
    """Return the scopes to ask for: a step-up loses none that were granted."""
    granted = entry.scopes if entry is not None and challenge.wants_more else ()
    return tuple(dict.fromkeys((*granted, *challenge.scopes)))


async def _require_same(server: str, resource: str | None) -> None:
    """Raise ``SignInError`` for a server that says it is another one: RFC 9728, section 3.3."""
    if resource is None or check_resource_allowed(
        requested_resource=resource_url_from_server_url(server), configured_resource=resource
    ):
        return
    said = theirs(resource)
    here, there = urlsplit(server), urlsplit(resource)
    mend = "is it the right URL? if so, its operator has to mend `url` of [server]"
    if here.port == there.port and is_loopback(here.hostname or "") and is_loopback(there.hostname or ""):
        mend = f"sign in there: guideway login {said}"  # another spelling, and tokens are for one
    raise SignInError(f"`{server}` does not match the name that the server has for itself, `{said}`", mend)


def _known_client(kept: Entry | None, wish: Wish) -> OAuthClientInformationFull | None:
    """Return the client that the issuer knows already, None where it is still to be registered."""
    if wish.client_id is not None:
        return OAuthClientInformationFull(client_id=wish.client_id, token_endpoint_auth_method="none")  # noqa: S106
    if kept is None or wish.client_metadata_url not in (None, kept.client.client_id):
        return None
    return kept.client


def _port(known: OAuthClientInformationFull | None) -> int:
    """Return the port that a client was registered with; 0 for any."""
    return next((uri.port or 0 for uri in (known.redirect_uris if known else None) or ()), 0)


class _Attempt:
    """One attempt, and what the SDK's client keeps while it is made. Nothing is on disk before it has worked."""

    def __init__(
        self,
        *,
        session: Session,
        kept: Entry | None,
        challenge: Challenge,
        person: Person,
        wish: Wish,
        redirect: Redirect,
        known: OAuthClientInformationFull | None,
    ) -> None:
        self._client = known
        self._session = session
        self._kept = kept
        self._challenge = challenge
        self._person = person
        self._wish = wish
        self._redirect = redirect
        self._tokens: OAuthToken | None = None
        self._provider = OAuthClientProvider(
            session.server,
            metadata(redirect.uri),
            self,
            self._send_person,
            self._person_is_back,
            client_metadata_url=wish.client_metadata_url or (kept.client_metadata_url if kept else None),
            validate_resource_url=_require_same,
        )

    async def made(self) -> Entry:
        """Make the attempt; return what came of it."""
        try:
            await self._drive()
        except (OAuthTokenError, OAuthRegistrationError, OverflowError):
            # The texts of the first two quote the answer; the third is of a lifetime that is no number of seconds.
            raise SignInError("the issuer gave an answer that cannot be used") from None
        except OAuthFlowError as error:
            raise SignInError(f"signing in at `{self._session.server}` did not work: {theirs(error)}") from None
        except httpx2.TransportError as error:
            raise explain(error, self._session.server) or error from None
        tokens, registered = self._tokens, self._provider.context.client_info
        if tokens is None or registered is None:
            raise SignInError("the issuer gave no token")
        issuer, _ = self._discovered()
        url = self._provider.context.client_metadata_url
        return Entry(
            server=self._session.server,
            resource=self._provider.context.get_resource_url(),
            metadata=issuer,
            client_metadata_url=url if registered.client_id == url else None,
            expires_at=end_of(tokens),
            secrets=Secrets(tokens=tokens, client=registered),
        )

    async def _drive(self) -> None:
        """Give the SDK's client the challenge, and send what it wants sent until it has its tokens."""
        request = httpx2.Request("POST", self._session.server)
        flow = self._provider.async_auth_flow(request)
        try:
            async with client(self._session.server, self._session.ca_file) as http:
                await anext(flow)  # the request itself, whose answer is the challenge
                asked = self._wish.scopes or asked_for(self._challenge, self._kept)
                outgoing = await flow.asend(self._challenge.response(request, asked))
                while outgoing is not request:
                    require_private(str(outgoing.url), self._session.server)
                    response = await http.send(self._widened(outgoing))
                    if outgoing.method == "POST" and response.status_code >= 400:
                        raise SignInError(f"`{self._discovered()[0].issuer}` refuses: {said(response)}")
                    outgoing = await flow.asend(response)
        except StopAsyncIteration:
            raise SignInError("the sign-in ended before there was a token") from None
        finally:
            await flow.aclose()

    def _widened(self, outgoing: httpx2.Request) -> httpx2.Request:
        """Return a registration for all scopes of the server: issuers hold a client to what it registered for.

        Every other request comes back as it is.
        """
        if outgoing.method != "POST" or outgoing.headers.get("Content-Type") != "application/json":
            return outgoing
        issuer, resource = self._discovered()
        if issuer.registration_endpoint is None:
            raise SignInError(
                f"`{issuer.issuer}` registers no clients by itself",
                "let its operator register one, and sign in with --client-id ID or --client-metadata-url URL",
            )
        registration = json.loads(outgoing.content)
        scopes = (registration.get("scope") or "").split() + list(resource.scopes_supported or ())
        registration["scope"] = " ".join(dict.fromkeys(scopes))
        return httpx2.Request("POST", outgoing.url, json=registration)

    def _discovered(self) -> tuple[OAuthMetadata, ProtectedResourceMetadata]:
        """Return what was found of the issuer and of the server, without which nothing is sent anywhere."""
        context = self._provider.context
        if context.protected_resource_metadata is None or context.oauth_metadata is None:
            what = "who issues its tokens" if context.protected_resource_metadata is None else "an issuer that answers"
            raise SignInError(f"`{self._session.server}` does not name {what}", "ask its operator: see RFC 9728")
        return context.oauth_metadata, context.protected_resource_metadata

    async def _send_person(self, url: str) -> None:
        issuer, _ = self._discovered()
        require_private(url, self._session.server)
        registered = self._provider.context.client_info
        if registered and self._wish.client_metadata_url not in (None, registered.client_id):
            raise SignInError(f"`{issuer.issuer}` takes no URL of a document as a client id", "leave it out")
        said_now = parse_qs(urlsplit(url).query)
        self._redirect.expect(said_now["state"][0])
        asked = "`, `".join(scope for scope in " ".join(said_now.get("scope", [])).split() if scope != OFFLINE)
        why = (
            f"this needs `{asked}`" if self._challenge.wants_more else f"sign in for `{asked}`" if asked else "sign in"
        )
        self._person.send(url, why)

    async def _person_is_back(self) -> AuthorizationCodeResult:
        forgets = None
        if self._client is not None and self._wish.client_id is None and self._kept is not None:
            forgets = f"guideway logout {self._session.server}"  # the client may be one that the issuer has forgotten
        answer = await self._person.answer(self._redirect, forgets)
        if answer.error is None and answer.code is not None:
            return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)
        validate_authorization_response_iss(answer.issuer, self._provider.context.oauth_metadata)
        what = ": ".join(theirs(text) for text in (answer.error, answer.description) if text)
        mend = None
        if answer.error == "invalid_scope":
            mend = f"a client that registers anew may ask: `guideway logout {self._session.server}`, and sign in again"
        raise DeclinedError(f"`{self._discovered()[0].issuer}` did not grant it: {what}", mend)

    async def get_tokens(self) -> OAuthToken | None:
        """Return what is kept: to a step-up the SDK's client adds what was granted."""
        return self._kept.tokens if self._kept is not None and self._challenge.wants_more else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens until all has worked."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that the issuer knows."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a client that was registered."""
        self._client = client_info

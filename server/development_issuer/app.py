"""The issuer's HTTP: its endpoints, and the guard in front of them. Rules of OAuth are ``authorization``'s.

The guard lets in only who asks for this machine by its address: a page of another name that points here (DNS
rebinding) is turned away, and so is whatever a front-end hands on from elsewhere.
"""

import json
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from authlib.oauth2 import JsonRequest, OAuth2Error
from authlib.oauth2.rfc6749 import JsonPayload
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from joserfc.jwk import KeySet
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Message as Event
from starlette.types import Scope as Connection

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, known_scopes
from guideway.server.development_issuer import pages
from guideway.server.development_issuer.authorization import Authorization, Decision
from guideway.server.development_issuer.client import GRANT_TYPES
from guideway.server.development_issuer.documents import ClientDocuments, DocumentRefused, is_document
from guideway.server.development_issuer.keys import ALGORITHM, public_keys
from guideway.server.development_issuer.messages import (
    MalformedRequest,
    Message,
    read_form,
    read_parameters,
)
from guideway.server.development_issuer.openid import SCOPE as OPENID
from guideway.server.development_issuer.sign_in import Session, SignIn, TooManyAttempts
from guideway.server.development_issuer.store import GRANT_SECONDS
from guideway.server.section import is_loopback

_PAGE: Final = "/authorize"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # not `no-referrer`: forms would then be posted with `Origin: null`
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def issuer_app(
    authorization: Authorization,
    sign_in: SignIn,
    documents: ClientDocuments,
    keys: KeySet,
    *,
    token_seconds: int,
) -> ASGIApp:
    """Return the application of an issuer, which is reached by its URL and in no other way."""
    consent = _Consent(authorization, sign_in, documents, token_seconds)
    clients = _Clients(authorization)
    metadata = server_metadata(authorization.issuer)

    def describe(_: Request) -> Response:
        return JSONResponse(metadata)

    def show_keys(_: Request) -> Response:
        return JSONResponse(public_keys(keys))

    routes = [
        Route("/.well-known/oauth-authorization-server", describe),
        Route("/.well-known/openid-configuration", describe),
        Route("/jwks", show_keys),
        Route(_PAGE, consent.show, methods=["GET"]),
        Route(_PAGE, consent.decide, methods=["POST"]),
        Route("/token", clients.token, methods=["POST"]),
        Route("/register", clients.register, methods=["POST"]),
        Route("/revoke", clients.revoke, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), authorization.issuer)


def server_metadata(issuer: str) -> dict[str, Any]:
    """Return the metadata of an issuer: RFC 8414, section 2, and OpenID Connect Discovery, section 3."""
    metadata = AuthorizationServerMetadata(
        issuer=issuer,
        authorization_endpoint=f"{issuer}{_PAGE}",
        token_endpoint=f"{issuer}/token",
        registration_endpoint=f"{issuer}/register",
        revocation_endpoint=f"{issuer}/revoke",
        jwks_uri=f"{issuer}/jwks",
        scopes_supported=[OPENID, *sorted(PROGRAM_SCOPES)],
        response_types_supported=["code"],
        response_modes_supported=["query"],
        grant_types_supported=list(GRANT_TYPES),
        token_endpoint_auth_methods_supported=["none"],
        revocation_endpoint_auth_methods_supported=["none"],
        code_challenge_methods_supported=["S256"],
        authorization_response_iss_parameter_supported=True,
        client_id_metadata_document_supported=True,
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=[ALGORITHM],
    )
    metadata.validate()
    return dict(metadata)


class _Consent:
    """The page: sign in, say who you are, allow or deny. Nothing of a request is looked at before that."""

    def __init__(
        self, authorization: Authorization, sign_in: SignIn, documents: ClientDocuments, token_seconds: int
    ) -> None:
        self._authorization = authorization
        self._sign_in = sign_in
        self._documents = documents
        self._token_seconds = token_seconds
        self._cookie = f"guideway_issuer_{urlsplit(authorization.issuer).port}"

    async def show(self, request: Request) -> Response:
        """Answer GET with the page that is next."""
        query = _query(request)
        session = self._session(request)
        if session is None:
            return pages.sign_in_page(f"{_PAGE}?{query}")
        if session.person is None:
            return pages.person_page(f"{_PAGE}?{query}", session.stamp(query), self._authorization.people)
        try:
            message, grant = await self._read(request, query)
        except (MalformedRequest, DocumentRefused) as refusal:
            return _refused(refusal)
        except OAuth2Error as error:
            return self._refuse(error)
        asked, held = self._scopes(grant, session.person)
        return pages.consent_page(
            f"{_PAGE}?{query}",
            session.stamp(query),
            client_id=grant.client.client_id,
            client_name=grant.client.metadata.client_name,
            redirect_uri=message.form["redirect_uri"],
            resource=self._authorization.resource,
            person=session.person,
            grantable=[scope for scope in Scope if scope in asked & held],
            beyond=[scope for scope in Scope if scope in asked - held],
            seconds=self._token_seconds,
            renewable_days=GRANT_SECONDS // 86_400 if grant.client.check_grant_type("refresh_token") else 0,
            others=len(self._authorization.people) > 1,
        )

    async def decide(self, request: Request) -> Response:
        """Answer a form of one of the pages."""
        query = _query(request)
        if request.headers.get("origin", self._authorization.issuer) != self._authorization.issuer:
            return pages.error_page("A form of another site was sent here", status=403)
        try:
            form = parse_qs(await read_form(request), max_num_fields=20)
        except ValueError:
            return pages.error_page("The form cannot be read")
        step, again = _one(form, "step"), RedirectResponse(f"{_PAGE}?{query}", 303)
        if step == "code":
            return await self._open(_one(form, "code"), f"{_PAGE}?{query}", again)
        session = self._session(request)
        if session is None:
            return again
        if not session.knows(_one(form, "stamp"), query):
            return pages.error_page("The form is not one of this page", status=403)
        if step == "person" and _one(form, "person") in self._authorization.people:
            session.person = _one(form, "person")
        elif step == "leave":
            session.person = None
        elif step == "decision" and session.person is not None:
            allowed = known_scopes(form.get("scope", [])) if _one(form, "decision") == "allow" else frozenset()
            return await self._answer(request, query, session.person, allowed)
        return again

    async def _open(self, code: str, action: str, again: Response) -> Response:
        try:
            cookie = await self._sign_in.open(code)
        except TooManyAttempts as attempts:
            page = pages.error_page("That is not the code, and many others were not: wait a moment", status=429)
            page.headers["Retry-After"] = str(attempts.retry_after)
            return page
        if cookie is None:
            return pages.sign_in_page(action, wrong=True)
        again.set_cookie(self._cookie, cookie, httponly=True, samesite="lax", path=_PAGE)
        return again

    async def _answer(self, request: Request, query: str, person: str, allowed: frozenset[Scope]) -> Response:
        try:
            message, grant = await self._read(request, query)
        except (MalformedRequest, DocumentRefused) as refusal:
            return _refused(refusal)
        except OAuth2Error as error:
            return self._refuse(error)
        asked, held = self._scopes(grant, person)
        granted = allowed & asked & held
        decision = Decision(person, granted) if granted else None
        return self._authorization.answer(message, decision, grant)

    async def _read(self, request: Request, query: str) -> tuple[Message, Any]:
        message = Message(request, read_parameters(query))
        client_id = message.form.get("client_id", "")
        if is_document(client_id):
            self._authorization.store.keep_client(await self._documents.client(client_id))
        return message, self._authorization.consent(message)

    def _scopes(self, grant: Any, person: str) -> tuple[frozenset[Scope], frozenset[Scope]]:
        asked = known_scopes(grant.request.scope.split(" "))
        return asked, self._authorization.people.get(person, frozenset())

    def _refuse(self, error: OAuth2Error) -> Response:
        if error.redirect_uri:
            return self._authorization.refusal(error)
        return pages.error_page(str(error.get_error_description() or error.error).rstrip("."))

    def _session(self, request: Request) -> Session | None:
        session = self._sign_in.session(request.cookies.get(self._cookie))
        if session is not None and session.person is None and len(self._authorization.people) == 1:
            session.person = next(iter(self._authorization.people))
        return session


class _Clients:
    """The endpoints that programs ask. Their errors are JSON (RFC 6749, section 5.2)."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    async def token(self, request: Request) -> Response:
        """Answer the token endpoint (RFC 6749, section 3.2)."""
        try:
            message = Message(request, read_parameters(await read_form(request)))
        except MalformedRequest as refusal:
            return _error("invalid_request", str(refusal))
        return self._authorization.exchange(message)

    async def revoke(self, request: Request) -> Response:
        """Answer the revocation endpoint (RFC 7009)."""
        try:
            message = Message(request, read_parameters(await read_form(request)))
        except MalformedRequest as refusal:
            return _error("invalid_request", str(refusal))
        return self._authorization.endpoint("revocation", message)

    async def register(self, request: Request) -> Response:
        """Answer the registration endpoint (RFC 7591). A page of a site elsewhere cannot register a client here."""
        origin = request.headers.get("origin")
        if origin is not None and not _is_local(origin):
            return _error("access_denied", "only pages of this machine can register", status=403)
        try:
            given = json.loads(await read_form(request, "application/json"))
        except MalformedRequest as refusal:
            return _error("invalid_client_metadata", str(refusal))
        except (ValueError, RecursionError):
            return _error("invalid_client_metadata", "the body is not JSON")
        message = JsonRequest(request.method, str(request.url), request.headers)
        message.payload = _Given(given)
        return self._authorization.endpoint("client_registration", message)


class _Given(JsonPayload):
    def __init__(self, given: Any) -> None:
        self._given = given

    @property
    def data(self) -> Any:
        return self._given


class _Guard:
    """Lets in who asks for the issuer's own address, and gives every answer the headers that browsers heed.

    Pages of this machine, such as a client in a browser, may read what programs are told (CORS), and no others.
    """

    def __init__(self, app: ASGIApp, issuer: str) -> None:
        self._app = app
        self._authority = urlsplit(issuer).netloc

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served")
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        readable = origin is not None and scope["path"] != _PAGE and _is_local(origin)

        async def send_guarded(event: Event) -> None:
            if event["type"] == "http.response.start":
                sent = MutableHeaders(scope=event)
                for name, value in _HEADERS.items():
                    sent.setdefault(name, value)
                sent["Vary"] = "Origin"
                if readable:
                    sent["Access-Control-Allow-Origin"] = str(origin)
            await send(event)

        app = self._app
        if headers.getlist("host") != [self._authority] or len(headers.getlist("origin")) > 1:
            app = PlainTextResponse(f"this is {self._authority}, and nothing else", 421)
        elif any(name in headers for name in _FORWARDED):
            app = PlainTextResponse("the development issuer is not reached through a front-end", 403)
        elif scope["method"] == "OPTIONS" and readable:
            allows = {"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "*"}
            app = Response(status_code=204, headers=allows)
        await app(scope, receive, send_guarded)


def _is_local(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _query(request: Request) -> str:
    query: bytes = request.scope["query_string"]
    return query.decode("ascii", errors="replace")  # what is no query is told so when it is read


def _one(form: dict[str, list[str]], name: str) -> str:
    values = form.get(name, [])
    return values[0] if len(values) == 1 else ""


def _refused(refusal: MalformedRequest | DocumentRefused) -> Response:
    about = "The client cannot be known: " if isinstance(refusal, DocumentRefused) else ""
    return pages.error_page(f"{about}{refusal}")


def _error(code: str, description: str, *, status: int = 400) -> Response:
    return JSONResponse({"error": code, "error_description": description}, status)

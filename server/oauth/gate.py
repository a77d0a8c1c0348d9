"""The gate in front of the protocol: no request comes in without a token that was verified.

It decides who is asking, and answers those it does not let in. A call whose program needs more scopes than the token
has is challenged here, because no answer of the protocol can be one. That is a convenience for clients; safety is the
pipeline's, which checks every program whole and every node again. So a call that the gate cannot read it passes on,
and a token that it cannot check it refuses. It logs no token, and no part of one.
"""

import logging
import re
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.authentication import AuthCredentials
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from guideway.dsl.errors import Code
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.server.door_watch import DoorWatch, TokenCheck
from guideway.server.message import read_message
from guideway.server.oauth.access import Access
from guideway.server.oauth.challenge import Challenges, Scheme
from guideway.server.oauth.dpop import STORE_SECONDS, ProofRefused, Proofs, Shared
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.oauth.sdk_token import sdk_token
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused, Verified
from guideway.server.proxies import client_address
from guideway.server.recorded import CALLER, asked_for
from guideway.server.run_log import log_not_let_in, log_scopes_missing
from guideway.server.sections import ENDPOINT

MOST_TOKEN_BYTES: Final = 16_384
"""The longest token that is looked at."""

CHECK_SECONDS: Final = 30.0
"""Seconds after which the token of a stream that is kept open is verified again."""

_log: Final = logging.getLogger(__name__)
#: RFC 9110, section 11.4: a scheme in any case, then one token68.
_CREDENTIALS: Final = re.compile(rb"(?:bearer|dpop) +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_SCHEME: Final = re.compile(rb"(bearer|dpop)(?![^ ,])", re.IGNORECASE)
_SCHEMES: Final = {scheme.lower().encode(): scheme for scheme in Scheme}
_CHECKS: Final = {500: TokenCheck.ERROR, 503: TokenCheck.UNAVAILABLE}


class Gate:
    """ASGI middleware. ``public`` are the paths that need no token, ``guarded`` those that do; nothing else is there.

    A path that ends in a slash stands for everything below it. Each guarded one has the scopes of which a token must
    have any. ``required_scopes`` gives the scopes that the program of a ``tools/call`` needs, by the call's
    ``params``; none where it finds no program, and ``record_challenged`` records a call that lacks one. ``proofs`` is
    what replicas remember of them together, None where there is but one.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        public: Collection[str],
        guarded: Mapping[str, frozenset[Scope]],
        required_scopes: Callable[[object], frozenset[Scope]],
        proofs: Shared | None = None,
        refusals: RefusalLog | None = None,
        record_challenged: Callable[[Principal, object], None] = lambda _caller, _call: None,
        watch: DoorWatch | None = None,
    ) -> None:
        self._app = app
        self._known = AuthContextMiddleware(app)
        self._access = access
        self._challenges = Challenges(access)
        self._proofs = Proofs(proofs)
        self._refusals = refusals or RefusalLog()
        self._public = _Places(dict.fromkeys(public, frozenset[Scope]()))
        self._guarded = _Places(guarded)
        self._required_scopes = required_scopes
        self._record_challenged = record_challenged
        self._watch = watch

    async def __call__(self, request: Request, receive: Receive, send: Send) -> None:
        if request["type"] == "lifespan" or (request["type"] == "http" and request["path"] in self._public):
            await self._app(request, receive, send)
            return
        any_of = self._guarded.find(request["path"]) if request["type"] == "http" else None
        if any_of is None:
            await PlainTextResponse("Not Found", 404)(request, receive, send)
        else:
            await self._guard(request, receive, send, any_of)

    async def _guard(self, request: Request, receive: Receive, send: Send, any_of: frozenset[Scope]) -> None:
        shown = self._shown(request)
        if isinstance(shown, Response):
            self._checked(TokenCheck.REFUSED if _shows_one(request) else TokenCheck.MISSING)
            await shown(request, receive, send)
            return
        scheme, token = shown
        verified = await self._verify(request, scheme, token)
        if isinstance(verified, Response):
            self._checked(_CHECKS.get(verified.status_code, TokenCheck.REFUSED))
            await verified(request, receive, send)
            return
        request[CALLER] = verified.principal
        held = verified.principal.scopes
        if held.isdisjoint(any_of):
            self._checked(TokenCheck.INSUFFICIENT_SCOPE)
            self._refusals.note_caller(
                verified.principal,
                Code.INSUFFICIENT_SCOPE,
                f"any of {scope_list(any_of)} is needed",
                partial(log_not_let_in, verified.principal, any_of),
                facts={"asked": asked_for(request)},
            )
            await self._challenges.insufficient_scope(verified, scheme, self._first(request))(request, receive, send)
            return
        if request["method"] == "POST" and request["path"] == ENDPOINT and not held >= PROGRAM_SCOPES:
            body, receive = await _read(receive)
            call = _call(body, request)
            required = self._required_scopes(call)
            if not held >= required:
                self._checked(TokenCheck.INSUFFICIENT_SCOPE)
                self._note_challenge(verified.principal, call, required)
                await self._challenges.insufficient_scope(verified, scheme, required)(request, receive, send)
                return
        self._checked(TokenCheck.ACCEPTED)
        known = sdk_token(token, verified, self._access.resource)
        request["user"], request["auth"] = AuthenticatedUser(known), AuthCredentials(known.scopes)
        if request["method"] == "GET":
            await self._stream(shown, verified, request, receive, send)
        else:
            await self._known(request, receive, send)

    def _checked(self, result: TokenCheck) -> None:
        if self._watch is not None:
            self._watch.checked(result)

    def _note_challenge(self, caller: Principal, call: object, required: frozenset[Scope]) -> None:
        def tell() -> None:
            log_scopes_missing(caller, required)
            self._record_challenged(caller, call)

        why = f"{scope_list(required)} is needed"
        self._refusals.note_caller(caller, Code.INSUFFICIENT_SCOPE, why, tell, recorded=True)

    def _first(self, request: Request) -> frozenset[Scope]:
        """Return what somebody is asked for who has none of the scopes of a path: the least of them."""
        any_of = self._guarded.find(request["path"]) or PROGRAM_SCOPES
        return frozenset([next(scope for scope in Scope if scope in any_of)])

    def _shown(self, request: Request) -> tuple[Scheme, str] | Response:
        """Return the scheme and the token that a request shows, or the answer where that is not exactly one."""
        query = request["query_string"]
        if query and any(name.lower() == "access_token" for name, _ in parse_qsl(query.decode("latin-1"), True)):
            return self._invalid(request, "a token belongs into the Authorization header, never into a URL")
        values = [value for name, value in request["headers"] if name == b"authorization"]
        if len(values) > 1:
            return self._invalid(request, "there is more than one Authorization header")
        if not values:  # as every sign-in begins
            self._refusals.note("a request", "it shows no token", client_address(request), code="no_token", most=1)
            return self._challenges.no_token(self._first(request))
        if not (begins := _SCHEME.match(values[0])):
            why = "its Authorization header has another scheme than Bearer and DPoP"
            self._refusals.note("a request", why, client_address(request), code="no_token")
            return self._challenges.no_token(self._first(request))
        scheme = _SCHEMES[begins[1].lower()]
        if len(values[0]) > MOST_TOKEN_BYTES:
            return self._refused(request, "the token is too long", scheme)
        found = _CREDENTIALS.fullmatch(values[0])
        if not found:
            return self._refused(request, "the token is malformed", scheme)
        return scheme, found[1].decode("ascii")

    def _invalid(self, request: Request, why: str) -> Response:
        self._refusals.note("a token", why, client_address(request), code="invalid_request")
        return self._challenges.invalid_request(why)

    def _refused(self, request: Request, why: str, scheme: Scheme) -> Response:
        self._refusals.note("a token", why, client_address(request))
        return self._challenges.invalid_token(why, scheme, self._first(request))

    async def _verify(self, request: Request, scheme: Scheme, token: str) -> Verified | Response:
        """Return the caller, or the answer where there is none. Whatever goes wrong, nobody is let in for it."""
        proves = scheme
        try:
            verified = await self._access.verifier.verify(token)
            proves = Scheme.DPOP if verified.key_thumbprint else scheme
            await self._check_binding(request, scheme, token, verified)
        except ProofRefused as refused:
            self._refusals.note("a proof", str(refused), client_address(request))
            return self._challenges.invalid_proof(str(refused))
        except TokenRefused as refused:
            self._refusals.note("a token", str(refused), client_address(request))
            return self._challenges.invalid_token(str(refused), proves, self._first(request))
        except IssuerUnavailable as error:
            self._refusals.note("a token", str(error), client_address(request), code="issuer_unavailable")
            return self._challenges.unavailable(error)
        except StoreUnavailable as error:
            self._refusals.note(
                "a proof", f"whether it is new cannot be said, the store: {error}", client_address(request)
            )
            told = IssuerUnavailable("whether the proof was used before cannot be said now", STORE_SECONDS)
            return self._challenges.unavailable(told)
        except Exception as error:  # noqa: BLE001  # an error of this program, which must let nobody in
            # Without the error's own words: what failed on a token may quote it.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("a token could not be checked: %s\n%s", type(error).__name__, where)
            self._refusals.note("a token", "it could not be checked", client_address(request), code="internal_error")
            return self._challenges.broken()
        return verified

    async def _check_binding(self, request: Request, scheme: Scheme, token: str, verified: Verified) -> None:
        """Hold a token to the key that it is bound to: RFC 9449, section 7.

        Raises ``TokenRefused``, ``ProofRefused``, and where no more proofs can be remembered ``IssuerUnavailable``, or
        ``StoreUnavailable``.
        """
        if verified.key_thumbprint is None:
            if scheme is Scheme.DPOP:
                raise TokenRefused("the token is bound to no key, so that its scheme is Bearer")
            if verified.issuer.dpop == "required":
                raise TokenRefused("the token is bound to no key, and this resource asks for that")
        elif scheme is not Scheme.DPOP:
            raise TokenRefused("the token is bound to a key, so that its scheme is DPoP")
        else:
            await self._proofs.require(
                [value.decode("latin-1") for name, value in request["headers"] if name == b"dpop"],
                method=request["method"],
                url=self._access.url(request["path"]),
                token=token,
                key_thumbprint=verified.key_thumbprint,
            )

    async def _stream(
        self, shown: tuple[Scheme, str], verified: Verified, request: Request, receive: Receive, send: Send
    ) -> None:
        """Answer a GET, and end the answer when its token is good no more: a stream may stay open for days.

        Its client asks again, with the token that it has then.
        """
        scheme, token = shown
        refused: str | None = None
        begun = ended = False

        async def watch(message: Message) -> None:
            nonlocal begun, ended
            begun, ended = True, message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                nonlocal refused
                refused = await self._until_refused(token, verified)
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            with suppress(ClientDisconnect):  # nobody is left to answer, and the group would wrap it
                await self._known(request, receive, watch)
            tasks.cancel_scope.cancel()
        if refused is not None and not begun:
            await self._challenges.invalid_token(refused, scheme, self._first(request))(request, receive, send)
        elif refused is not None and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_refused(self, token: str, verified: Verified) -> str:
        """Return why, when a token has expired, does not verify any more, or stands for other rights than before.

        One that cannot be checked is refused here as it is at a request.
        """
        expires_at = verified.principal.expires_at
        ends = float("inf") if expires_at is None else expires_at
        held = verified.principal.scopes, verified.principal.tenant
        while (left := ends - time.time()) > 0:
            await anyio.sleep(min(left, CHECK_SECONDS))
            if time.time() >= ends:
                break
            try:
                now = await self._access.verifier.verify(token)
            except (TokenRefused, IssuerUnavailable) as error:
                _log.info("ended a stream: %s", error)
                return "the token is not good any more"
            except Exception as error:  # noqa: BLE001  # as in ``_verify``
                _log.error("ended a stream, its token could not be checked: %s", type(error).__name__)
                return "the token is not good any more"
            if (now.principal.scopes, now.principal.tenant) != held:
                return "the token stands for other rights than before"
        return "the token has expired"


def _shows_one(request: Request) -> bool:
    return any(name == b"authorization" for name, _ in request["headers"])


class _Places:
    """What is kept by path, or by the beginning of paths where that ends in a slash."""

    def __init__(self, by_path: Mapping[str, frozenset[Scope]]) -> None:
        self._by_path = by_path
        self._below = {path: scopes for path, scopes in by_path.items() if path.endswith("/")}

    def find(self, path: str) -> frozenset[Scope] | None:
        """Return what is kept for a path, None where nothing is."""
        found = self._by_path.get(path)
        if found is not None or not self._below:
            return found
        return next((scopes for begin, scopes in self._below.items() if path.startswith(begin)), None)

    def __contains__(self, path: str) -> bool:
        return self.find(path) is not None


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """Return a request's body, and a ``receive`` that gives all of it again, as it came. Its size is bounded before."""
    messages: list[Message] = []
    body = bytearray()
    while not messages or messages[-1].get("more_body", False):
        messages.append(await receive())
        body += messages[-1].get("body", b"")
    messages.reverse()

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return bytes(body), again


def _call(body: bytes, request: Request) -> object:
    """Return the ``params`` of a body that is a ``tools/call``; None for any other.

    A batch, which no revision served here has, is refused by the SDK.
    """
    try:
        message = read_message(body, request)
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("method") != "tools/call" or "id" not in message:
        return None
    return message.get("params")

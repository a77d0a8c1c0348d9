"""Where a request gets its place: behind the gate, which knows the caller, and in front of the protocol.

Only what asks for an answer takes one. A note to the server, such as that a call is cancelled, an answer to a question
of its own, and a stream that is kept open have a rate alone: what ends or decides a call must get through where no more
begin.
"""

import logging
from collections.abc import Hashable
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from guideway.interpreter.principal import Principal
from guideway.server.load import PLACE, Load
from guideway.server.message import read_message
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.oauth.sdk_token import VerifiedToken
from guideway.server.proxies import client_address
from guideway.server.run_log import who
from guideway.server.sections import ENDPOINT
from guideway.server.too_much import TooMuch

_log: Final = logging.getLogger(__name__)


class Admission:
    """ASGI middleware: 429 and 503 for what is too much. ``tokens`` is whether callers show one.

    Where they do, a request without a caller is for a path that anybody may ask, and not counted here.
    """

    def __init__(self, app: ASGIApp, *, load: Load, tokens: bool, refusals: RefusalLog | None = None) -> None:
        self._app = app
        self._load = load
        self._tokens = tokens
        self._refusals = refusals or RefusalLog()

    async def __call__(self, request: Request, receive: Receive, send: Send) -> None:
        principal = _principal(request) if request["type"] == "http" else None
        if request["type"] != "http" or (self._tokens and principal is None):
            await self._app(request, receive, send)
            return
        caller = None if principal is None else caller_key(principal)
        identifier: object = None
        try:
            if request["path"] != ENDPOINT:
                place = await self._load.place(caller)
            elif request["method"] == "POST":
                body, receive = await _read(receive)
                asks, identifier = _asks(body, request)
                if not asks:
                    self._load.note(caller)
                    await self._app(request, receive, send)
                    return
                place = await self._load.place(caller)
            else:
                self._load.note(caller)
                await self._app(request, receive, send)
                return
        except TooMuch as too_much:
            self._note(request, principal, too_much)
            await too_much.response(identifier)(request, receive, send)
            return
        token = PLACE.set(place)
        try:
            await self._app(request, receive, send)
        finally:
            PLACE.reset(token)
            place.close()

    def _note(self, request: Request, principal: Principal | None, too_much: TooMuch) -> None:
        if principal is None:
            self._refusals.note("a request", str(too_much), client_address(request))
            return

        def log() -> None:
            _log.info("not now: %s; %s", too_much, who(principal))

        self._refusals.note_caller(principal, too_much.bound, str(too_much), log)


def caller_key(caller: Principal) -> Hashable:
    """Return what a caller is counted by: whoever it is, through whichever client and with whichever token."""
    return caller.issuer, caller.subject, caller.tenant


def _principal(request: Request) -> Principal | None:
    """Return whose token the gate has verified."""
    user = request.get("user")
    token = user.access_token if isinstance(user, AuthenticatedUser) else None
    return token.verified.principal if isinstance(token, VerifiedToken) else None


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """Return a request's body, which comes in one piece, and a ``receive`` that gives it again."""
    first: list[Message] = [await receive()]
    body: bytes = first[0].get("body", b"")

    async def again() -> Message:
        return first.pop() if first else await receive()

    return body, again


def _asks(body: bytes, request: Request) -> tuple[bool, object]:
    """Return whether a body asks for an answer, and the id of that request.

    What cannot be read counts as asking: nobody gets past their bounds by what only the protocol can read.
    """
    try:
        message: Any = read_message(body, request)
    except ValueError:
        return True, None
    if not isinstance(message, dict):
        return True, None
    if "method" not in message or "id" not in message:
        return False, None
    identifier = message["id"]
    return True, identifier if isinstance(identifier, str | int | float) else None

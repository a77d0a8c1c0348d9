"""Each refusal that nobody else has recorded: by the status of its answer, and by the error of its call.

It stands around everything else, so that whatever refuses a request, also a part of the SDK, leaves a record in the
audit trail. Who refuses with more to say notes it in the ``RefusalLog`` before; then nothing is added here. Of what
was sent nothing is recorded but what is in words of this program's own, or is known of a caller.
"""

import json
import logging
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guideway.interpreter.approvals import one_line
from guideway.interpreter.principal import Principal
from guideway.server.approvals.paths import API, PAGE
from guideway.server.grammar_route import PATH as GRAMMAR
from guideway.server.oauth.refusal_log import MOST, RefusalLog, answering, is_recorded
from guideway.server.proxies import client_address
from guideway.server.resources import NOT_FOUND
from guideway.server.run_log import who
from guideway.server.sections import ENDPOINT

CALLER: Final = "guideway.caller"
"""Where a request has the ``Principal`` who is asking, by a token or signed in at the page, once that is known."""

_PLACES: Final = (ENDPOINT, GRAMMAR, API, PAGE)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONGEST: Final = 200  # characters of a path, a method or an error that are recorded
_LONGEST_BODY: Final = 4_096  # bytes of an answer that are looked at
_CODES: Final = {
    types.PARSE_ERROR: "parse_error",
    types.INVALID_REQUEST: "invalid_request",
    types.METHOD_NOT_FOUND: "method_not_found",
    types.INVALID_PARAMS: "invalid_params",
    types.INTERNAL_ERROR: "internal_error",
    types.HEADER_MISMATCH: "header_mismatch",
    types.MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_client_capability",
    types.UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
    NOT_FOUND: "resource_not_found",
}
_log: Final = logging.getLogger(__name__)


class Recorded:
    """ASGI middleware: notes each answer of 400 and more, and each request that an error left without one.

    ``public`` are the paths of which nothing is noted: an answer of theirs refuses nobody.
    """

    def __init__(self, app: ASGIApp, *, refusals: RefusalLog, public: Collection[str] = ()) -> None:
        self._app = app
        self._refusals = refusals
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._public:
            await self._app(scope, receive, send)
            return
        status = 0
        with answering() as answered:

            def note(body: bytes = b"") -> None:
                if status >= HTTPStatus.BAD_REQUEST and not answered.recorded:
                    answered.recorded = True  # here too: who sends may be in the context of another request
                    self._note(scope, status, body)

            async def watch(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                else:
                    note(message.get("body", b""))
                await send(message)

            try:
                await self._app(scope, receive, watch)
            except Exception:
                status = status or HTTPStatus.INTERNAL_SERVER_ERROR  # which is what the server behind answers
                note()
                raise

    def _note(self, scope: Scope, status: int, body: bytes) -> None:
        code, why = _code(body) or f"http_{status}", _phrase(status)
        caller: Principal | None = scope.get(CALLER)
        facts = {"asked": asked_for(scope, whole=caller is not None)}
        if caller is None:
            most = 1 if status == HTTPStatus.NOT_FOUND else MOST  # of paths that are not there anybody can ask for many
            address, key = client_address(scope), (status, code)
            self._refusals.note("a request", why, address, code=code, key=key, most=most, facts=facts)
        else:

            def log() -> None:
                _log.info("refused a request: %s; %s", why, who(caller))

            self._refusals.note_caller(caller, code, why, log, facts=facts)


def recording(refusals: RefusalLog, caller: Callable[[], Principal]) -> ServerMiddleware[Any]:
    """Return what notes each call of the protocol that ends in an error, over whichever transport it came."""

    async def watch(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        with answering() as answered:
            try:
                return await call_next(ctx)
            except Exception as error:
                if not answered.recorded:
                    code, why = _meant(error)
                    refusals.note_caller(caller(), code, why, facts={"asked": one_line(ctx.method)[:_LONGEST]})
                raise

    return watch


def recording_answers(
    refusals: RefusalLog, caller: Callable[[], Principal]
) -> Callable[[types.JSONRPCError | None], None]:
    """Return what notes the errors that a stream answers with before a call of the protocol is one.

    It is told of each before it is sent, in the context of what is answered; None is what was no message at all.
    """

    def note(answer: types.JSONRPCError | None) -> None:
        if is_recorded():
            return
        if answer is None:
            refusals.note_caller(caller(), "parse_error", "it is no message of the protocol")
        elif answer.error.code != types.CONNECTION_CLOSED:  # which refuses nobody
            refusals.note_caller(caller(), *_meant(MCPError.from_error_data(answer.error)))

    return note


def asked_for(scope: Scope, *, whole: bool = True) -> str:
    """Return what was asked for, of the paths that there are: any other is its sender's own text.

    So is what stands behind them: without ``whole`` it is left out.
    """
    method, path = scope["method"], scope["path"]
    place = next((place for place in _PLACES if path == place or path.startswith(f"{place}/")), None)
    if place is None:
        shown = "elsewhere"
    elif path == place:
        shown = place
    else:
        shown = one_line(path)[:_LONGEST] if whole else f"{place}/…"
    return f"{method if method in _METHODS else 'another method'} {shown}"


def _meant(error: Exception) -> tuple[str, str]:
    """Return an error's code and its words: those that its caller is told, and of no other error any."""
    if isinstance(error, MCPError):
        data = error.error.data
        reason = data.get("reason") if isinstance(data, dict) else None
        code = reason if isinstance(reason, str) else _CODES.get(error.error.code, "error")
        return code, error.error.message[:_LONGEST]
    if isinstance(error, ValidationError):
        return "invalid_params", "the params are not as the protocol has them"
    return "internal_error", type(error).__name__


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _code(body: bytes) -> str | None:
    """Return what the error is called that an answer of the protocol is, None for any other answer."""
    if len(body) > _LONGEST_BODY or not body.startswith(b"{"):
        return None
    try:
        return _CODES.get(json.loads(body)["error"]["code"])
    except (ValueError, LookupError, TypeError):
        return None

"""Sessions of older revisions, which live on between requests: how many of them a caller may hold.

Who may use a session is the SDK's to say, and what may be done in it is settled anew at each request. Nothing here
looks into a request: a session is known by the header that names it.
"""

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guideway.server.door_watch import DoorWatch
from guideway.server.sections import ENDPOINT

MOST_SESSIONS: Final = 1_000
"""Sessions at a time."""

MOST_OF_A_CALLER: Final = 32
"""Sessions at a time of one caller who has shown a token; without tokens there is but one caller, who has them all."""

IDLE_SECONDS: Final = 600.0
"""Seconds without a request after which a session ends."""

_RETRY_SECONDS: Final = 60


@dataclass(eq=False)
class _Session:
    owner: Hashable
    user: object
    used: float = field(default_factory=time.monotonic)
    requests: int = 1


class Sessions:
    """ASGI middleware. Who opens one session too many loses the one that has not been used for longest.

    429 where all of the caller's are in use, 503 where others hold all there are. When the server stops, the sessions
    are ended before the SDK cancels what is left: that costs time by the square of their number.
    """

    def __init__(self, app: ASGIApp, *, watch: DoorWatch | None = None) -> None:
        self._app = app
        self._open: dict[str, _Session] = {}
        self._opening: list[Hashable] = []
        if watch is not None:
            watch.reads("sessions_open", lambda: len(self._open))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._ending(scope, receive), send)
        elif scope["type"] != "http" or scope["path"] != ENDPOINT or not _legacy(scope):
            await self._app(scope, receive, send)
        elif (identifier := Headers(scope=scope).get(MCP_SESSION_ID_HEADER)) is not None:
            await self._use(identifier, scope, receive, send)
        elif scope["method"] == "POST":
            await self._begin(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _use(self, identifier: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._open.get(identifier)
        if session is None or session.owner != _owner(scope):
            await self._app(scope, receive, send)
            return
        session.requests += 1
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            session.requests -= 1
            session.used = time.monotonic()
            if status == 404 or (scope["method"] == "DELETE" and status < 400):
                self._open.pop(identifier, None)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner = _owner(scope)
        refused = await self._make_room(owner, scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        self._opening.append(owner)
        opened: _Session | None = None

        async def watch(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400:
                identifier = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if identifier is not None:
                    opened = self._open[identifier] = _Session(owner, scope.get("user"))
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._opening.remove(owner)
            if opened is not None:
                opened.requests -= 1
                opened.used = time.monotonic()

    async def _make_room(self, owner: Hashable, scope: Scope) -> Response | None:
        """End what is too much of this caller's. Return the answer where there is no room."""
        self._forget_the_idle()
        most = MOST_SESSIONS if owner is None else MOST_OF_A_CALLER
        while self._held(owner) >= most:
            own = [(each.used, name) for name, each in self._open.items() if each.owner == owner and not each.requests]
            if not own:
                return _no_room("all sessions of this caller are in use", 429)
            await self._end(min(own)[1], scope)
        if len(self._open) + len(self._opening) >= MOST_SESSIONS:
            return _no_room("too many sessions are open", 503)
        return None

    def _held(self, owner: Hashable) -> int:
        # A request that opens a session is counted as that until it has been answered.
        known = sum(each.owner == owner for each in self._open.values())
        return known + self._opening.count(owner)

    def _forget_the_idle(self) -> None:
        """Forget what the SDK has ended by itself."""
        ended = time.monotonic() - IDLE_SECONDS
        for name in [name for name, each in self._open.items() if not each.requests and each.used < ended]:
            del self._open[name]

    async def _end(self, identifier: str, scope: Scope) -> None:
        """End a session as its owner's own DELETE does."""
        session = self._open.pop(identifier)
        headers = [(MCP_SESSION_ID_HEADER.encode(), identifier.encode())]
        request = {**_DELETE, "app": scope["app"], "headers": headers, "user": session.user}

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def nobody(_: Message) -> None:
            pass

        await self._app(request, nothing, nobody)

    def _ending(self, scope: Scope, receive: Receive) -> Receive:
        async def give() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                for identifier in list(self._open):
                    await self._end(identifier, scope)
            return message

        return give


_DELETE: Final = {
    "type": "http",
    "http_version": "1.1",
    "method": "DELETE",
    "scheme": "http",
    "path": ENDPOINT,
    "raw_path": ENDPOINT.encode(),
    "root_path": "",
    "query_string": b"",
}


def _legacy(scope: Scope) -> bool:
    version = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _owner(scope: Scope) -> Hashable:
    """Return whose a session is, as the SDK sees it: None where nobody is asked for a token."""
    user = scope.get("user")
    return tuple(authorization_context(user).items()) if isinstance(user, AuthenticatedUser) else None


def _no_room(why: str, status: int) -> Response:
    return PlainTextResponse(why, status, headers={"Retry-After": str(_RETRY_SECONDS)})

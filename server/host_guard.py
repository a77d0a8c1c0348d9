"""Which addresses a request may name: keeps web pages from reaching the server through a browser (DNS rebinding).

It answers before anything else looks at a request, its token included; and it refuses requests that a proxy in front
may have read otherwise than they are read here. Who is asking, it never decides.
"""

import logging
from collections.abc import Collection
from typing import Final

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from guideway.dsl.errors import quoted
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.proxies import client_address

_ONCE: Final = (b"host", b"origin")
_HEADERS: Final = {421: "Host", 403: "Origin"}
"""Which header a request is turned away for, by the status of the answer."""

# It logs each header that it turns away, at WARNING: whoever reaches the port would fill the log.
logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)


class HostGuard:
    """ASGI middleware: 421 for a Host header that is not one of ``hosts``, 403 for an Origin that is not one allowed.

    400 for a request that has one of these twice, or both a length and chunks: RFC 9112, section 6.1. ``public`` are
    the paths that any page may read.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        public: Collection[str] = (),
        refusals: RefusalLog | None = None,
    ) -> None:
        self._app = app
        self._public = frozenset(public)
        settings = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins))
        self._security = TransportSecurityMiddleware(settings)
        self._refusals = refusals or RefusalLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _ambiguous(scope) if scope["type"] == "http" else None
        if refused is not None:
            self._refusals.note(
                "a request", "its headers can be read in two ways", client_address(scope), code="ambiguous"
            )
        if refused is None and scope["type"] == "http" and scope["path"] not in self._public:
            refused = await self._security.validate_request(Request(scope))
            if refused is not None and refused.status_code in _HEADERS:
                self._note(scope, _HEADERS[refused.status_code])
        await (refused or self._app)(scope, receive, send)

    def _note(self, scope: Scope, name: str) -> None:
        """Log what was turned away, with the header, which an operator needs to see why."""
        header = name.lower().encode()
        value = next((value for one, value in scope["headers"] if one == header), b"").decode("latin-1")
        why = f"its {name} header is none that is known here: see `url` of [server]"
        self._refusals.note("a request", why, client_address(scope), facts={"header": quoted(value)})


def _ambiguous(scope: Scope) -> Response | None:
    """Return the answer to a request that two readers may read in two ways, None where there is but one.

    The connection ends with it: what comes next on it may be another request to one of the two, and to the other not.
    """
    names = [name for name, _ in scope["headers"]]
    if any(names.count(name) > 1 for name in _ONCE) or {b"content-length", b"transfer-encoding"} <= set(names):
        return PlainTextResponse("Ambiguous headers", 400, headers={"Connection": "close"})
    return None

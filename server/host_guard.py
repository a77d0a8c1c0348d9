"""Which addresses a request may name: keeps web pages from reaching the server through a browser (DNS rebinding).

It answers before anything else looks at a request, its token included. Who is asking, it never decides.
"""

from collections.abc import Collection

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send


class HostGuard:
    """ASGI middleware: 421 for a Host header that is not one of ``hosts``, 403 for an Origin that is not one allowed.

    ``public`` are the paths that any page may read.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str], origins: Collection[str], public: Collection[str] = ()
    ) -> None:
        self._app = app
        self._public = frozenset(public)
        settings = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins))
        self._security = TransportSecurityMiddleware(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None
        if scope["type"] == "http" and scope["path"] not in self._public:
            refused = await self._security.validate_request(Request(scope))
        await (refused or self._app)(scope, receive, send)

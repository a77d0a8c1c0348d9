"""Who is at the other end of a connection: a reverse proxy speaks for its clients, everybody else for themselves.

Forwarded headers are believed from the configured networks alone, and then for two things: the address that a log
names, and that a client asked its proxy in the clear. Who a caller is and what they may do never depends on one.
"""

import ipaddress
import logging
from collections.abc import Collection, Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guideway.server.listen import Scheme
from guideway.server.sections import Network

_log: Final = logging.getLogger(__name__)
_REFUSALS: Final = (400, 401, 403, 421, 503)

_STRANGER: Final = "this server takes plain HTTP from its reverse proxy only: ask that, over https"
_IN_THE_CLEAR: Final = "tokens must not cross the network in the clear: use https"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Peers:
    """ASGI middleware around everything else: settles ``scope["client"]``, and refuses what came in the clear.

    ``listens`` is what this server speaks itself, ``asked`` what its clients are to use. Where it speaks `http`, it
    answers loopback and ``proxies`` alone. Where clients are to use `https` and a proxy says that one did not, that one
    is refused: its token has been readable on the way. What is at ``public`` paths anybody may ask, in any way.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        proxies: Iterable[Network] = (),
        listens: Scheme,
        asked: Scheme,
        public: Collection[str] = (),
    ) -> None:
        self._app = app
        self._proxies = tuple(proxies)
        self._listens, self._asked = listens, asked
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host, port = scope["client"] or ("", 0)
        peer = _address(host)
        client, came_by, is_public = peer, "", scope["path"] in self._public
        if peer and self._is_proxy(peer):
            headers = Headers(scope=scope)
            client = self._client(peer, headers.getlist("X-Forwarded-For"))
            came_by = ",".join(headers.getlist("X-Forwarded-Proto")).split(",")[0].strip().lower()
        elif self._listens == "http" and not (peer and peer.is_loopback) and not is_public:
            await self._refuse(_STRANGER, scope, receive, send)
            return
        # In the scope itself: whoever stands around this one records where a request came from.
        scope["client"] = client and (str(client), port if client == peer else 0)
        if came_by == "http" and self._asked == "https" and not is_public:
            await self._refuse(_IN_THE_CLEAR, scope, receive, send)
        else:
            await self._app(scope, receive, _logged(scope, send))

    def _is_proxy(self, address: _Address) -> bool:
        return any(address in network for network in self._proxies)

    def _client(self, peer: _Address, forwarded: list[str]) -> _Address:
        """Return the nearest address that is no proxy's. What stands left of it is what its owner chose to send."""
        for value in reversed(",".join(forwarded).split(",")):
            address = _address(_without_port(value.strip()))
            if address is None:
                break
            peer = address
            if not self._is_proxy(address):
                break
        return peer

    async def _refuse(self, why: str, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(why, 403)(scope, receive, _logged(scope, send))


def _logged(scope: Scope, send: Send) -> Send:
    """Return a ``send`` that notes who was refused. The target is left out: a query may hold a token."""

    async def note(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in _REFUSALS:
            _log.debug("answered %s %d", client_address(scope), message["status"])
        await send(message)

    return note


def client_address(scope: Scope) -> str:
    """Return the address that a request came from, for the log and the trail."""
    client = scope.get("client")
    return str(client[0]) if client else "somebody"


def _address(text: str) -> _Address | None:
    """Return an address, None for what is none; without a zone (RFC 4007), which may be any text.

    One that a socket for both families spells as IPv6 is its IPv4 self.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _without_port(text: str) -> str:
    """Return an address as proxies write it, `192.0.2.1:443` and `[2001:db8::1]:443` too, without its port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text

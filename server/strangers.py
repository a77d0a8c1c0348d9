"""Who is not let in, over and over: bounded by the address that it comes from, and in all.

It stands in front of the gate, so that a flood of bad tokens costs no signatures. Whoever was let in before, with the
token that they show now, is not turned away for what their neighbours do: many callers may share one address.
"""

import ipaddress
from collections.abc import Collection, Hashable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from guideway.server.load import Load
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.proxies import client_address
from guideway.server.rates import Rates
from guideway.server.too_much import Bound, TooMuch

MOST_KNOWN: Final = 10_000
"""Tokens that are known to have been let in; no token is kept for it."""

_NOT_LET_IN: Final = (400, 401, 403, 404)
_ALL: Final = "all"
_NETWORK: Final = 64  # of IPv6: as much as one host may have for itself


class Strangers:
    """ASGI middleware: 429 for an address, 503 for everybody unknown, from which too much was not let in.

    A token that was let in before has a bound of its own, for requests that it does not suffice for. ``public`` are the
    paths that need no token.
    """

    def __init__(
        self, app: ASGIApp, *, load: Load, public: Collection[str], refusals: RefusalLog | None = None
    ) -> None:
        self._app = app
        self._load = load
        self._public = frozenset(public)
        self._one = Rates(load.bounds.refused_per_minute_of_address)
        self._all = Rates(load.bounds.refused_per_minute)
        self._known: dict[int, None] = {}
        self._refusals = refusals or RefusalLog()

    async def __call__(self, request: Request, receive: Receive, send: Send) -> None:
        if request["type"] != "http" or request["path"] in self._public:
            await self._app(request, receive, send)
            return
        shown = hash(next((value for name, value in request["headers"] if name == b"authorization"), b""))
        who: Hashable = shown if shown in self._known else _address(request)
        too_much = self._too_much(who)
        if too_much is not None:
            self._refusals.note("a request", str(too_much), client_address(request))
            await too_much.response()(request, receive, send)
            return

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and "user" not in request:
                if message["status"] in _NOT_LET_IN:
                    self._count(who)
            elif message["type"] == "http.response.start":
                self._remember(shown)
            await send(message)

        await self._app(request, receive, watch)

    def _too_much(self, who: Hashable) -> TooMuch | None:
        if seconds := self._one.wait(who):
            why = "too many requests from this address were not let in"
            if who in self._known:
                why = "too many requests with this token were not let in"
            return self._load.refuse(Bound.ADDRESS_RATE, why, seconds)
        if who not in self._known and (seconds := self._all.wait(_ALL)):
            return self._load.refuse(Bound.REFUSED_RATE, "too many requests were not let in", seconds)
        return None

    def _count(self, who: Hashable) -> None:
        self._one.take(who)
        if who not in self._known:
            self._all.take(_ALL)

    def _remember(self, shown: int) -> None:
        self._known.pop(shown, None)  # so that it stands at the end
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[shown] = None


def _address(request: Request) -> str:
    """Return whose bound it is: an IPv4 address, or a network of IPv6."""
    client = client_address(request)
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else str(ipaddress.ip_network((address, _NETWORK), strict=False))

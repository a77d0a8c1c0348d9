"""Connections that wait for their client, with TLS to be agreed on or a head to come, and which of them makes room.

One address may open as many as it likes, so that the address with most of them gives one up: who is alone at theirs is
not cut off for what others do.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterable
from typing import Protocol


class Waiting(Protocol):
    """A connection. ``overdue`` ends it; None while it waits for nothing that its client has to do."""

    overdue: asyncio.TimerHandle | None
    address: str

    def cut(self) -> None:
        """End it without a word."""


class Upgraded(Protocol):
    """What speaks over TLS once that is agreed on."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""

    def data_received(self, data: bytes) -> None:
        """Take what came."""


def make_room(connections: Iterable[Waiting], newcomer: Waiting) -> None:
    """Cut the connection that has waited longest, of the address with most that wait; the newcomer where none does."""
    waiting = [each for each in connections if each.overdue is not None]
    if not waiting:
        newcomer.cut()
        return
    [(most, _)] = Counter(each.address for each in waiting).most_common(1)
    min((each for each in waiting if each.address == most), key=_due).cut()


def _due(connection: Waiting) -> float:
    return connection.overdue.when() if connection.overdue is not None else float("inf")


class Handshake(asyncio.Protocol):
    """A connection on which TLS is not agreed on yet: it is counted like any other, and has as long as a head has.

    asyncio's own way counts it nowhere, and cannot end it before a minute is over.
    """

    def __init__(
        self, tls: ssl.SSLContext, then: Upgraded, *, connections: set[Waiting], most: int, seconds: float
    ) -> None:
        self.overdue: asyncio.TimerHandle | None = None
        self.address = ""
        self._tls = tls
        self._then = then
        self._connections = connections
        self._most = most
        self._seconds = seconds
        self._early = bytearray()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream
        """Begin the handshake; make room where there are too many connections."""
        self._transport = transport
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        transport.pause_reading()  # or what comes first would be taken for what follows the handshake
        transport.set_write_buffer_limits(high=1, low=0)
        loop = asyncio.get_running_loop()
        self.overdue = loop.call_later(self._seconds, self.cut)
        self._connections.add(self)
        self._task = loop.create_task(self._shake())
        if len(self._connections) > self._most:
            make_room(self._connections, self)

    def data_received(self, data: bytes) -> None:
        """Keep what comes right behind the handshake."""
        self._early += data

    def cut(self) -> None:
        """End it."""
        self._stop_waiting()
        self._transport.abort()

    def shutdown(self) -> None:
        """End it, because the server does."""
        self.cut()

    def _stop_waiting(self) -> None:
        if self.overdue is not None:
            self.overdue.cancel()
            self.overdue = None

    async def _shake(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(
                self._transport, self, self._tls, server_side=True, ssl_handshake_timeout=self._seconds
            )
        except OSError:  # what a peer does wrong; also OpenSSL's words for it, and that it took too long
            self._transport.abort()
            return
        finally:
            self._stop_waiting()
            self._connections.discard(self)
        if secure is None or secure.is_closing():  # it was lost at that moment
            self._transport.abort()
            return
        secure.set_protocol(self._then)  # type: ignore[arg-type]  # uvicorn's own
        self._then.connection_made(secure)
        if self._early:
            self._then.data_received(bytes(self._early))

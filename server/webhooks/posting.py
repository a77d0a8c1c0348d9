"""One POST to a webhook, bounded in time: no redirect is followed, no proxy is taken, and no answer's body is read.

The name is looked up once, and what this brought is looked at before it is connected to, as it is for probes: a name
may lead to where a cloud keeps credentials. No word of the receiver and no part of the URL gets into an error.
"""

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import anyio
import httpcore2

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.probes import sockets
from guideway.interpreter.probes.addresses import USUAL
from guideway.server.webhooks.webhook import Webhook

SECONDS: Final = 10.0
"""That one attempt may take, from looking up the name to the head of the answer."""

_GONE: Final = 410
_HEADERS: Final = {"User-Agent": "guideway", "Content-Type": "application/json", "Connection": "close"}


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of an attempt. ``error`` None: it arrived. ``retry_after`` is the seconds that the receiver asks for.

    ``gone``: the receiver says that it wants no more (410), ever.
    """

    error: str | None = None
    retry_after: float | None = None
    gone: bool = False


async def post(webhook: Webhook, body: bytes, headers: Mapping[str, str], *, seconds: float = SECONDS) -> Posted:
    """Post a body. What goes wrong on the way is returned, never raised."""
    try:
        with anyio.fail_after(seconds):
            return await _post(webhook, body, headers)
    except TimeoutError:
        return Posted(f"no answer within {seconds:g} s")
    except Fault as fault:
        return Posted(fault.message)
    except httpcore2.ConnectError as error:
        return Posted(_no_connection(error))
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError):
        return Posted("the connection broke before there was an answer")


async def _post(webhook: Webhook, body: bytes, headers: Mapping[str, str]) -> Posted:
    trust = webhook.trust or _system_authorities()
    async with (
        httpcore2.AsyncConnectionPool(ssl_context=trust, network_backend=_Guarded(), max_connections=1) as connections,
        connections.stream("POST", webhook.url, headers=_encoded({**_HEADERS, **headers}), content=body) as answer,
    ):
        status = answer.status
        if 200 <= status < 300:
            return Posted()
        if 300 <= status < 400:
            return Posted(f"it answered HTTP {status}, and no redirect is followed")
        return Posted(f"it answered HTTP {status}", _retry_after(answer.headers), gone=status == _GONE)


class _Guarded(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that a probe might be sent to, and to no others."""

    def __init__(self) -> None:
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the interface's; the whole attempt is bounded
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of a host that accepts. Raises ``Fault``."""
        found = await sockets.resolve(host, port, USUAL)
        for address in found[:-1]:
            try:
                return await self._plain.connect_tcp(address.name[0], port, 2.0, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._plain.connect_tcp(found[-1].name[0], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to none: a URL names no socket."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)


@cache
def _system_authorities() -> ssl.SSLContext:
    return ssl.create_default_context()


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, section 10.2.3); a date is not read."""
    for name, value in headers:
        if name.lower() == b"retry-after" and value.isdigit() and len(value) <= 9:
            return float(value)
    return None


def _no_connection(error: BaseException) -> str:
    """Return why there is no connection, in OpenSSL's words or the system's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "it speaks no TLS there"
        if isinstance(cause, OSError) and cause.errno is not None:
            return f"it cannot be reached: {sockets.words(cause)}"
        cause = cause.__cause__ or cause.__context__
    return "it cannot be reached"

"""The Docker-compatible API of an engine behind a unix socket: its versions, its refusals, and bounds on its answers.

Owns requests and what an HTTP status says. Never knows what a container's state means.

One connection a call: it costs a fraction of a millisecond, nothing idle is left to go stale or to be given back, and a
cancelled call can leave nothing half-read behind.
"""

import ssl
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from pydantic import BaseModel, ValidationError

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import unreachable
from guideway.interpreter.results import Reason

MOST_RESPONSE_BYTES: Final = 1024 * 1024

#: Versions of the API that have all that is asked here, and none that means another thing by it.
OLDEST, NEWEST = (1, 24), (1, 52)

NOT_AN_ENGINE: Final = "what answers at the socket does not speak as a container engine does"

# What Docker says, with 500, where several ids begin with what is no container's name.
_AMBIGUOUS: Final = "Multiple IDs found"

_HEADERS: Final = {"User-Agent": "guideway", "Accept-Encoding": "identity", "Connection": "close"}

# The client wants TLS settings, also where it speaks none; these trust nobody, and reading authorities takes long.
_NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Lost(Fault):
    """The engine cannot be reached, or ended the connection: what was asked may have been done or not."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNREACHABLE, message)


class TooMuch(Fault):
    """An answer is longer than what is read of one."""

    def __init__(self) -> None:
        super().__init__(Reason.UNKNOWN, f"an answer of more than {MOST_RESPONSE_BYTES} bytes is not read")


class Refusal(Fault):
    """The engine did not do what was asked; ``output`` is its own text."""

    def __init__(self, status: int, reason: Reason, message: str, output: str) -> None:
        super().__init__(reason, message, output)
        self.status = status


class _Said(BaseModel):
    """The body of a refusal."""

    message: str


class Engine:
    """An engine by the path of its socket. Reaches nothing before it is asked."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._version: str | None = None
        self._server = ""
        self._turns: weakref.WeakValueDictionary[str, anyio.Lock] = weakref.WeakValueDictionary()

    def turn(self, container: str) -> anyio.Lock:
        """Return the lock of a container's restarts: Podman refuses one that comes while it is at another."""
        return self._turns.setdefault(container, anyio.Lock())

    async def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, sent: Callable[[], None] | None = None
    ) -> bytes:
        """Return the answer to one request. ``sent`` is called when the engine may begin to hear it.

        An answer that nothing was to be done (304) is an answer. Raises ``Refusal``, ``Lost`` and ``Fault``.
        """
        version = self._version or await self._negotiated()
        status, _, body = await self._request(method, f"/v{version}{path}", query, sent)
        if status == 400:  # of another version, perhaps, since it was exchanged: the next call asks anew
            self._version = None
        if status < 300 or status == 304:
            return body
        raise _refusal(status, body)

    async def name(self) -> str:
        """Return what the engine calls itself, such as ``Docker/28.2.2 (linux)``. Raises ``Fault``."""
        await self._negotiated()
        return self._server

    async def _negotiated(self) -> str:
        """Return the newest version of the API that both sides speak. Raises ``Fault``."""
        status, headers, body = await self._request("GET", "/_ping", None, None)
        if status != 200:
            raise _refusal(status, body)
        try:
            major, minor = headers.get("api-version", "").split(".")
            theirs = int(major), int(minor)
        except ValueError:
            raise Fault(Reason.UNKNOWN, NOT_AN_ENGINE) from None
        if theirs < OLDEST:
            raise Fault(Reason.UNKNOWN, f"the engine is too old: its API is {major}.{minor}, before {_dotted(OLDEST)}")
        self._server = headers.get("server", "")
        self._version = _dotted(min(theirs, NEWEST))
        return self._version

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, sent: Callable[[], None] | None
    ) -> tuple[int, httpx2.Headers, bytes]:
        async def traced(event: str, _: Mapping[str, Any]) -> None:
            if sent is not None and event == "http11.send_request_headers.started":
                sent()

        transport = httpx2.AsyncHTTPTransport(uds=str(self.socket), verify=_NO_AUTHORITIES, trust_env=False)
        answer = bytearray()
        try:
            async with (
                httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client,
                client.stream(
                    method,
                    f"http://localhost{path}",
                    params=query,
                    headers=_HEADERS,
                    extensions={"trace": traced},
                ) as response,
            ):
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > MOST_RESPONSE_BYTES:
                        raise TooMuch
        except (httpx2.TransportError, OSError) as error:
            fault = unreachable(error, "the container engine")
            if fault.reason is Reason.NO_PERMISSION:
                raise Fault(fault.reason, f"{fault.message}{self._members()}") from error
            raise Lost(fault.message) from error
        return response.status_code, response.headers, bytes(answer)

    def _members(self) -> str:
        with suppress(OSError, KeyError):  # the folder may be closed too, and the group may have no name here
            return f", which members of the group `{self.socket.group()}` may"
        return ""


_ENGINES: weakref.WeakValueDictionary[Path, Engine] = weakref.WeakValueDictionary()


def engine_at(socket: Path) -> Engine:
    """Return the engine at a socket, the same one for everybody."""
    return _ENGINES.setdefault(socket, Engine(socket))


def _refusal(status: int, body: bytes) -> Fault:
    try:
        said = _Said.model_validate_json(body).message
    except ValidationError:
        said = ""
    match status:
        case 401 | 403:
            return Refusal(status, Reason.NO_PERMISSION, "the engine does not let this process do that", said)
        case _ if not said:
            return Fault(Reason.UNKNOWN, f"{NOT_AN_ENGINE}: HTTP {status}")
        case _ if status == 404 or _AMBIGUOUS in said:
            return Refusal(status, Reason.NOT_FOUND, "the engine has no container of the configured name", said)
        case _:
            return Refusal(status, Reason.UNKNOWN, f"the engine refused, with HTTP {status}", said)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

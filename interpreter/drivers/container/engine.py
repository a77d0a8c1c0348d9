"""The Docker-compatible API of an engine behind a unix socket: its versions, its refusals, and bounds on its answers.

Owns requests and what an HTTP status says. Never knows what a container's state means.
"""

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import anyio
from pydantic import BaseModel, ValidationError

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import unreachable
from guideway.interpreter.drivers.http import (
    Answer,
    CutOffError,
    NotConnectedError,
    Place,
    Request,
    TooLongError,
    place_at,
)
from guideway.interpreter.drivers.ways import HERE, Way, WayLost
from guideway.interpreter.results import Reason

MOST_RESPONSE_BYTES: Final = 1024 * 1024

#: Versions of the API that have all that is asked here, and none that means another thing by it.
OLDEST, NEWEST = (1, 24), (1, 52)

NOT_AN_ENGINE: Final = "what answers at the socket does not speak as a container engine does"

_ROOTS: Final = (
    "; of an engine that runs as root, whoever may connect is root: a rootless engine, or a proxy before the socket, "
    "gives less (docs/services.md)"
)

# What Docker says, with 500, where several ids begin with what is no container's name.
_AMBIGUOUS: Final = "Multiple IDs found"

_HEADERS: Final = {"User-Agent": "guideway", "Accept-Encoding": "identity"}


class Lost(Fault):
    """The engine cannot be reached, or ended the connection: what was asked may have been done or not."""

    def __init__(self, message: str, output: str = "", mend: str = "") -> None:
        super().__init__(Reason.UNREACHABLE, message, output, mend)


class TooMuch(Fault):
    """An answer is longer than what is read of one."""

    def __init__(self) -> None:
        super().__init__(Reason.UNKNOWN, f"an answer of more than {MOST_RESPONSE_BYTES} bytes is not read")


class Refusal(Fault):
    """The engine did not do what was asked; ``output`` is its own text."""

    def __init__(self, status: int, reason: Reason, message: str, output: str, mend: str = "") -> None:
        super().__init__(reason, message, output, mend)
        self.status = status


class _Said(BaseModel):
    """The body of a refusal."""

    message: str


class Engine:
    """An engine by its place. Reaches nothing before it is asked. Who asks is a member of the place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._version: str | None = None
        self._server = ""
        self._turns: weakref.WeakValueDictionary[str, anyio.Lock] = weakref.WeakValueDictionary()

    def turn(self, container: str) -> anyio.Lock:
        """Return the lock of a container's restarts: Podman refuses one that comes while it is at another."""
        return self._turns.setdefault(container, anyio.Lock())

    async def call(
        self,
        method: str,
        path: str,
        member: object,
        *,
        query: Mapping[str, str] | None = None,
        sent: Callable[[], None] | None = None,
    ) -> bytes:
        """Return the answer to one request. ``sent`` is called when the engine may begin to hear it.

        An answer that nothing was to be done (304) is an answer. Raises ``Refusal``, ``Lost`` and ``Fault``.
        """
        version = self._version or await self._negotiated(member)
        target = f"/v{version}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = await self._request(method, target, member, sent)
        if answer.status == 400:  # of another version, perhaps, since it was exchanged: the next call asks anew
            self._version = None
        if answer.status < 300 or answer.status == 304:
            return answer.body
        raise _refusal(answer.status, answer.body, f"{method} {target.partition('?')[0]}")

    async def name(self, member: object) -> str:
        """Return what the engine calls itself, such as ``Docker/28.2.2 (linux)``. Raises ``Fault``."""
        await self._negotiated(member)
        return self._server

    async def _negotiated(self, member: object) -> str:
        """Return the newest version of the API that both sides speak. Raises ``Fault``."""
        answer = await self._request("GET", "/_ping", member, None)
        if answer.status != 200:
            raise _refusal(answer.status, answer.body, "GET /_ping")
        try:
            major, minor = answer.headers.get("api-version", "").split(".")
            theirs = int(major), int(minor)
        except ValueError:
            raise Fault(Reason.UNKNOWN, NOT_AN_ENGINE) from None
        if theirs < OLDEST:
            raise Fault(Reason.UNKNOWN, f"the engine is too old: its API is {major}.{minor}, before {_dotted(OLDEST)}")
        self._server = answer.headers.get("server", "")
        self._version = _dotted(min(theirs, NEWEST))
        return self._version

    async def _request(self, method: str, target: str, member: object, sent: Callable[[], None] | None) -> Answer:
        request = Request(method, target, _HEADERS, MOST_RESPONSE_BYTES)
        try:
            if method == "GET":
                return await self.place.ask(request, member)
            return await self.place.act(request, member, sent)
        except (NotConnectedError, CutOffError) as error:
            fault = unreachable(error, "the container engine", self.place.socket if self.place.way is HERE else None)
            if fault.reason is Reason.NO_PERMISSION:
                raise Fault(fault.reason, fault.message, mend=f"{fault.mend}{_ROOTS}" if fault.mend else "") from error
            raise Lost(fault.message, mend=fault.mend) from error
        except TooLongError:
            raise TooMuch from None
        except WayLost as fault:
            raise Lost(fault.message, fault.output, fault.mend) from fault


_ENGINES: weakref.WeakValueDictionary[tuple[Way, Path], Engine] = weakref.WeakValueDictionary()


def engine_at(socket: Path, way: Way = HERE) -> Engine:
    """Return the engine at a socket of a machine, the same one for everybody."""
    engine = _ENGINES.get((way, socket))
    if engine is None:
        engine = _ENGINES[way, socket] = Engine(place_at(socket, way))
    return engine


def _refusal(status: int, body: bytes, request: str) -> Fault:
    try:
        said = _Said.model_validate_json(body).message
    except ValidationError:
        said = ""
    match status:
        case 401 | 403:
            allow = f"let this request through, in the proxy before the engine or its authorization plugin: `{request}`"
            return Refusal(status, Reason.NO_PERMISSION, "the engine does not let this process do that", said, allow)
        case _ if not said:
            return Fault(Reason.UNKNOWN, f"{NOT_AN_ENGINE}: HTTP {status}")
        case _ if status == 404 or _AMBIGUOUS in said:
            return Refusal(status, Reason.NOT_FOUND, "the engine has no container of the configured name", said)
        case _:
            return Refusal(status, Reason.UNKNOWN, f"the engine refused, with HTTP {status}", said)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

"""supervisord's XML-RPC: one request, and what its answer or its fault means.

Owns the connection, the password and the parsing. Never knows what a program's state says of it.

One connection a call: it costs a millisecond, nothing idle is left to go stale or to be given back, and a cancelled
call can leave nothing half-read behind.
"""

import base64
import errno
import re
import ssl
import xmlrpc.client
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors, unreachable
from guideway.interpreter.drivers.ways import Way, WayLost
from guideway.interpreter.results import Reason
from guideway.interpreter.secret import read_secret

MOST_RESPONSE_BYTES: Final = 256 * 1024


class Code(IntEnum):
    """Fault codes (supervisor/xmlrpc.py, Faults): those that mean something to us."""

    UNKNOWN_METHOD = 1
    SHUTDOWN_STATE = 6
    BAD_NAME = 10
    NO_FILE = 20
    NOT_EXECUTABLE = 21
    ABNORMAL_TERMINATION = 40
    SPAWN_ERROR = 50
    ALREADY_STARTED = 60
    NOT_RUNNING = 70


_FAULTS: Final = {
    Code.SHUTDOWN_STATE: (Reason.UNREACHABLE, "supervisord is shutting down or reloading"),
    Code.BAD_NAME: (Reason.NOT_FOUND, "supervisord has no program of the configured name"),
    Code.NO_FILE: (Reason.START_FAILED, "its command does not exist"),
    Code.NOT_EXECUTABLE: (Reason.START_FAILED, "its command cannot be executed"),
    Code.ABNORMAL_TERMINATION: (Reason.START_FAILED, "it started and ended"),
    Code.SPAWN_ERROR: (Reason.START_FAILED, "it could not be started, or ended before it counted as started"),
}

_ASKS_WHO: Final = "supervisord asks for a user and a password: set `username`, and `password_file` or `password_env`"
_NOT_THIS_ONE: Final = "supervisord does not take this user and password"
_KILLED: Final = "; a supervisord that was killed leaves the programs running that it had started"
_NO_XML_RPC: Final = "what answers at the socket does not speak XML-RPC"

# What XML 1.0 cannot hold. supervisord writes a log's bytes into its answer as they are, colours and all: they travel
# through the parser as private-use characters, and a text gets them back, so that whoever cleans it sees whole escapes.
_NOT_XML: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_STAND_INS: Final = {code: chr(0xE000 + code).encode() for code in range(0x20)}
_ORIGINALS: Final = {0xE000 + code: code for code in range(0x20)}

_HEADERS: Final = {
    "User-Agent": "guideway",
    "Content-Type": "text/xml",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

# The client wants TLS settings, also where it speaks none; these trust nobody, and reading authorities takes long.
_NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Refused(Fault):
    """supervisord answered with a fault."""

    def __init__(self, code: int, text: str) -> None:
        known = _FAULTS.get(Code(code)) if code in list(Code) else None
        reason, message = known or (Reason.UNKNOWN, f"supervisord refused, with fault {code}")
        super().__init__(reason, message, text)
        self.code = code


class BrokeDown(Fault):
    """supervisord answered HTTP 500."""


class _Silent(Fault):
    """The request may have got to supervisord, and its answer did not come."""


class Unsent(Fault):
    """The request did not get as far as supervisord.

    ``may_pass``: the machine was not reached, or there is no socket, as while supervisord reloads.
    """

    def __init__(self, fault: Fault, *, may_pass: bool = False) -> None:
        super().__init__(fault.reason, fault.message, fault.output)
        self.may_pass = may_pass or isinstance(fault, WayLost)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Whom supervisord is told that we are. The password is read when it is needed, and kept nowhere."""

    username: str
    file: Path | None
    variable: str | None

    def header(self) -> str:
        """Return the value of ``Authorization`` (RFC 7617). Raises ``Fault``."""
        try:
            password = read_secret(self.file, self.variable)
        except ValueError as error:
            key = "password_env" if self.file is None else "password_file"
            raise Fault(Reason.NO_PERMISSION, f"what `{key}` names {error}") from None
        return "Basic " + base64.b64encode(f"{self.username}:{password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Server:
    """A supervisord: at ``socket`` of the machine that ``way`` leads to, else at ``url``."""

    way: Way
    url: str
    socket: Path | None = None
    credentials: Credentials | None = field(default=None, repr=False)

    async def call(self, method: str, *arguments: str | int, member: object) -> Any:
        """Call one method for a member of the way. Raises ``Fault``."""
        request = xmlrpc.client.dumps(arguments, f"supervisor.{method}")
        answer = await self._post(request.encode(), member)
        try:
            parsable = _NOT_XML.sub(lambda found: _STAND_INS[found[0][0]], answer)
            (value,), _ = xmlrpc.client.loads(parsable, use_builtin_types=True)
        except xmlrpc.client.Fault as fault:
            if type(fault.faultCode) is int:
                raise Refused(fault.faultCode, as_sent(fault.faultString)) from None
            raise Fault(Reason.UNKNOWN, _NO_XML_RPC) from fault
        except Exception as error:  # the parser names no closed list of what it raises
            raise Fault(Reason.UNKNOWN, _NO_XML_RPC) from error
        return value

    async def _post(self, body: bytes, member: object) -> bytes:
        try:
            headers = {"Authorization": self.credentials.header()} if self.credentials else {}
        except Fault as fault:
            raise Unsent(fault) from fault
        if self.socket is None:
            return await self._exchange(body, headers, None)
        try:
            passage = await self.way.open(self.socket, member)
        except Fault as fault:
            raise Unsent(fault) from fault
        try:
            return await self._exchange(body, headers, passage.path)
        except _Silent as fault:
            if (lost := passage.lost) is not None:
                raise lost from fault
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await passage.close()

    async def _exchange(self, body: bytes, headers: dict[str, str], socket: Path | None) -> bytes:
        transport = httpx2.AsyncHTTPTransport(
            uds=None if socket is None else str(socket), verify=_NO_AUTHORITIES, trust_env=False
        )
        answer = bytearray()
        try:
            async with (
                httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client,
                client.stream("POST", self.url, content=body, headers=_HEADERS | headers) as response,
            ):
                status = response.status_code
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > MOST_RESPONSE_BYTES:
                        raise Fault(Reason.UNKNOWN, f"an answer of more than {MOST_RESPONSE_BYTES} bytes is not read")
        except httpx2.ConnectError as error:
            raise _not_there(error, socket) from error
        except (httpx2.TransportError, OSError) as error:
            fault = unreachable(error, "supervisord")
            raise _Silent(fault.reason, fault.message) from error
        match status:
            case 200:
                return bytes(answer)
            case 401 | 403:
                raise Fault(Reason.NO_PERMISSION, _NOT_THIS_ONE if self.credentials else _ASKS_WHO)
            case 500:
                raise BrokeDown(Reason.UNKNOWN, "supervisord met an internal error; its own log says which")
            case _:
                raise Fault(Reason.UNKNOWN, f"what answers at the socket is not supervisord: HTTP {status}")


def as_sent(said: object) -> str:
    """Return a text of supervisord's as it was sent; empty for what is no text."""
    return said.translate(_ORIGINALS) if isinstance(said, str) else ""


def _not_there(error: httpx2.ConnectError, socket: Path | None) -> Unsent:
    fault = unreachable(error, "supervisord")
    numbers = {found.errno for found in os_errors(error)}
    if socket is not None and errno.ECONNREFUSED in numbers:  # one that ends by itself takes its socket away
        return Unsent(Fault(fault.reason, fault.message + _KILLED))
    return Unsent(fault, may_pass=errno.ENOENT in numbers)

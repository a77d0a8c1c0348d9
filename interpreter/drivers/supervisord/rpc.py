"""supervisord's XML-RPC: one request, and what its answer or its fault means.

Owns the password, the parsing, and which methods only ask. Never knows what a program's state says of it.
"""

import base64
import errno
import re
import xmlrpc.client
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors, unreachable
from guideway.interpreter.drivers.http import Answer, CutOffError, NotConnectedError, Place, Request, TooLongError
from guideway.interpreter.drivers.ways import HERE, WayLost
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

_HEADERS: Final = {"User-Agent": "guideway", "Content-Type": "text/xml", "Accept-Encoding": "identity"}

#: What only asks: it may be asked again.
_QUESTIONS: Final = frozenset(
    {"getProcessInfo", "getAllProcessInfo", "getAllConfigInfo", "tailProcessStderrLog", "tailProcessStdoutLog"}
)


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
        super().__init__(fault.reason, fault.message, fault.output, fault.mend)
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
    """A supervisord at a place."""

    place: Place
    credentials: Credentials | None = field(default=None, repr=False)

    async def call(self, method: str, *arguments: str | int, member: object) -> Any:
        """Call one method for a member of the place. Raises ``Fault``."""
        request = xmlrpc.client.dumps(arguments, f"supervisor.{method}")
        answer = await self._post(request.encode(), member, asks=method in _QUESTIONS)
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

    async def _post(self, body: bytes, member: object, *, asks: bool) -> bytes:
        try:
            headers = _HEADERS | ({"Authorization": self.credentials.header()} if self.credentials else {})
        except Fault as fault:
            raise Unsent(fault) from fault
        answer = await self._exchange(Request("POST", "/RPC2", headers, MOST_RESPONSE_BYTES, body), member, asks=asks)
        match answer.status:
            case 200:
                return answer.body
            case 401 | 403:
                raise Fault(Reason.NO_PERMISSION, _NOT_THIS_ONE if self.credentials else _ASKS_WHO)
            case 500:
                raise BrokeDown(Reason.UNKNOWN, "supervisord met an internal error; its own log says which")
            case status:
                raise Fault(Reason.UNKNOWN, f"what answers at the socket is not supervisord: HTTP {status}")

    async def _exchange(self, request: Request, member: object, *, asks: bool) -> Answer:
        sent = False

        def send() -> None:
            nonlocal sent
            sent = True

        try:
            return await (self.place.ask(request, member) if asks else self.place.act(request, member, send))
        except NotConnectedError as error:
            raise _not_there(error, self.place) from error
        except CutOffError as error:
            fault = unreachable(error, "supervisord")
            raise _Silent(fault.reason, fault.message) from error
        except TooLongError:
            message = f"an answer of more than {MOST_RESPONSE_BYTES} bytes is not read"
            raise Fault(Reason.UNKNOWN, message) from None
        except Fault as fault:  # the way's
            if sent:
                raise
            raise Unsent(fault) from fault


def as_sent(said: object) -> str:
    """Return a text of supervisord's as it was sent; empty for what is no text."""
    return said.translate(_ORIGINALS) if isinstance(said, str) else ""


def _not_there(error: NotConnectedError, place: Place) -> Unsent:
    fault = unreachable(error, "supervisord", place.socket if place.way is HERE else None)
    numbers = {found.errno for found in os_errors(error)}
    if fault.reason is Reason.NO_PERMISSION and fault.mend:
        fault.mend += "; `chmod` and `chown` of [unix_http_server] in supervisord's own configuration say who may"
    if place.socket is not None and errno.ECONNREFUSED in numbers:  # one that ends by itself takes its socket away
        return Unsent(Fault(fault.reason, fault.message + _KILLED, mend=fault.mend))
    return Unsent(fault, may_pass=errno.ENOENT in numbers)

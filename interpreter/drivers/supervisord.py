"""Services behind supervisord, over its XML-RPC interface on a unix socket or a loopback port.

Owns the translation between supervisord's states and faults and ours. Never decides whether a service is well: that
supervisord calls a process RUNNING means only that it has lived for its ``startsecs``.

One connection a call: it costs a millisecond, nothing idle is left to go stale or to be given back, and a cancelled
call can leave nothing half-read behind.
"""

import logging
import re
import ssl
import xmlrpc.client
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import AfterValidator, model_validator

from guideway.interpreter.drivers.base import DriverOptions, Fault, Observation, Phase, SocketPath, bring_back
from guideway.interpreter.drivers.causes import unreachable
from guideway.interpreter.results import Reason, State

logger = logging.getLogger(__name__)

MOST_RESPONSE_BYTES = 256 * 1024
TAIL_BYTES = 4096
_POLL_SECONDS = 0.02


class _Process(IntEnum):
    """Process states (supervisor/states.py, ProcessStates)."""

    STOPPED = 0
    STARTING = 10
    RUNNING = 20
    BACKOFF = 30
    STOPPING = 40
    EXITED = 100
    FATAL = 200
    UNKNOWN = 1000


class _Code(IntEnum):
    """Fault codes (supervisor/xmlrpc.py, Faults): those that mean something to us."""

    SHUTDOWN_STATE = 6
    BAD_NAME = 10
    NO_FILE = 20
    NOT_EXECUTABLE = 21
    ABNORMAL_TERMINATION = 40
    SPAWN_ERROR = 50
    ALREADY_STARTED = 60
    NOT_RUNNING = 70


_FAULTS = {
    _Code.SHUTDOWN_STATE: (Reason.UNREACHABLE, "supervisord is shutting down"),
    _Code.BAD_NAME: (Reason.NOT_FOUND, "supervisord has no program of the configured name"),
    _Code.NO_FILE: (Reason.START_FAILED, "its command does not exist"),
    _Code.NOT_EXECUTABLE: (Reason.START_FAILED, "its command cannot be executed"),
    _Code.ABNORMAL_TERMINATION: (Reason.START_FAILED, "it started and ended"),
    _Code.SPAWN_ERROR: (Reason.START_FAILED, "it could not be started, or ended before it counted as started"),
}

_NO_PASSWORDS = (
    "passwords are not supported yet: use a `unix_http_server` without one, whose `chmod` and `chown` let this user in"
)
_NO_XML_RPC = "what answers at the socket does not speak XML-RPC"

# What XML 1.0 cannot hold. supervisord writes a log's bytes into its answer as they are, colours and all: they travel
# through the parser as private-use characters, and a text gets them back, so that whoever cleans it sees whole escapes.
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_STAND_INS = {code: chr(0xE000 + code).encode() for code in range(0x20)}
_ORIGINALS = {0xE000 + code: code for code in range(0x20)}

_HEADERS = {"User-Agent": "guideway", "Content-Type": "text/xml", "Accept-Encoding": "identity", "Connection": "close"}

# The client wants TLS settings, also where it speaks none; these trust nobody, and reading authorities takes long.
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class SupervisordDriver:
    """One program of a supervisord. ``url`` is used over ``socket`` where there is one."""

    def __init__(self, program: str, *, url: str, socket: Path | None = None) -> None:
        self._program = program
        self._url = url
        self._socket = socket

    async def observe(self) -> Observation:
        """Return what supervisord says now. Raises ``Fault``."""
        info = await self._info()
        output = _text(info.get("spawnerr")) or _text(info.get("description"))
        pid = info.get("pid")
        identity = f"{pid}@{info.get('start')}" if pid else None
        match _Process(info["state"]):
            case _Process.RUNNING:
                return Observation(State.RUNNING, identity, output)
            case _Process.STARTING | _Process.BACKOFF:  # BACKOFF: it ended, and supervisord is about to try again
                return Observation(State.STARTING, identity, output)
            case _Process.STOPPING:
                return Observation(State.STOPPING, identity, output)
            case _Process.STOPPED:
                return Observation(State.STOPPED, None, output)
            case _Process.EXITED:  # supervisord notes an error only where the exit status was not an expected one
                return Observation(State.FAILED if info.get("spawnerr") else State.STOPPED, None, output)
            case _Process.FATAL:
                return Observation(State.FAILED, None, output)
            case _Process.UNKNOWN:
                raise Fault(Reason.UNKNOWN, "supervisord has lost track of the process", output)

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:
        """Stop, start, and return once supervisord says RUNNING. Raises ``Fault``."""
        enter(Phase.STOPPING)
        try:
            await self._accept(_Code.NOT_RUNNING, "stopProcess", True)
            # It was being stopped already, perhaps: that is waited for too, because a start in the midst of it is
            # answered with an internal error.
            await self._leave_stopping()
            enter(Phase.STARTING)
            await self._accept(_Code.ALREADY_STARTED, "startProcess", True)
        except _Refused:  # what supervisord itself says of the service holds, and asking once more would not change it
            raise
        except (Fault, anyio.get_cancelled_exc_class()):  # an answer that was lost may be that to a stop that was done
            with bring_back(end):
                await self._bring_back()
            raise

    async def tail(self) -> str:
        """Return the end of the program's standard error, else of its standard output. Raises ``Fault``."""
        return await self._log("tailProcessStderrLog") or await self._log("tailProcessStdoutLog")

    async def close(self) -> None:
        """Hold nothing between calls."""

    async def _info(self) -> dict[str, Any]:
        info = await self._call("getProcessInfo")
        # A truth value and a decimal number can equal a state too.
        if not isinstance(info, dict) or type(info.get("state")) is not int or info["state"] not in list(_Process):
            raise Fault(Reason.UNKNOWN, "what answers at the socket does not speak as supervisord does")
        return info

    async def _leave_stopping(self) -> _Process:
        """Return the state, once that is not STOPPING."""
        while True:
            if (state := _Process((await self._info())["state"])) is not _Process.STOPPING:
                return state
            await anyio.sleep(_POLL_SECONDS)

    async def _bring_back(self) -> None:
        """Ask for the start of what a restart that was broken off may have stopped. Nothing here mends the break."""
        try:
            if await self._leave_stopping() in {_Process.STOPPED, _Process.EXITED, _Process.FATAL}:
                await self._accept(_Code.ALREADY_STARTED, "startProcess", False)
        except Fault as fault:
            logger.warning("%s: stopped, and not started again: %s", self._program, fault.message)
        except anyio.get_cancelled_exc_class():
            logger.warning("%s: still stopping when the restart was given up; nothing starts it again", self._program)
            raise

    async def _accept(self, code: _Code, method: str, *arguments: int) -> None:
        """Call, and take one fault for success: what was asked for is so already."""
        try:
            await self._call(method, *arguments)
        except _Refused as fault:
            if fault.code != code:
                raise

    async def _log(self, method: str) -> str:
        """Return the end of a log, empty where there is none.

        supervisord cuts at a byte and then fails on the rest of a character: a few bytes less, and it is whole.
        """
        for length in range(TAIL_BYTES, TAIL_BYTES - 4, -1):
            try:
                answer = await self._call(method, 0, length)
            except _BrokeDown:
                continue
            return _text(answer[0]) if isinstance(answer, list) and answer else ""
        raise Fault(Reason.UNKNOWN, "supervisord cannot hand out its log, which is not UTF-8 text")

    async def _call(self, method: str, *arguments: int) -> Any:
        """Call one method for our program. Raises ``Fault``."""
        request = xmlrpc.client.dumps((self._program, *arguments), f"supervisor.{method}")
        answer = await self._post(request.encode())
        try:
            parsable = _NOT_XML.sub(lambda found: _STAND_INS[found[0][0]], answer)
            (value,), _ = xmlrpc.client.loads(parsable, use_builtin_types=True)
        except xmlrpc.client.Fault as fault:
            if type(fault.faultCode) is int:
                raise _Refused(fault.faultCode, _text(fault.faultString)) from None
            raise Fault(Reason.UNKNOWN, _NO_XML_RPC) from fault
        except Exception as error:  # the parser names no closed list of what it raises
            raise Fault(Reason.UNKNOWN, _NO_XML_RPC) from error
        return value

    async def _post(self, body: bytes) -> bytes:
        transport = httpx2.AsyncHTTPTransport(
            uds=None if self._socket is None else str(self._socket), verify=_NO_AUTHORITIES, trust_env=False
        )
        answer = bytearray()
        try:
            async with (
                httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client,
                client.stream("POST", self._url, content=body, headers=_HEADERS) as response,
            ):
                status = response.status_code
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > MOST_RESPONSE_BYTES:
                        raise Fault(Reason.UNKNOWN, f"an answer of more than {MOST_RESPONSE_BYTES} bytes is not read")
        except (httpx2.TransportError, OSError) as error:
            raise unreachable(error, "supervisord") from error
        match status:
            case 200:
                return bytes(answer)
            case 401 | 403:
                raise Fault(Reason.NO_PERMISSION, f"supervisord asks for a password; {_NO_PASSWORDS}")
            case 500:
                raise _BrokeDown(Reason.UNKNOWN, "supervisord met an internal error; its own log says which")
            case _:
                raise Fault(Reason.UNKNOWN, f"what answers at the socket is not supervisord: HTTP {status}")


class _Refused(Fault):
    """supervisord answered with a fault."""

    def __init__(self, code: int, text: str) -> None:
        known = _FAULTS.get(_Code(code)) if code in list(_Code) else None
        reason, message = known or (Reason.UNKNOWN, f"supervisord refused, with fault {code}")
        super().__init__(reason, message, text)
        self.code = code


class _BrokeDown(Fault):
    """supervisord answered HTTP 500."""


def _text(said: object) -> str:
    """Return a text of supervisord's as it was sent; empty for what is no text."""
    return said.translate(_ORIGINALS) if isinstance(said, str) else ""


def _loopback(text: str) -> str:
    parts = urlsplit(text)
    plain = parts.scheme == "http" and parts.port and parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.username is not None:
        raise ValueError(f"cannot hold a user and a password; {_NO_PASSWORDS}")
    if not plain or parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        raise ValueError("must be http://127.0.0.1:PORT: supervisord's protocol is not encrypted")
    return text.rstrip("/")


def _one_program(name: str) -> str:
    # `group:*` is a whole group to supervisord; white space and a second colon are in no name that it allows.
    if not re.fullmatch(r"[^\s:*/\x00-\x1f]+(:[^\s:*/\x00-\x1f]+)?", name):
        raise ValueError("must be a program's name, or `group:program`")
    return name


class SupervisordOptions(DriverOptions):
    """A program of a supervisord: ``socket`` or ``url`` says where that is."""

    program: Annotated[str, AfterValidator(_one_program)]
    socket: SocketPath | None = None
    url: Annotated[str, AfterValidator(_loopback)] | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.socket is None) == (self.url is None):
            raise ValueError("needs one of `socket` and `url`")
        return self

    def build(self) -> SupervisordDriver:
        """Make the driver."""
        return SupervisordDriver(self.program, url=f"{self.url or 'http://localhost'}/RPC2", socket=self.socket)

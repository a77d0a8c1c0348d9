"""The protocols that backends fulfil, the one way in which they fail, and the form of their options.

Owns what a driver and a probe are to the rest. Never reaches a backend, and never says what a state means to a program:
that is ``service``.
"""

import ipaddress
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Final, Protocol, runtime_checkable
from urllib.parse import quote

import anyio
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from guideway.interpreter.results import Reason, State

logger = logging.getLogger(__name__)


#: Stands at the end of a message to a caller where ``mend`` has more for the operator.
SAYS_WHAT_TO_GRANT: Final = "; `guideway inventory check` says what to grant"


class Fault(Exception):  # noqa: N818  # the word of the field
    """A command failed, and why. The only exception that a driver or probe raises besides cancellation.

    ``message`` is the driver's own words: lower case, no full stop. ``output`` is what the backend said: untrusted,
    cleaned and bounded by whoever shows it. ``mend`` is for whoever runs the installation and for nobody else: how to
    mend it, with values of the configuration, such as paths.
    """

    def __init__(self, reason: Reason, message: str, output: str = "", mend: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.output = output
        self.mend = mend


@contextmanager
def only_faults(name: str) -> Iterator[None]:
    """Let a ``Fault`` through, and make one of any other exception: it is logged, and its text goes no further.

    ``name`` is the host or service that was asked.
    """
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        logger.exception("%s: unforeseen exception from its driver or probe", name)
        raise Fault(Reason.UNKNOWN, "the driver failed in an unforeseen way; the log says how") from error


@dataclass(frozen=True, slots=True)
class Observation:
    """What a service manager says of a service now.

    ``identity`` is what changes when a new process or container takes over (a pid with its start time, say), None where
    nothing runs. ``output`` is the manager's own text about it: untrusted. ``completed`` is set where a restart started
    a task, which is not there to stay, and that ran to its end with success: nothing is left of it to watch.
    """

    state: State
    identity: str | None = None
    output: str = ""
    completed: bool = False


class Phase(StrEnum):
    """What a restart is waiting for, which at the deadline decides the reason of the failure; or how it broke off."""

    STOPPING = "stopping"
    REPLACING = "replacing"  # it is being stopped, and its service manager starts it afterwards by itself
    STARTING = "starting"
    BROUGHT_BACK = "brought back"  # it was broken off, and the start of what it had stopped is asked for
    LEFT_DOWN = "left down"  # it was broken off, and what it had stopped may stay stopped


#: More than supervisord waits by default before it kills what does not stop (``stopwaitsecs``, 10 s).
BRING_BACK_SECONDS = 12.0


def bring_back(end: float) -> anyio.CancelScope:
    """Return the scope in which a cancelled restart may still act: out of reach of the cancellation, and bounded."""
    return anyio.CancelScope(deadline=min(end, anyio.current_time() + BRING_BACK_SECONDS), shield=True)


class ServiceDriver(Protocol):
    """One service behind one service manager. Calls carry no deadline of their own: the caller cancels them."""

    async def observe(self) -> Observation:
        """Return what the manager says now. Cheap: it is polled. Raises ``Fault``."""
        ...

    async def restart(self, enter: Callable[[Phase], None], end: float) -> Observation | None:
        """Stop the service where it runs, start it, and return once the manager says that this is done.

        Returns what the driver saw of it then, None where it did not look. Calls ``enter`` when a phase begins.

        A cancelled restart must not leave a service down: when it is cancelled after it asked for the stop, it still
        waits for that and asks for the start, which it does not wait for, within ``bring_back(end)``; so does one that
        lost an answer of the manager's on the way. Where the manager does all that by itself (``Phase.REPLACING``),
        only what it would leave down is left to do. ``end`` is in the seconds of
        ``anyio.current_time``. Raises ``Fault``.
        """
        ...

    async def tail(self) -> str:
        """Return the end of what the service wrote, empty where the manager keeps nothing. Raises ``Fault``."""
        ...

    async def close(self) -> None:
        """Give back what the driver holds."""
        ...


@runtime_checkable
class ChecksRights(Protocol):
    """What a driver can do beside, where its service manager can be asked for it."""

    async def check_restart(self) -> None:
        """Return where this process may restart the service, and change nothing.

        Raises ``Fault``: ``no_permission``, with what to grant in its ``mend``.
        """
        ...


@runtime_checkable
class BoundsRestart(Protocol):
    """What a driver can say beside, where its service manager has bounds of its own for a restart."""

    async def longest_restart(self) -> float | None:
        """Return how many seconds the manager lets a restart take, None where that is not known. Raises ``Fault``."""
        ...


@dataclass(frozen=True, slots=True)
class Echo:
    """A probe's good answer: how it was asked (``icmp``, ``tcp``, ``http``, ``command``) and what that took in seconds.

    ``warning`` is what it warns of all the same, in its own words: untrusted, cleaned and bounded by whoever shows it.
    """

    method: str
    seconds: float
    warning: str = ""


class Probe(Protocol):
    """One way to ask whether a host or a service answers. The caller sets the deadline and cancels."""

    async def probe(self) -> Echo:
        """Return the answer. Raises ``Fault``: ``no_answer``, or ``cannot_probe`` where nothing could be sent."""
        ...


@dataclass(frozen=True, slots=True)
class FromName:
    """Marks a text of the configuration that an entry for a pattern of names may make of the name, in ``Annotated``.

    Whoever writes a program chooses that name. So a mark belongs where any name of the pattern may stand, and never
    where a file, a user, a secret or another machine's socket is named. ``is_host``: it is a host's name, or has one in
    it; ``is_url``: it is the URL of one; ``is_argument``: a program reads it, and takes what begins with ``-`` for an
    option.
    """

    is_host: bool = False
    is_url: bool = False
    is_argument: bool = False


class Options(BaseModel):
    """Part of the configuration. Nothing is coerced, and a name that is not known is an error.

    ``apart``: with the same options, two names still are two things. ``shown``: which options say what it is that is
    asked, in the order in which people read them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    apart: ClassVar[bool] = False
    shown: ClassVar[tuple[str, ...]] = ()


class DriverOptions(Options, ABC):
    """What the configuration says of a driver, for one service."""

    @abstractmethod
    def build(self) -> ServiceDriver:
        """Make the driver. Reaches nothing: it is not known yet whether the service manager is there."""

    def unit_key(self, machine: str | None = None) -> str | None:  # noqa: ARG002
        """Return what is really restarted: the same for two services that are one unit, and for no others.

        ``machine`` is the one on which the service manager is, None for this one. None is returned where each service
        is a unit of its own.
        """
        return None


def key_of(kind: str, *parts: object) -> str:
    """Return a key of parts, each of which can be anything."""
    return " ".join((kind, *(_quoted(str(part)) for part in parts)))


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else quote(part, safe="/:@.,=\\")


_VAR_RUN = re.compile(r"\A/var/run/")
_PLAIN = re.compile(r"[A-Za-z0-9_.~/:@,=\\-]*")  # what ``quote`` leaves as it is; asked of each service of a file


def real_path(path: Path, machine: str | None) -> str:
    """Return a socket's path without links, where it is on this machine: one socket may have several names.

    On another machine links are not known, but for ``/var/run``, which everywhere leads to ``/run`` (FHS 3.0, 5.13).
    """
    return _VAR_RUN.sub("/run/", os.path.normpath(path)) if machine else os.path.realpath(path)


class ProbeOptions(Options, ABC):
    """What the configuration says of a probe."""

    @abstractmethod
    def build(self) -> Probe:
        """Make the probe. Sends nothing."""


_HOSTNAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
# The system's resolver reads such a name as an address: in decimal, octal or hexadecimal, of one to four parts.
_NUMBER_AT_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")


def check_address(text: str) -> str:
    """Return a host name, or an IP address in its usual spelling, as it is. Raises ``ValueError``."""
    try:
        zone = getattr(ipaddress.ip_address(text), "scope_id", None)
        valid = zone is None or bool(_ZONE.fullmatch(zone))
    except ValueError:
        valid = len(text) <= 253 and bool(_HOSTNAME.fullmatch(text)) and not _NUMBER_AT_END.fullmatch(text)
    if not valid:
        raise ValueError("must be an IP address or a host name")
    return text


def _socket_path(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path")
    if len(os.fsencode(path)) > 107:  # sun_path, with its final zero (unix(7))
        raise ValueError("is longer than the 107 bytes that a socket's path can have")
    return path


#: An IP address or a host name.
Address = Annotated[str, AfterValidator(check_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
#: The absolute path of a unix socket.
SocketPath = Annotated[Path, Strict(False), AfterValidator(_socket_path)]

"""The protocols that backends fulfil, and the one way in which they fail."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from guideway.interpreter.results import Reason, State


class Fault(Exception):  # noqa: N818  # the word of the field
    """A command failed, and why. The only exception that a driver or probe raises besides cancellation.

    ``message`` is the driver's own words: lower case, no full stop. ``output`` is what the backend said: untrusted,
    cleaned and bounded by whoever shows it.
    """

    def __init__(self, reason: Reason, message: str, output: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.output = output


@dataclass(frozen=True, slots=True)
class Observation:
    """What a service manager says of a service now.

    ``identity`` is what changes when a new process or container takes over (a pid with its start time, say), None where
    nothing runs. ``output`` is the manager's own text about it: untrusted.
    """

    state: State
    identity: str | None = None
    output: str = ""


class Phase(StrEnum):
    """What a restart is waiting for; at the deadline it decides the reason of the failure."""

    STOPPING = "stopping"
    STARTING = "starting"


class ServiceDriver(Protocol):
    """One service behind one service manager. Calls carry no deadline of their own: the caller cancels them."""

    async def observe(self) -> Observation:
        """Return what the manager says now. Raises ``Fault``."""
        ...

    async def restart(self, enter: Callable[[Phase], None]) -> None:
        """Stop the service where it runs, start it, and return once the manager says that this is done.

        Calls ``enter`` when a phase begins. When it is cancelled after the stop, it still asks for the start, without
        waiting for it: a cancelled restart must not leave a service down. Raises ``Fault``.
        """
        ...

    async def close(self) -> None:
        """Give back what the driver holds."""
        ...


@dataclass(frozen=True, slots=True)
class Echo:
    """A probe's good answer: how it was asked (``icmp``, ``tcp``, ``http``) and the round-trip time in seconds."""

    method: str
    seconds: float


class Probe(Protocol):
    """One way to ask whether a host or a service answers."""

    async def probe(self) -> Echo:
        """Return the answer. Raises ``Fault``: ``no_answer``, or ``cannot_probe`` where nothing could be sent."""
        ...

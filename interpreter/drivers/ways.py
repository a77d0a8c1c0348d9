"""How the socket of a service manager is reached: on this machine, or on another one.

Owns what a way is to a driver, and the way that is none. Never speaks with whoever listens at a socket.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field

from guideway.interpreter.drivers.base import DriverOptions, Fault, FromName, ServiceDriver
from guideway.interpreter.results import Reason


class WayLost(Fault):
    """The machine cannot be reached, or not any more: says nothing about its service manager."""

    def __init__(self, message: str, output: str = "", mend: str = "") -> None:
        super().__init__(Reason.UNREACHABLE, message, output, mend)


class Passage(Protocol):
    """A way to one socket that stands open, for one connection, which has to be made at once."""

    @property
    def path(self) -> Path:
        """The socket of this machine at which the connection is to be made."""
        ...

    @property
    def lost(self) -> WayLost | None:
        """What broke the way off, None where that was not the way's."""
        ...

    def rest(self) -> None:
        """Give its place among the calls to others, for as long as nothing is asked."""
        ...

    async def wake(self) -> None:
        """Take a place among the calls again."""
        ...

    async def close(self) -> None:
        """End the connection. Waits for nobody on another machine."""
        ...


class Way(Protocol):
    """How sockets of one machine are reached.

    Whoever opens it is a member from then on, until they leave; the last one to leave closes what is open.
    """

    @property
    def user(self) -> str | None:
        """As whom it comes there, None for the user of this process."""
        ...

    async def open(self, socket: Path, member: object, *, lasting: bool = False) -> Passage:
        """Open the way to a socket. ``lasting``: for longer than a call. Raises ``Fault``, ``WayLost`` among others."""
        ...

    async def leave(self, member: object) -> None:
        """Be a member no more."""
        ...


class _Open:
    """A socket of this machine: there is nothing to open."""

    lost = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def rest(self) -> None:
        """Hold nothing."""

    async def wake(self) -> None:
        """Hold nothing."""

    async def close(self) -> None:
        """Hold nothing."""


class _Here:
    """This machine."""

    user = None

    async def open(self, socket: Path, member: object, *, lasting: bool = False) -> Passage:  # noqa: ARG002
        """Return the socket itself."""
        return _Open(socket)

    async def leave(self, member: object) -> None:
        """Hold nothing."""


HERE: Way = _Here()


class SocketOptions(DriverOptions, ABC):
    """What the configuration says of a driver that speaks at a unix socket: here or, over SSH, on another machine.

    ``ssh`` is the name of that machine; whoever has the ways makes the driver with ``build_over``.
    """

    ssh: Annotated[Annotated[str, Field(min_length=1)] | None, FromName()] = None

    @abstractmethod
    def build_over(self, way: Way) -> ServiceDriver:
        """Make the driver. Reaches nothing."""

    def listens_at(self) -> Path | None:
        """Return the socket of the service manager on its machine, None where it is not at one, or that is not said."""
        return None

    def build(self) -> ServiceDriver:
        """Make the driver of a service on this machine."""
        if self.ssh is not None:
            raise ValueError("a service on another machine is built over its way")
        return self.build_over(HERE)

"""Services that are containers of Docker or Podman, over the Docker-compatible API of both.

Here what the configuration says of them; ``engine`` speaks the API, ``inspected`` knows what its answers mean, and
``driver`` what is asked in which order.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from guideway.interpreter.drivers.base import FromName, ServiceDriver, SocketPath, key_of, real_path
from guideway.interpreter.drivers.container.driver import ContainerDriver
from guideway.interpreter.drivers.container.engine import engine_at
from guideway.interpreter.drivers.ways import SocketOptions, Way

#: Docker's. Nothing is guessed and no environment variable is read: what is restarted is what the configuration says.
USUAL_SOCKET = Path("/run/docker.sock")

# What both engines allow in a name. No separator is in it, so that a name is one part of a path.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")


def _one_container(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("must be a container's whole name, such as `web` or `shop-db-1`")
    return name


class ContainerOptions(SocketOptions):
    """A container by its name; ``socket`` is that of the engine which has it.

    ``task``: it is there to run to its end, and not to stay. Nothing that an engine says of a container tells that.
    """

    shown = ("container",)

    container: Annotated[str, FromName(), AfterValidator(_one_container)]
    socket: SocketPath = USUAL_SOCKET
    task: bool = False

    def unit_key(self, machine: str | None = None) -> str:
        """Return the container, with the machine and the engine's socket there."""
        return key_of("container", machine or "", real_path(self.socket, machine), self.container)

    def listens_at(self) -> Path:
        """Return the engine's socket."""
        return self.socket

    def build_over(self, way: Way) -> ServiceDriver:
        """Make the driver."""
        return ContainerDriver(self.container, engine_at(self.socket, way), is_task=self.task)

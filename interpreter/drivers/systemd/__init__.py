"""Services that are units of a systemd, over D-Bus; here what the configuration says of them.

The D-Bus library is loaded when the first of them is made: a configuration without one does not need it.
"""

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from guideway.interpreter.drivers.base import FromName, ServiceDriver, SocketPath, key_of, real_path
from guideway.interpreter.drivers.ways import SocketOptions, Way
from guideway.interpreter.extras import install

_SYSTEM_BUS = Path("/run/dbus/system_bus_socket")
_NAME = re.compile(r"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]+)?\.service")


def _one_service(name: str) -> str:
    if len(name) > 255 or not _NAME.fullmatch(name):
        raise ValueError("must be the whole name of a service unit, such as `nginx.service` or `worker@1.service`")
    return name


@cache
def _library_is_there() -> bool:
    return find_spec("dbus_fast") is not None


class SystemdOptions(SocketOptions):
    """A service unit of the system's systemd or of a user's; ``bus`` is the socket of the bus that it is on.

    ``start_new``: RESTART may start an instance of a template that is not enabled, and that systemd does not know yet.
    """

    shown = ("unit",)

    unit: Annotated[str, FromName(), AfterValidator(_one_service)]
    manager: Literal["system", "user"] = "system"
    bus: SocketPath | None = None
    start_new: bool = False

    @model_validator(mode="after")
    def _has_its_library(self) -> Self:
        if not _library_is_there():
            raise ValueError(f"needs the package `dbus-fast`: {install('systemd')}")
        if self.ssh is not None and self.manager == "user" and self.bus is None:
            raise ValueError("needs `bus`, the socket of the user's bus there, such as `/run/user/1000/bus`")
        return self

    def build_over(self, way: Way) -> ServiceDriver:
        """Make the driver."""
        from guideway.interpreter.drivers.systemd.bus import bus_at  # noqa: PLC0415  # 70 ms, for who needs it
        from guideway.interpreter.drivers.systemd.driver import SystemdDriver  # noqa: PLC0415

        bus = bus_at(self.listens_at(), way)
        return SystemdDriver(self.unit, bus, users=self.manager == "user", start_new=self.start_new)

    def unit_key(self, machine: str | None = None) -> str:
        """Return the unit, with the machine and the bus that it is on."""
        return key_of("systemd", machine or "", real_path(self.listens_at(), machine), self.unit)

    def listens_at(self) -> Path:
        """Return the socket of the bus."""
        if self.bus is not None:
            return self.bus
        if self.manager == "system":
            return _SYSTEM_BUS
        return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}", "bus")

"""The TCP probe: does a port accept a connection? It sends nothing over it, and never claims to speak for ICMP.

A refused connection is ``no_answer``: the host is up, and the message says so, but what was asked for, the port, is
not there. Whoever wants to know about the host alone configures ``icmp``.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import ValidationInfo, field_validator

from guideway.interpreter.drivers.base import Address, Echo, FromName, Port, Probe
from guideway.interpreter.probes import sockets
from guideway.interpreter.probes.addresses import USUAL, NetworkOptions, Reach, allowed


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """Connects to a port and closes again."""

    address: str
    port: int
    reach: Reach = USUAL

    async def probe(self) -> Echo:
        """Return the time that connecting took. Raises ``Fault``."""
        addresses = await sockets.resolve(self.address, self.port, self.reach)
        connected, seconds = await sockets.connect(addresses, f"port {self.port}")
        connected.close()
        return Echo("tcp", seconds)


class TcpOptions(NetworkOptions):
    """A port that has to accept connections."""

    address: Annotated[Address, FromName(is_host=True)]
    port: Port

    @field_validator("address")
    @classmethod
    def _check(cls, address: str, info: ValidationInfo) -> str:
        allowed(address, info)
        return address

    def build(self) -> Probe:
        """Make the probe."""
        return TcpProbe(self.address, self.port, self.reach())

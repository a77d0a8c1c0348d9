"""The TCP probe: does a port accept a connection? It sends nothing over it, and never claims to speak for ICMP.

A refused connection is ``no_answer``: the host is up, and the message says so, but what was asked for, the port, is
not there. Whoever wants to know about the host alone configures ``icmp``.
"""

from dataclasses import dataclass

import anyio

from guideway.interpreter.drivers.base import Address, Echo, Port, Probe, ProbeOptions
from guideway.interpreter.probes import sockets


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """Connects to a port and closes again."""

    address: str
    port: int

    async def probe(self) -> Echo:
        """Return the time that connecting took. Raises ``Fault``."""
        await sockets.resolve(self.address)
        began = anyio.current_time()
        try:
            stream = await anyio.connect_tcp(self.address, self.port)
        except OSError as error:
            raise sockets.fault(error, f"port {self.port}") from error
        seconds = anyio.current_time() - began
        await anyio.aclose_forcefully(stream)
        return Echo("tcp", seconds)


class TcpOptions(ProbeOptions):
    """A port that has to accept connections."""

    address: Address
    port: Port

    def build(self) -> Probe:
        """Make the probe."""
        return TcpProbe(self.address, self.port)

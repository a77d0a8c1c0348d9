"""The ICMP probe: does a host answer an echo request? Where none may be sent it says so, and how to allow it.

A datagram socket is tried first (no privilege, where ``net.ipv4.ping_group_range`` covers the group), then a raw one
(CAP_NET_RAW). The packets are icmplib's; its ``async_ping`` is not used, because it takes an echo request that could
not be sent for one that was not answered.
"""

import socket
from dataclasses import dataclass

import anyio
from icmplib import (  # type: ignore[import-untyped]  # it ships no types
    AsyncSocket,
    ICMPError,
    ICMPRequest,
    ICMPSocketError,
    ICMPv4Socket,
    ICMPv6Socket,
    SocketPermissionError,
    TimeoutExceeded,
)
from icmplib.utils import unique_identifier  # type: ignore[import-untyped]

from guideway.interpreter.drivers.base import Address, Echo, Fault, Probe, ProbeOptions
from guideway.interpreter.probes import sockets
from guideway.interpreter.results import Reason

_ECHOES = 3
_WAIT_SECONDS = 1.0

_HOW_TO_ALLOW = (
    "this process may not send ICMP: let `sysctl net.ipv4.ping_group_range` cover its group, or give it CAP_NET_RAW"
)


@dataclass(frozen=True, slots=True)
class IcmpProbe:
    """Sends up to three echo requests, a second apart: one lost packet does not make a host down."""

    address: str

    async def probe(self) -> Echo:
        """Return the round-trip time of the first answer. Raises ``Fault``, after about three seconds at the latest."""
        family, address = await sockets.resolve(self.address)
        with _open(family) as asked:
            for sequence in range(_ECHOES):
                request = ICMPRequest(address, unique_identifier(), sequence)
                began = anyio.current_time()
                try:
                    asked.send(request)
                except ICMPSocketError as error:
                    raise sockets.fault(error, "the host") from error
                try:
                    reply = await asked.receive(request, _WAIT_SECONDS)
                    reply.raise_for_status()
                except TimeoutExceeded:
                    continue
                except ICMPError as error:  # a gateway's word, which says that the host cannot be had
                    raise Fault(
                        Reason.NO_ANSWER, "the network reports that the host is unreachable", str(error)
                    ) from error
                except ICMPSocketError as error:
                    raise sockets.fault(error, "the host") from error
                return Echo("icmp", anyio.current_time() - began)
        raise Fault(Reason.NO_ANSWER, f"no answer to {_ECHOES} echo requests")


def _open(family: int) -> AsyncSocket:
    kind = ICMPv6Socket if family == socket.AF_INET6 else ICMPv4Socket
    for privileged in (False, True):
        try:
            return AsyncSocket(kind(privileged=privileged))
        except ICMPSocketError as error:
            refused = error
    if isinstance(refused, SocketPermissionError):
        raise Fault(Reason.CANNOT_PROBE, _HOW_TO_ALLOW) from refused
    raise sockets.fault(refused, "the host") from refused


class IcmpOptions(ProbeOptions):
    """A host that has to answer ICMP echo requests."""

    address: Address

    def build(self) -> Probe:
        """Make the probe."""
        return IcmpProbe(self.address)

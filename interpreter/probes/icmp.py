"""The ICMP probe: does a host answer an echo request? Where none may be sent it says so, and how to allow it.

A datagram socket is tried first (no privilege, where ``net.ipv4.ping_group_range`` covers the group), then a raw one
(CAP_NET_RAW). Nothing else is ever passed off as ICMP, and no command is run for it. The socket is connected: the
kernel then passes on what comes from the address that was asked, and what the network reports about the way to it.
"""

import math
import os
import socket
import struct
import sys
from collections.abc import Container
from dataclasses import dataclass
from typing import Annotated, Final

import anyio
from pydantic import ValidationInfo, field_validator

from guideway.interpreter.drivers.base import Address, Echo, Fault, FromName, Probe
from guideway.interpreter.probes import sockets
from guideway.interpreter.probes.addresses import USUAL, NetworkOptions, Reach, allowed
from guideway.interpreter.results import Reason

# About one echo request a second, as ping(8) sends them, and at least so many in what time there is: one lost packet
# does not make a host down.
_ECHOES: Final = 5
_PAUSE_SECONDS: Final = 1.0

_HOW_TO_ALLOW = (
    "this process may not send ICMP: let `sysctl net.ipv4.ping_group_range` cover its group, or give it CAP_NET_RAW"
)
# The protocol, and IP_RECVERR and IPV6_RECVERR of <linux/in.h> and <linux/in6.h>, for which the socket module has no
# names: without them most of what gateways report is not told.
_REPORTS: Final = {
    socket.AF_INET: (socket.IPPROTO_ICMP, socket.IPPROTO_IP, 11),
    socket.AF_INET6: (socket.IPPROTO_ICMPV6, socket.IPPROTO_IPV6, 25),
}


@dataclass(frozen=True, slots=True)
class IcmpProbe:
    """Sends echo requests to the first address of a host, until one is answered or the time is over.

    It has five seconds where there is no deadline.
    """

    address: str
    reach: Reach = USUAL

    async def probe(self) -> Echo:
        """Return the round-trip time of the first answer, whichever request it is to. Raises ``Fault``."""
        address = (await sockets.resolve(self.address, 0, self.reach))[0]
        seconds = sockets.time_left()
        if math.isinf(seconds):
            seconds = _ECHOES * _PAUSE_SECONDS
        echoes = max(_ECHOES, int(seconds / _PAUSE_SECONDS))
        sent: dict[int, float] = {}
        with anyio.move_on_after(seconds), _open(address) as opened:
            echo = _Echo(opened, address.family)
            for number in range(echoes):
                sequence = number & 0xFFFF
                sent[sequence] = anyio.current_time()
                echo.request(sequence)
                with anyio.move_on_after(seconds / echoes):
                    sequence = await echo.reply(sent)
                    return Echo("icmp", anyio.current_time() - sent[sequence])
        raise Fault(Reason.NO_ANSWER, f"no answer to {len(sent)} echo requests")


class _Echo:
    """Echo requests over a connected socket, and the replies to them (RFC 792, RFC 4443 section 4)."""

    def __init__(self, opened: socket.socket, family: socket.AddressFamily) -> None:
        self._socket = opened
        self._request, self._reply = (128, 129) if family == socket.AF_INET6 else (8, 0)
        self._identifier = int.from_bytes(os.urandom(2), "big")
        self._token = os.urandom(16)  # a raw socket hears the replies to everybody's requests
        self._asked = False

    def request(self, sequence: int) -> None:
        """Send a request. Raises ``Fault``."""
        # A datagram socket has the kernel put its own identifier in, and any but the raw one for IPv4 the checksum.
        head = struct.pack("!BBHHH", self._request, 0, 0, self._identifier, sequence)
        checksum = _checksum(head + self._token)
        try:
            self._socket.send(head[:2] + checksum.to_bytes(2, "big") + head[4:] + self._token)
        except OSError as error:
            raise self._fault(error) from error
        self._asked = True

    async def reply(self, sent: Container[int]) -> int:
        """Return the sequence number of the next reply to one of our requests. Raises ``Fault``."""
        while True:
            await anyio.wait_readable(self._socket)
            try:
                packet = self._socket.recv(2048)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._fault(error) from error
            if packet[:1] and packet[0] >> 4 == 4:  # the header of IPv4, which raw sockets have in front
                packet = packet[(packet[0] & 0xF) * 4 :]
            if len(packet) < 8:
                continue
            sequence: int = struct.unpack_from("!H", packet, 6)[0]
            if packet[0] == self._reply and packet[8:] == self._token and sequence in sent:
                return sequence

    def _fault(self, error: OSError) -> Fault:
        """Return what an error says: once something was sent it is the word of a gateway, or of nobody on the link."""
        if not self._asked:
            return sockets.fault(error, "the host", sent=False)
        return Fault(Reason.NO_ANSWER, f"the network reports that the host is unreachable: {sockets.words(error)}")


def _checksum(packet: bytes) -> int:
    """Return the checksum of a packet of even length (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _open(address: sockets.Address) -> socket.socket:
    protocol, level, option = _REPORTS[address.family]
    try:
        opened = _socket(address.family, protocol)
    except PermissionError as error:
        raise Fault(Reason.CANNOT_PROBE, _HOW_TO_ALLOW) from error
    except OSError as error:
        raise sockets.fault(error, "the host", sent=False) from error
    try:
        opened.setblocking(False)
        if sys.platform == "linux":
            opened.setsockopt(level, option, 1)
        opened.connect(address.name)
    except OSError as error:
        opened.close()
        raise sockets.fault(error, "the host", sent=False) from error
    return opened


def _socket(family: socket.AddressFamily, protocol: int) -> socket.socket:
    try:
        return socket.socket(family, socket.SOCK_DGRAM, protocol)
    except OSError:
        return socket.socket(family, socket.SOCK_RAW, protocol)


class IcmpOptions(NetworkOptions):
    """A host that has to answer ICMP echo requests."""

    address: Annotated[Address, FromName(is_host=True)]

    @field_validator("address")
    @classmethod
    def _check(cls, address: str, info: ValidationInfo) -> str:
        allowed(address, info)
        return address

    def build(self) -> Probe:
        """Make the probe."""
        return IcmpProbe(self.address, self.reach())

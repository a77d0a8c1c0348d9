"""Which addresses a probe may send to, and the keys that say so. What stands in the inventory decides, never an answer.

On link-local addresses clouds keep the credentials of a machine, and a name server may name one of those at any time.
So they are refused where they are written and, since a name can lead to them, once more where it was looked up. Sends
nothing itself.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import Field, ValidationInfo

from guideway.interpreter.drivers.base import ProbeOptions

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Family(StrEnum):
    """The addresses of a host that are asked."""

    ANY = "any"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True, slots=True)
class Reach:
    """Which of the addresses of a host may be sent to."""

    family: Family = Family.ANY
    link_local: bool = False


#: What is asked where the configuration says nothing.
USUAL: Final = Reach()

# Metadata services that stand elsewhere: AWS (IMDS, EKS), Google, Alibaba, Oracle, Azure.
_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    )
)
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")  # RFC 1122, section 3.2.1.3; Linux takes 0.0.0.0 for itself
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052, section 2.1
_NAT64_LOCAL: Final = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")  # RFC 4291, section 2.5.5.1
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})  # RFC 5214, section 6.1


def objection(address: IPAddress, *, link_local: bool = False) -> str | None:
    """Say why an address may not be probed, None where it may. ``link_local`` allows what can be allowed."""
    meant = getattr(address, "ipv4_mapped", None) or address  # the system itself takes the one for the other
    if meant.is_unspecified or meant in _THIS_NETWORK:
        return "is no host's address"
    if meant.is_multicast or meant == _BROADCAST:
        return "is the address of many hosts"
    if link_local:
        return None
    for one in (meant, *inside(address)):
        if one.is_link_local:
            return "is link-local, where clouds keep credentials; `link_local = true` allows it"
        if type(one)(int(one)) in _METADATA:  # without its zone
            return "is where a cloud keeps credentials; `link_local = true` allows it"
    return None


def inside(address: IPAddress) -> Iterator[IPAddress]:
    """Yield the IPv4 addresses that an IPv6 address stands for, or may stand for where there is a translator."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or address in _NAT64_LOCAL or address in _COMPATIBLE:
        yield low
    if address in _NAT64_LOCAL:  # a prefix of 48 bits goes around bits 64 to 71 (RFC 6052, section 2.2)
        yield ipaddress.IPv4Address((number >> 48 & 0xFFFF_0000) | (number >> 40 & 0xFFFF))
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield low


def parse(host: str) -> IPAddress | None:
    """Return the IP address that a text is, None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class NetworkOptions(ProbeOptions):
    """What every probe over the network can be told. ``link_local`` allows link-local addresses and metadata services.

    Subclasses check what they read of the file by ``allowed``; pydantic has read these keys by then.
    """

    link_local: bool = False
    family: Family = Field(default=Family.ANY, strict=False)

    def reach(self) -> Reach:
        """Return what these keys say."""
        return Reach(self.family, self.link_local)


def allowed(host: str, info: ValidationInfo) -> None:
    """Check a host of the configuration beside the keys of ``NetworkOptions``. Raises ``ValueError``."""
    known = info.data
    address = parse(host)
    if address is None:
        return
    if why := objection(address, link_local=known.get("link_local", False)):
        raise ValueError(f"cannot be `{host}`: it {why}")
    family = known.get("family", Family.ANY)
    if family is not Family.ANY and family != f"ipv{address.version}":
        raise ValueError(f"cannot be `{host}`: it is IPv{address.version}, and `family` is `{family}`")
    if address.version == 6 and address.is_link_local and not address.scope_id:
        raise ValueError(f"cannot be `{host}` without its interface, as in `{host}%eth0`")

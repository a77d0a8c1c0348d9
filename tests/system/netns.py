"""Hosts in network namespaces, with every trouble that a network has, made by the kernel itself and by a TUN relay.

What is lost is lost by a count and not by chance: every run sees the same packets.
"""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import pytest
from tests.system.machine import in_ci, need

TCP_PORT, HTTP_PORT = 7, 80
DELAY_SECONDS = 0.15
"""How long the relays keep a packet, each way."""

FORBIDDEN_GROUP = 54_321
"""A group that ``net.ipv4.ping_group_range`` of the namespaces does not cover; it covers group 0."""

# The last part of an address is what is wrong with the host that has it, in 10.77.0.0/24 and fd77::/64.
HOSTS = {
    "well": 10,
    "loses two of three": 11,
    "loses two of three, for another": 12,
    "refuses": 13,
    "is prohibited": 14,
    "is rejected": 15,
    "is a black hole": 16,
    "flaps": 17,
    "is not there": 18,
    "is behind the firewall of this machine": 19,
}
# Those in 10.77.2.0/24 and so on, each behind something of its own.
ROUTES = {
    "is unknown to its gateway": "10.77.2.2 fd77:2::2",
    "has its link down": "10.77.3.2 fd77:3::2",
    "is behind a link that is down here": "10.77.4.2 fd77:4::2",
    "has no route": "192.0.2.1 2001:db8::1",
    "is prohibited by a route": "10.77.5.2 fd77:5::2",
    "is far away": "10.77.6.2 fd77:6::2",
    "is far away and loses every other": "10.77.7.2 fd77:7::2",
}
LINK_LOCAL = "fe80::77"
"""The far end's link-local address, on the link ``near``."""

_SERVE = """
import asyncio, sys

async def answer(reader, writer):
    if await reader.readline():
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    writer.close()

async def main():
    for address in sys.argv[2:]:
        for port in sys.argv[1].split(","):
            await asyncio.start_server(answer, address, int(port))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
# Carries packets between two TUN devices, the second of which is put into another namespace. Keeps each for a while.
# On the way there it loses every other packet of a kind, the first among them, where it is told to.
_RELAY = """
import collections, fcntl, os, select, struct, sys, time

name, delay, loses = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "loses"
ends = [os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK) for _ in range(2)]
for end, suffix in zip(ends, "ab"):
    fcntl.ioctl(end, 0x400454CA, struct.pack("16sH", (name + suffix).encode(), 0x1001))  # TUNSETIFF
print("ready", flush=True)
counts, kept = collections.Counter(), collections.deque()

def is_lost(packet):
    protocol, inner = (packet[9], packet[20:]) if packet[0] >> 4 == 4 else (packet[6], packet[40:])
    kind = packet[0] >> 4, protocol, inner[2:4] if protocol == 6 else inner[0]
    counts[kind] += 1
    return counts[kind] % 2 == 1

while True:
    wait = max(0, kept[0][0] - time.monotonic()) if kept else None
    for end in select.select(ends, [], [], wait)[0]:
        packet = os.read(end, 65536)
        if not (loses and end == ends[0] and is_lost(packet)):
            kept.append((time.monotonic() + delay, ends[1 - ends.index(end)], packet))
    while kept and kept[0][0] <= time.monotonic():
        _, end, packet = kept.popleft()
        try:
            os.write(end, packet)
        except OSError:
            pass  # the other end is not up
"""


def need_namespaces() -> None:
    """Skip the test where no namespaces can be made: it takes root, ip and nft. In CI that is a failure."""
    need("hosts in network namespaces", {"ip": "iproute2", "nft": "nftables", "sysctl": "procps"})
    if not Path("/dev/net/tun").exists():
        (pytest.fail if in_ci() else pytest.skip)("hosts in network namespaces need /dev/net/tun")


def address(host: str, version: int) -> str:
    """Return the address of a host by what is wrong with it."""
    if host in ROUTES:
        return ROUTES[host].split()[version == 6]
    return f"10.77.0.{HOSTS[host]}" if version == 4 else f"fd77::{HOSTS[host]}"


class Network:
    """A context manager: this machine's end ``near``, most hosts in ``far``, and those behind a relay in ``away``.

    ``names`` are host names with their addresses, as ``near`` knows them.
    """

    def __init__(self, names: Mapping[str, Iterable[str]] = MappingProxyType({})) -> None:
        self._names = names
        unique = uuid.uuid4().hex[:8]
        self.near, self.far, self.away = (f"gw-{unique}-{name}" for name in ("near", "far", "away"))
        self._made: list[str] = []
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for running in self._running:
            with running:
                running.kill()
        for name in self._made:
            _run("ip", "netns", "delete", name)
        shutil.rmtree(self._etc(), ignore_errors=True)

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command on this machine's end of the network."""
        started = subprocess.Popen(
            ["ip", "netns", "exec", self.near, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self._running.append(started)
        return started

    def flap(self, *, up: bool) -> None:
        """Let the host that flaps, and that is down at first, be there or not."""
        if up:
            _run("ip", "netns", "exec", self.far, "nft", "delete table inet flap")
        else:
            self._rule(self.far, "flaps", "drop", table="flap")

    # ---- how it is made

    def _etc(self) -> Path:
        return Path("/etc/netns", self.near)  # what `ip netns exec` puts in the place of /etc

    def _make(self) -> None:
        self._etc().mkdir(parents=True)
        lines = [f"{one} {name}" for name, addresses in self._names.items() for one in addresses]
        (self._etc() / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        for name in (self.near, self.far, self.away):
            _run("ip", "netns", "add", name)
            self._made.append(name)
            _ip(name, ["link set lo up"])
            for setting in ("net.ipv4.ping_group_range=0 0", "net.ipv6.conf.default.accept_dad=0"):
                _run("ip", "netns", "exec", name, "sysctl", "-qw", setting)
        for name, link in (("near", "near"), ("dead", "dead"), ("shut", "shut")):
            _ip(self.near, [f"link add {link} type veth peer name {name} netns {self.far}"])
        addresses = [address(host, version) for host in HOSTS if host != "is not there" for version in (4, 6)]
        _ip(
            self.far,
            [f"address add {one}/{24 if '.' in one else 64} dev near" for one in (*addresses, LINK_LOCAL)]
            + ["link set near up", "link set shut up"],
        )
        # The kernel gives this end a link-local address too, but only some time after the link is up.
        _ip(self.near, ["address add fe80::1/64 dev near nodad"])
        _ip(self.near, _with_addresses("near", 0) + _with_addresses("dead", 3) + _with_addresses("shut", 4))
        _ip(self.near, ["link set shut down"])
        gateway = f"via {address('well', 4)}", f"via {address('well', 6)}"
        _ip(
            self.near,
            [
                *(f"route add 10.77.2.0/24 {gateway[0]}", f"route add fd77:2::/64 {gateway[1]}"),
                *("route add prohibit 10.77.5.0/24", "route add prohibit fd77:5::/64"),
            ],
        )
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            _run("ip", "netns", "exec", self.far, "sysctl", "-qw", setting)
        for host in ("loses two of three", "loses two of three, for another"):
            for what in ("icmp type echo-request", "icmpv6 type echo-request"):
                self._rule(self.far, host, f"{what} numgen inc mod 3 < 2 drop")
        for port in (TCP_PORT, HTTP_PORT):
            self._rule(self.far, "loses two of three", f"tcp dport {port} numgen inc mod 3 < 2 drop")
        self._rule(self.far, "is prohibited", "reject with icmpx type admin-prohibited")
        self._rule(self.far, "is rejected", "reject")
        self._rule(self.far, "is a black hole", "drop")
        self.flap(up=False)
        self._rule(self.near, "is behind the firewall of this machine", "drop", hook="output")
        self._relay("slow", 6, loses=False)
        self._relay("lossy", 7, loses=True)
        silent = ("refuses", "is not there")
        serving = [address(host, version) for host in HOSTS if host not in silent for version in (4, 6)]
        self._serve(self.far, [*serving, f"{LINK_LOCAL}%near"])
        self._serve(self.away, ["10.77.6.2", "fd77:6::2", "10.77.7.2", "fd77:7::2"])

    def _rule(self, namespace: str, host: str, rule: str, *, table: str = "trouble", hook: str = "input") -> None:
        """Have the firewall of a namespace do something with what is sent to a host."""
        lines = [f"add table inet {table}", f"add chain inet {table} {hook} {{ type filter hook {hook} priority 0; }}"]
        versions = [4] if "icmp " in rule else [6] if "icmpv6 " in rule else [4, 6]
        for version in versions:
            daddr = f"{'ip' if version == 4 else 'ip6'} daddr {address(host, version)}"
            lines.append(f"add rule inet {table} {hook} {daddr} {rule}")
        _run("ip", "netns", "exec", namespace, "nft", "-f", "-", stdin="\n".join(lines))

    def _relay(self, name: str, number: int, *, loses: bool) -> None:
        self._run_on(self.near, [sys.executable, "-c", _RELAY, name, str(DELAY_SECONDS), "loses" if loses else ""])
        _ip(self.near, [f"link set {name}b netns {self.away}", *_with_addresses(f"{name}a", number)])
        _ip(self.away, _with_addresses(f"{name}b", number, 2))

    def _serve(self, namespace: str, addresses: Iterable[str]) -> None:
        self._run_on(namespace, [sys.executable, "-c", _SERVE, f"{TCP_PORT},{HTTP_PORT}", *addresses])

    def _run_on(self, namespace: str, command: Sequence[str]) -> None:
        """Run a command in a namespace until the end, and wait until it says that it is ready."""
        running = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(running)
        assert running.stdout is not None
        if running.stdout.readline() != "ready\n":
            raise OSError(running.communicate()[1])


def _with_addresses(link: str, network: int, host: int = 1) -> list[str]:
    return [
        f"address add 10.77.{network}.{host}/24 dev {link}",
        f"address add fd77{f':{network}' if network else ''}::{host}/64 dev {link} nodad",
        f"link set {link} up",
    ]


def _ip(namespace: str, lines: Iterable[str]) -> None:
    _run("ip", "-n", namespace, "-batch", "-", stdin="\n".join(lines))


def _run(*command: str, stdin: str | None = None) -> None:
    ran = subprocess.run(command, input=stdin, text=True, capture_output=True, check=False)
    if ran.returncode != 0:
        raise OSError(f"{' '.join(command)}: {ran.stderr}")

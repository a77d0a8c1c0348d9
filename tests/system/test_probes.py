"""Every probe, of hosts with every trouble that a network has: the right outcome, and by its deadline.

Real hosts in network namespaces. All of them are asked at once; each line of the table below is one test.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.system import netns

Found = dict[str, dict[str, Any]]

# Without CAP_NET_RAW only a datagram socket can ask; in a group that may not open those, only a raw one; with both
# taken away none.
NO_RAW = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
NO_DATAGRAM = ("setpriv", f"--regid={netns.FORBIDDEN_GROUP}", "--clear-groups")
NEITHER = (*NO_RAW, *NO_DATAGRAM[1:])

# By host: what each probe finds, as the start of what is said of the host or as "answers"; for both families of
# addresses where there are not two.
_PROHIBITED = "the network reports that the host is unreachable: "
EXPECTED: dict[str, dict[str, str | tuple[str, str]]] = {
    "well": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "is on the link": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "loses two of three": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "is far away": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "is far away and loses every other": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "flaps": {"icmp": "answers", "tcp": "answers", "http": "answers"},
    "refuses": {
        "icmp": "answers",
        "tcp": "no_answer: connection refused: the host is up, nothing listens on port 7",
        "http": "no_answer: connection refused: the host is up, nothing listens on port 80",
    },
    "is prohibited": {
        "icmp": (f"no_answer: {_PROHIBITED}no route to host", f"no_answer: {_PROHIBITED}permission denied"),
        "tcp": ("no_answer: no answer from port 7: no route", "no_answer: no answer from port 7: permission denied"),
        "http": ("no_answer: no answer from port 80: no route", "no_answer: no answer from port 80: permission denied"),
    },
    "is rejected": {
        "icmp": f"no_answer: {_PROHIBITED}connection refused",
        "tcp": "no_answer: connection refused",
        "http": "no_answer: connection refused",
    },
    "is unknown to its gateway": {
        "icmp": f"no_answer: {_PROHIBITED}network is unreachable",
        "tcp": "no_answer: no answer",  # routers bound how often they say it: it may be silence
        "http": "no_answer: no answer",
    },
    "is a black hole": {
        "icmp": "no_answer: no answer to 5 echo requests",
        "tcp": "no_answer: no answer within 2 s",
        "http": "no_answer: no answer within 2 s",
    },
    "is not there": {
        "icmp": f"no_answer: {_PROHIBITED}no route to host",
        "tcp": "no_answer: no answer from port 7: no route to host",
        "http": "no_answer: no answer from port 80: no route to host",
    },
    "has its link down": {
        "icmp": f"no_answer: {_PROHIBITED}no route to host",
        "tcp": "no_answer: no answer from port 7: no route to host",
        "http": "no_answer: no answer from port 80: no route to host",
    },
    "is behind the firewall of this machine": {
        # The kernel tells of what its own firewall drops for ICMP over IPv4 only.
        "icmp": ("cannot_probe: nothing could be sent: operation not permitted", "no_answer: no answer to 5"),
        "tcp": "no_answer: no answer within 2 s",
        "http": "no_answer: no answer within 2 s",
    },
    **{
        host: dict.fromkeys(("icmp", "tcp", "http"), f"cannot_probe: nothing could be sent: {why}")
        for host, why in (
            ("has no route", "network is unreachable"),
            ("is behind a link that is down here", "network is unreachable"),
            ("is prohibited by a route", "permission denied"),
        )
    },
}
# Names have an IPv4 and an IPv6 address: one is well, the other a black hole.
NAMES = {
    "broken-ipv4.example": ("is a black hole", "well"),
    "broken-ipv6.example": ("well", "is a black hole"),
}
SILENT = {"is a black hole", "is behind the firewall of this machine", "is unknown to its gateway"}
SECONDS, SECONDS_OF_SILENCE = 12.0, 2.0
WHOLE = [
    pytest.param(host, version, probe, id=f"{probe}{version}-{host.replace(' ', '-')}")
    for host in EXPECTED
    for version in (4, 6)
    for probe in ("icmp", "tcp", "http")
    if not (host == "is on the link" and version == 4)
]
BY_RAW_SOCKET = ["well", "loses two of three, for another", "is prohibited", "is a black hole", "has no route"]


def options(probe: str, host: str) -> dict[str, Any]:
    """Return the options of a probe of an address or a name."""
    if probe == "http":
        inside = f"[{host.replace('%', '%25')}]" if ":" in host else host
        return {"url": f"http://{inside}/"}
    return {"address": host} | ({"port": netns.TCP_PORT} if probe == "tcp" else {})


def questions() -> dict[str, dict[str, Any]]:
    """Return all that is asked at once."""
    asked = {}
    for parameters in WHOLE:
        host, version, probe = parameters.values
        on_link = host == "is on the link"
        where = f"{netns.LINK_LOCAL}%near" if on_link else netns.address(str(host), int(str(version)))
        asked[f"{host} {version} {probe}"] = {
            "probe": probe,
            "seconds": SECONDS_OF_SILENCE if host in SILENT else SECONDS,
            "options": options(str(probe), where) | ({"link_local": True} if on_link else {}),
        }
    for name in NAMES:
        for probe in ("tcp", "http"):
            asked[f"{name} {probe}"] = {"probe": probe, "seconds": SECONDS, "options": options(probe, name)}
        for family in ("ipv4", "ipv6"):
            narrowed = options("icmp", name) | {"family": family}
            asked[f"{name} {family}"] = {"probe": "icmp", "seconds": SECONDS_OF_SILENCE, "options": narrowed}
    asked["metadata.example tcp"] = {"probe": "tcp", "seconds": SECONDS, "options": options("tcp", "metadata.example")}
    return asked


def echoes(hosts: list[str]) -> dict[str, dict[str, Any]]:
    """Return what is asked by ICMP, of both families of addresses."""
    return {
        f"{host} {version}": {
            "probe": "icmp",
            "seconds": SECONDS_OF_SILENCE if host in SILENT else SECONDS,
            "options": {"address": netns.address(host, version)},
        }
        for host in hosts
        for version in (4, 6)
    }


def begin(network: netns.Network, confined: tuple[str, ...], asked: Mapping[str, Any]) -> "subprocess.Popen[str]":
    """Start a program that asks."""
    started = network.start([*confined, sys.executable, "-m", "tests.system.pinging"])
    assert started.stdin is not None
    started.stdin.write(json.dumps(asked) + "\n")
    started.stdin.flush()
    return started


def wait_until_all_is_asked(started: "subprocess.Popen[str]") -> None:
    assert started.stdout is not None
    assert started.stderr is not None
    assert started.stdout.readline() == "asking\n", started.stderr.read()


def end(started: "subprocess.Popen[str]") -> Found:
    """Return what was found."""
    assert started.stdout is not None
    assert started.stderr is not None
    with started:
        out, error = started.stdout.read(), started.stderr.read()  # what it writes fits into a pipe
    assert (started.returncode, error) == (0, "")
    found: Found = json.loads(out)
    return found


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Found]]:
    """What all probes found, by the sockets that they could have, then by what was asked."""
    netns.need_namespaces()
    names = {name: [netns.address(host, 4 + 2 * at) for at, host in enumerate(NAMES[name])] for name in NAMES}
    names["metadata.example"] = ["169.254.169.254", "fd00:ec2::254"]
    with netns.Network(names) as network:
        whole = begin(network, NO_RAW, questions())
        raw = begin(network, NO_DATAGRAM, echoes(BY_RAW_SOCKET))
        neither = begin(network, NEITHER, echoes(["well"]))
        wait_until_all_is_asked(whole)
        time.sleep(1.2)
        network.flap(up=True)
        for one in (raw, neither):
            wait_until_all_is_asked(one)
        yield {"whole": end(whole), "raw": end(raw), "neither": end(neither)}


def outcome(one: dict[str, Any]) -> str:
    return f"{one['reason']}: {one['message']}" if one["reason"] else "answers"


@pytest.mark.parametrize(("host", "version", "probe"), WHOLE)
def test_each_probe_of_a_host_in_trouble(found: dict[str, Found], host: str, version: int, probe: str) -> None:
    one = found["whole"][f"{host} {version} {probe}"]
    expected = EXPECTED[host][probe]
    if isinstance(expected, tuple):
        expected = expected[version == 6]
    assert outcome(one).startswith(expected), one
    if expected == "answers":
        assert one["method"] == probe


def test_every_probe_ends_by_its_deadline(found: dict[str, Found]) -> None:
    """The slack is for a busy machine: the kernel's own patience with a silent port is two minutes."""
    asked = {"whole": questions(), "raw": echoes(BY_RAW_SOCKET), "neither": echoes(["well"])}
    for run, answers in found.items():
        assert answers.keys() == asked[run].keys()
        late = {key: one for key, one in answers.items() if one["took"] > asked[run][key]["seconds"] + 2}
        assert not late


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("probe", ["icmp", "tcp", "http"])
def test_the_round_trip_time_is_that_of_the_way_and_not_of_packets_lost_before(
    found: dict[str, Found], probe: str, version: int
) -> None:
    way = 2 * netns.DELAY_SECONDS
    assert found["whole"][f"is far away {version} {probe}"]["seconds"] >= way
    lost = found["whole"][f"is far away and loses every other {version} icmp"]
    assert (
        way <= lost["seconds"] < lost["took"] - 0.5
    )  # the first echo request was lost, and the second sent a second on


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("probe", ["tcp", "http"])
def test_a_name_with_one_address_that_is_well_answers(found: dict[str, Found], name: str, probe: str) -> None:
    assert outcome(found["whole"][f"{name} {probe}"]) == "answers"


@pytest.mark.parametrize("name", NAMES)
def test_a_family_narrows_a_name_to_its_addresses(found: dict[str, Found], name: str) -> None:
    for family, host in zip(("ipv4", "ipv6"), NAMES[name], strict=True):
        expected = "answers" if host == "well" else "no_answer: no answer to 5 echo requests"
        assert outcome(found["whole"][f"{name} {family}"]) == expected


def test_a_name_in_the_hosts_file_is_held_to_what_may_be_asked_too(found: dict[str, Found]) -> None:
    assert outcome(found["whole"]["metadata.example tcp"]).startswith("cannot_probe: the address resolves to `")


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("host", BY_RAW_SOCKET)
def test_a_raw_socket_finds_what_a_datagram_socket_finds(found: dict[str, Found], host: str, version: int) -> None:
    other = host.removesuffix(", for another")
    by_raw = outcome(found["raw"][f"{host} {version}"])
    assert by_raw == outcome(found["whole"][f"{other} {version} icmp"])


@pytest.mark.parametrize("version", [4, 6])
def test_without_either_socket_nothing_is_known_of_a_host_that_is_well(found: dict[str, Found], version: int) -> None:
    assert outcome(found["neither"][f"well {version}"]).startswith("cannot_probe: this process may not send ICMP")


def test_nothing_of_the_network_is_left(found: dict[str, Found]) -> None:
    assert found
    with netns.Network() as network:
        made = (network.near, network.far, network.away)
    assert not [name for name in made if Path("/run/netns", name).exists()]

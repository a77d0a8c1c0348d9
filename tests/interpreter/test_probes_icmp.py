"""The ICMP probe where it may send and where it may not: here, and in network namespaces that the tests make.

In a namespace of its own a process finds the kernel's default, which lets no group send ICMP over datagram sockets.
That it may send it over raw ones is taken from it with the capability.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from typing import Any

import anyio
import pytest

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.probes.icmp import IcmpProbe
from guideway.interpreter.results import Reason

_ASK = """
import json, sys, anyio
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.probes.icmp import IcmpProbe

async def main():
    try:
        with anyio.fail_after(1):
            echo = await IcmpProbe(sys.argv[1]).probe()
    except Fault as fault:
        return {"reason": fault.reason, "message": fault.message}
    return {"method": echo.method, "seconds": echo.seconds}

print(json.dumps(anyio.run(main)))
"""

_NO_RAW = "setpriv --bounding-set=-net_raw --inh-caps=-net_raw "
_ALLOW_DATAGRAM = "echo '0 0' >/proc/sys/net/ipv4/ping_group_range && "
_LOOPBACK = "ip link set lo up && "
# A network that takes every packet and brings none back.
_VOID = (
    "ip link add near type veth peer name far && ip address add 10.255.77.1/24 dev near && ip link set near up && "
    "ip link set far up && ip neighbour add 10.255.77.2 lladdr 02:00:00:00:00:02 dev near && "
)


def ask_alone(address: str, *, prepare: str = "", confine: str = "") -> dict[str, Any]:
    """Probe in a network namespace of its own, in which ``prepare`` ran first, under what ``confine`` takes away."""
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    command = prepare + "exec " + confine + shlex.join([sys.executable, "-c", _ASK, address])
    done = subprocess.run([*unshare, "sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def may_send_icmp() -> bool:
    """Say whether this process may, by asking the system itself."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).close()
        except PermissionError:
            continue
        return True
    return False


@pytest.mark.anyio
async def test_loopback_answers_or_the_probe_says_that_it_cannot_ask() -> None:
    if may_send_icmp():
        echo = await IcmpProbe("127.0.0.1").probe()
        assert echo.method == "icmp"
        assert 0 < echo.seconds < 30
    else:
        with pytest.raises(Fault) as caught:
            await IcmpProbe("127.0.0.1").probe()
        assert caught.value.reason is Reason.CANNOT_PROBE


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize(
    ("prepare", "confine"), [(_ALLOW_DATAGRAM, _NO_RAW), ("", "")], ids=["datagram only", "raw only"]
)
def test_either_kind_of_socket_suffices(address: str, prepare: str, confine: str) -> None:
    answer = ask_alone(address, prepare=_LOOPBACK + prepare, confine=confine)
    assert answer.get("method") == "icmp", answer


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_without_permission_it_cannot_probe_and_tells_how_to_allow_it(address: str) -> None:
    answer = ask_alone(address, prepare=_LOOPBACK, confine=_NO_RAW)
    assert answer["reason"] == Reason.CANNOT_PROBE
    assert "net.ipv4.ping_group_range" in answer["message"]
    assert "CAP_NET_RAW" in answer["message"]


def test_a_host_that_stays_silent_does_not_answer() -> None:
    answer = ask_alone("10.255.77.2", prepare=_VOID)
    assert answer == {"reason": Reason.NO_ANSWER, "message": "no answer to 5 echo requests"}


@pytest.mark.parametrize("prepare", ["", _ALLOW_DATAGRAM], ids=["raw", "datagram"])
def test_without_a_route_nothing_was_asked(prepare: str) -> None:
    answer = ask_alone("192.0.2.1", prepare=prepare)
    assert answer == {"reason": Reason.CANNOT_PROBE, "message": "nothing could be sent: network is unreachable"}


def test_a_route_that_forbids_is_not_a_host_that_is_down() -> None:
    answer = ask_alone("192.0.2.1", prepare=_LOOPBACK + "ip route add prohibit 192.0.2.0/24 && ")
    assert answer["reason"] == Reason.CANNOT_PROBE
    assert answer["message"].startswith("nothing could be sent: ")


@pytest.mark.anyio
async def test_a_name_that_does_not_resolve_says_nothing_about_a_host() -> None:
    with pytest.raises(Fault) as caught:
        await IcmpProbe("nowhere.invalid").probe()
    assert (caught.value.reason, caught.value.message) == (Reason.CANNOT_PROBE, "the address does not resolve")


def test_a_cancelled_probe_leaves_no_socket() -> None:
    code = """
import os, anyio
from guideway.interpreter.probes.icmp import IcmpProbe

def sockets():
    return [link for link in map(lambda fd: os.path.realpath(f"/proc/self/fd/{fd}"), os.listdir("/proc/self/fd"))
            if "socket:" in link]

async def main():
    before = sockets()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(IcmpProbe("10.255.77.2").probe)
        await anyio.sleep(0.2)
        assert len(sockets()) == len(before) + 1
        tasks.cancel_scope.cancel()
    await anyio.sleep(0)
    assert sockets() == before

anyio.run(main)
"""
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    command = _VOID + "exec " + shlex.join([sys.executable, "-c", code])
    subprocess.run([*unshare, "sh", "-c", command], check=True, timeout=60)


@pytest.mark.anyio
async def test_several_probes_at_once_do_not_take_each_others_answers() -> None:
    if not may_send_icmp():
        return
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(IcmpProbe("127.0.0.1").probe)

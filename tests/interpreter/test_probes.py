"""Probes against real sockets on loopback, and what the configuration may say of them. HTTP has a file of its own."""

import errno
import os
import resource
import socket
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import ValidationError
from tests.interpreter.loopback import OK, answering, fault_of, probe, resolving_to, serving, unused_port

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.probes import PROBES, sockets
from guideway.interpreter.results import Reason

pytestmark = pytest.mark.anyio

# ---- tcp


async def test_tcp_an_open_port_answers() -> None:
    async with serving(answering(b"")) as port:
        echo = await probe("tcp", address="127.0.0.1", port=port).probe()
        assert echo.method == "tcp"
        assert 0 < echo.seconds < 30
        assert (await probe("tcp", address="localhost", port=port).probe()).method == "tcp"


async def test_tcp_a_refused_connection_is_no_answer_and_says_that_the_host_is_up() -> None:
    port = unused_port()
    fault = await fault_of(probe("tcp", address="127.0.0.1", port=port))
    assert fault.reason is Reason.NO_ANSWER
    assert fault.message == f"connection refused: the host is up, nothing listens on port {port}"


async def test_tcp_a_name_that_does_not_resolve_says_nothing_about_a_host() -> None:
    fault = await fault_of(probe("tcp", address="nowhere.invalid", port=80))
    assert (fault.reason, fault.message) == (Reason.CANNOT_PROBE, "the address does not resolve")


async def test_tcp_a_silent_port_is_the_callers_to_end() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.socket() as filler:
        filler.connect(server.getsockname())  # fills the queue: from here on the system drops what comes
        with anyio.move_on_after(0.2) as scope:
            await probe("tcp", address="127.0.0.1", port=server.getsockname()[1]).probe()
            await probe("tcp", address="127.0.0.1", port=server.getsockname()[1]).probe()
        assert scope.cancelled_caught


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EACCES, errno.EMFILE])
async def test_only_what_was_sent_can_stay_unanswered(number: int) -> None:
    """A router that prohibits IPv6 brings the error that a missing permission is."""
    assert sockets.fault(OSError(number, "x"), "port 1").reason is Reason.NO_ANSWER
    assert sockets.fault(OSError(number, "x"), "port 1", sent=False).reason is Reason.CANNOT_PROBE


async def test_tcp_without_a_descriptor_to_spare_nothing_could_be_sent() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
    try:
        fault = await fault_of(probe("tcp", address="127.0.0.1", port=1))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert (fault.reason, fault.message) == (Reason.CANNOT_PROBE, "nothing could be sent: too many open files")


async def test_tcp_of_several_addresses_the_first_that_accepts_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(b"")) as port:
        resolving_to(monkeypatch, "::1", "127.0.0.2", "127.0.0.1")
        await probe("tcp", address="several.example", port=port).probe()
        fault = await fault_of(probe("tcp", address="several.example", port=port, family="ipv6"))
        assert fault.message.startswith("connection refused")


async def test_tcp_a_silent_address_does_not_keep_the_next_one_from_being_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.2", 0), backlog=0) as silent, socket.socket() as filler:
        filler.connect(silent.getsockname())
        port = silent.getsockname()[1]
        resolving_to(monkeypatch, "127.0.0.2", "127.0.0.2", "127.0.0.1")
        with socket.create_server(("127.0.0.1", port)):
            before = os.listdir("/proc/self/fd")
            with anyio.fail_after(30):
                await probe("tcp", address="several.example", port=port).probe()
            assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("kind", ["tcp", "http"])
async def test_a_cancelled_probe_leaves_no_socket(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with socket.create_server(("127.0.0.2", 0), backlog=0) as silent, socket.socket() as filler:
        filler.connect(silent.getsockname())
        port = silent.getsockname()[1]
        resolving_to(monkeypatch, "127.0.0.2", "::ffff:127.0.0.2")
        options = {"url": f"http://several.example:{port}/"} if kind == "http" else {"address": "several.example"}
        asked = probe(kind, **options, **({} if kind == "http" else {"port": port}))
        before = os.listdir("/proc/self/fd")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.probe)
            while len(os.listdir("/proc/self/fd")) < len(before) + 2:  # both addresses are being tried
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert os.listdir("/proc/self/fd") == before


async def test_http_a_probe_that_is_cancelled_while_it_waits_leaves_no_socket() -> None:
    accepted = anyio.Event()

    async def silent(_: Any) -> None:
        accepted.set()
        await anyio.sleep_forever()

    async with serving(silent) as port, anyio.create_task_group() as tasks:
        before = len(os.listdir("/proc/self/fd"))
        tasks.start_soon(probe("http", url=f"http://127.0.0.1:{port}/").probe)
        await accepted.wait()
        assert len(os.listdir("/proc/self/fd")) == before + 2  # the server's end among them
        tasks.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint()
    assert len(os.listdir("/proc/self/fd")) == before - 1  # nor the server's


async def test_tcp_what_was_answered_says_more_than_what_could_not_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "objection", lambda *_, **__: None)
    for order in (("255.255.255.255", "127.0.0.1"), ("127.0.0.1", "255.255.255.255")):
        resolving_to(monkeypatch, *order)  # no TCP connection can be made to the broadcast address
        fault = await fault_of(probe("tcp", address="several.example", port=unused_port()))
        assert fault.reason is Reason.NO_ANSWER
    resolving_to(monkeypatch, "255.255.255.255")
    fault = await fault_of(probe("tcp", address="several.example", port=1))
    assert (fault.reason, fault.message) == (Reason.CANNOT_PROBE, "nothing could be sent: network is unreachable")


# ---- options


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tcp", {"address": "127.0.0.1"}),
        ("tcp", {"address": "127.0.0.1", "port": 0}),
        ("tcp", {"address": "127.0.0.1", "port": 65536}),
        ("tcp", {"address": "127.0.0.1", "port": "80"}),
        ("tcp", {"address": "127.0.0.1", "port": 80, "shell": "true"}),
        ("tcp", {"address": "-oProxyCommand", "port": 80}),
        ("tcp", {"address": "a b", "port": 80}),
        ("tcp", {"address": "a/b", "port": 80}),
        ("tcp", {"address": "http://a", "port": 80}),
        ("tcp", {"address": "", "port": 80}),
        ("tcp", {"address": "a..b", "port": 80}),
        ("tcp", {"address": "256.1.1.1", "port": 80}),
        ("tcp", {"address": "a" * 64, "port": 80}),
        ("tcp", {"address": "a\n", "port": 80}),
        ("tcp", {"address": "10.0.0.1.", "port": 80}),
        ("tcp", {"address": "0x0a000001", "port": 80}),
        ("tcp", {"address": "10.0.0.0x1", "port": 80}),
        ("tcp", {"address": "167772161", "port": 80}),
        ("tcp", {"address": "a.example.7", "port": 80}),
        ("tcp", {"address": "fd00::1%a b", "port": 80}),
        ("tcp", {"address": "10.0.0.1", "port": 80, "family": "ipv6"}),
        ("tcp", {"address": "fd00::1", "port": 80, "family": "ipv4"}),
        ("tcp", {"address": "a", "port": 80, "family": "inet"}),
        ("tcp", {"address": "a", "port": 80, "link_local": "yes"}),
        ("icmp", {"address": "fe80::1", "link_local": True}),
        ("icmp", {}),
        ("icmp", {"address": "127.0.0.1\x00"}),
        ("http", {"url": "ftp://a/"}),
        ("http", {"url": "http:///path"}),
        ("http", {"url": "http://user:secret@a/"}),
        ("http", {"url": "http://a/#part"}),
        ("http", {"url": "http://a:99999/"}),
        ("http", {"url": "http://a:0/"}),
        ("http", {"url": "http://a/ b"}),
        ("http", {"url": "http://a/\r\nX: y"}),
        ("http", {"url": "http://bücher.example/"}),
        ("http", {"url": "http://a b/"}),
        ("http", {"url": "http://a\\b/"}),
        ("http", {"url": "http://%61/"}),
        ("http", {"url": "http://[10.0.0.1]/"}),
        ("http", {"url": "http://10.0.0.1/", "family": "ipv6"}),
        ("http", {"url": "http://a/", "status": 99}),
        ("http", {"url": "http://a/", "status": "200-"}),
        ("http", {"url": "http://a/", "status": "299-200"}),
        ("http", {"url": "http://a/", "status": "ok"}),
        ("http", {"url": "http://a/", "status": True}),
        ("memory", {"seconds": -1}),
    ],
)
async def test_options_that_are_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PROBES[kind].model_validate(options)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "fd00::1%eth0",
        "db",
        "1password",
        "4.example",
        "db-1.internal",
        "under_score.internal.",
        "a" * 63,
    ],
)
async def test_addresses_that_are_taken(address: str) -> None:
    PROBES["icmp"].model_validate({"address": address}).build()


async def test_every_probe_is_named_by_what_it_reports() -> None:
    async with serving(answering(OK)) as port:
        assert (await probe("tcp", address="127.0.0.1", port=port).probe()).method == "tcp"
        assert (await probe("http", url=f"http://127.0.0.1:{port}/").probe()).method == "http"
        assert (await probe("memory").probe()).method == "memory"


async def test_lookups_that_nobody_can_stop_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has names looked up that no name server answers for does not have a thread for each."""
    silent, asked = threading.Event(), []

    def ask(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        silent.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))]

    monkeypatch.setattr(sockets, "_PLACES", threading.BoundedSemaphore(3))
    monkeypatch.setattr(socket, "getaddrinfo", ask)
    faults: list[Fault] = []

    async def look_up(number: int) -> None:
        with anyio.move_on_after(0.1):
            faults.append(await fault_of(probe("tcp", address=f"host{number}.example", port=1)))

    try:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(look_up, number)
    finally:
        silent.set()
    assert len(asked) == 3
    assert {(fault.reason, fault.message) for fault in faults} == {
        (Reason.CANNOT_PROBE, "the address was not resolved in time")
    }
    # Their places are free again when the resolver has answered.
    fault = await fault_of(probe("tcp", address="later.example", port=1))
    assert fault.reason is Reason.NO_ANSWER

"""Probes against real sockets on loopback, and what the configuration may say of them."""

import errno
import os
import re
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream
from pydantic import ValidationError
from tests.server.certificates import Authority, Pair

from guideway.interpreter.drivers.base import Fault, Probe
from guideway.interpreter.probes import PROBES, http, sockets
from guideway.interpreter.results import Reason

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def probe(kind: str, **options: Any) -> Probe:
    return PROBES[kind].model_validate(options).build()


async def fault_of(asked: Probe) -> Fault:
    with pytest.raises(Fault) as caught:
        await asked.probe()
    return caught.value


def unused_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@asynccontextmanager
async def serving(handle: Callable[[Any], Awaitable[None]], tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on loopback; give the port."""

    async def one(stream: SocketStream) -> None:
        async with stream:
            try:
                if tls is None:
                    await handle(stream)
                else:
                    await handle(await TLSStream.wrap(stream, server_side=True, ssl_context=tls))
            except (anyio.BrokenResourceError, anyio.EndOfStream, ssl.SSLError):
                pass  # the probe has gone

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610  # it is not Django's
        tasks.cancel_scope.cancel()


def answering(answer: bytes, requests: list[bytes] | None = None) -> Callable[[Any], Awaitable[None]]:
    """Read a request, give one answer, and close."""

    async def handle(stream: Any) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive()
        if requests is not None:
            requests.append(request)
        await stream.send(answer)

    return handle


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


def resolving_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have the name ``several.example`` lead to addresses, in this order."""
    ask = socket.getaddrinfo

    def answer(host: str, port: int, *more: Any, **named: Any) -> Any:
        if host != "several.example":
            return ask(host, port, *more, **named)
        found = [ask(address, port, 0, socket.SOCK_STREAM)[0] for address in addresses]
        return [one for one in found if not more[0] or one[0] == more[0]]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


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


# ---- http


async def test_http_an_expected_status_answers() -> None:
    requests: list[bytes] = []
    async with serving(answering(OK, requests)) as port:
        echo = await probe("http", url=f"http://127.0.0.1:{port}/health?full=1").probe()
    assert echo.method == "http"
    assert requests[0].startswith(b"GET /health?full=1 HTTP/1.1\r\n")
    assert b"authorization" not in requests[0].lower()
    assert b"cookie" not in requests[0].lower()


@pytest.mark.parametrize(
    ("status", "expected", "good"),
    [
        (204, None, True),
        (299, None, True),
        (300, None, False),
        (503, None, False),
        (503, 503, True),
        (200, 503, False),
        (401, "200-299,401", True),
        (402, "200-299, 401", False),
        (404, "404", True),
    ],
)
async def test_http_statuses(status: int, expected: int | str | None, good: bool) -> None:
    async with serving(answering(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)) as port:
        options = {} if expected is None else {"status": expected}
        asked = probe("http", url=f"http://127.0.0.1:{port}/", **options)
        if good:
            assert (await asked.probe()).method == "http"
        else:
            fault = await fault_of(asked)
            assert fault.reason is Reason.NO_ANSWER
            assert fault.message == f"the answer was HTTP {status}, expected {expected or '200-299'}"


async def test_http_a_redirect_is_not_followed() -> None:
    followed: list[bytes] = []
    async with serving(answering(OK, followed)) as elsewhere:
        answer = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with serving(answering(answer)) as port:
            fault = await fault_of(probe("http", url=f"http://127.0.0.1:{port}/"))
    assert fault.message == "the answer was HTTP 302, expected 200-299"
    assert followed == []


async def test_http_the_environment_sets_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")
    async with serving(answering(OK)) as port:
        assert (await probe("http", url=f"http://127.0.0.1:{port}/").probe()).method == "http"


async def test_http_an_endless_body_is_not_read() -> None:
    sent = 0

    async def endless(stream: Any) -> None:
        nonlocal sent
        await answering(b"HTTP/1.1 200 OK\r\n\r\n")(stream)
        while True:
            await stream.send(bytes(65536))
            sent += 65536

    async with serving(endless) as port:
        await probe("http", url=f"http://127.0.0.1:{port}/").probe()
    assert sent < 64 * 1024 * 1024  # what the sockets' own buffers took


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 ", b"HTTP/1.1 99999 X\r\n\r\n", bytes(300)])
async def test_http_what_is_no_http_is_no_answer(answer: bytes) -> None:
    async with serving(answering(answer)) as port:
        fault = await fault_of(probe("http", url=f"http://127.0.0.1:{port}/"))
    assert fault.reason is Reason.NO_ANSWER
    assert "no HTTP answer" in fault.message


async def test_http_a_header_without_end_is_no_answer() -> None:
    async def endless(stream: Any) -> None:
        await answering(b"HTTP/1.1 200 OK\r\n")(stream)
        while True:
            await stream.send(b"X-Filler: " + b"x" * 8000 + b"\r\n")

    async with serving(endless) as port:
        assert (await fault_of(probe("http", url=f"http://127.0.0.1:{port}/"))).reason is Reason.NO_ANSWER


async def test_http_a_refused_connection_says_that_the_host_is_up() -> None:
    port = unused_port()
    fault = await fault_of(probe("http", url=f"http://127.0.0.1:{port}/"))
    assert fault.reason is Reason.NO_ANSWER
    assert fault.message == f"connection refused: the host is up, nothing listens on port {port}"


async def test_http_a_name_that_does_not_resolve_says_nothing_about_a_host() -> None:
    assert (await fault_of(probe("http", url="http://nowhere.invalid/"))).reason is Reason.CANNOT_PROBE


async def test_http_a_server_that_never_answers_is_the_callers_to_end() -> None:
    async def silent(_: Any) -> None:
        await anyio.sleep_forever()

    async with serving(silent) as port:
        with anyio.move_on_after(0.2) as scope:
            await probe("http", url=f"http://127.0.0.1:{port}/").probe()
    assert scope.cancelled_caught


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def shows(pair: Pair) -> ssl.SSLContext:
    """Return the TLS of a server that shows a certificate."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    return tls


async def test_http_a_certificate_that_nobody_vouches_for_is_not_accepted(authority: Authority) -> None:
    async with serving(answering(OK), shows(authority.server())) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/"))
    assert fault.reason is Reason.NO_ANSWER
    assert fault.message == (
        "the host answers, but its TLS certificate is not accepted: unable to get local issuer certificate"
    )


async def test_http_a_certificate_that_has_expired_is_not_accepted_and_told_from_no_answer(
    authority: Authority,
) -> None:
    expired = authority.server("expired", begins=-3, ends=-1)
    async with serving(answering(OK), shows(expired)) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/", ca_file=str(authority.file)))
    assert fault.reason is Reason.NO_ANSWER
    assert fault.message == "the host answers, but its TLS certificate is not accepted: certificate has expired"


async def test_http_a_certificate_of_the_systems_authorities_is_accepted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    http._made.cache_clear()
    try:
        async with serving(answering(OK), shows(authority.server())) as port:
            assert (await probe("http", url=f"https://localhost:{port}/").probe()).method == "http"
    finally:
        http._made.cache_clear()


async def test_http_a_certificate_is_checked_by_the_name_in_the_url_whatever_that_resolves_to(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving_to(monkeypatch, "127.0.0.1")  # which the certificate names too
    names: list[str | None] = []
    requests: list[bytes] = []
    tls = shows(authority.server())
    tls.sni_callback = lambda _, name, __: names.append(name)
    async with serving(answering(OK, requests), tls) as port:
        trusting = {"ca_file": str(authority.file)}
        await probe("http", url=f"https://localhost:{port}/", **trusting).probe()
        await probe("http", url=f"https://127.0.0.1:{port}/", **trusting).probe()
        fault = await fault_of(probe("http", url=f"https://several.example:{port}/", **trusting))
    assert "certificate is not accepted: hostname mismatch" in fault.message
    assert names == ["localhost", None, "several.example"]
    assert [re.findall(rb"(?i)^host: (.*?)\r$", request, re.MULTILINE) for request in requests] == [
        [b"localhost:%d" % port],
        [b"127.0.0.1:%d" % port],
    ]


async def test_http_a_ca_file_that_was_renewed_is_read_again(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    asked = {"url": "", "ca_file": str(file)}
    async with serving(answering(OK), shows(authority.server())) as port:
        asked["url"] = f"https://localhost:{port}/"
        fault = await fault_of(probe("http", **asked))
        assert (fault.reason, fault.message) == (
            Reason.CANNOT_PROBE,
            "`ca_file` cannot be used: no such file or directory",
        )
        file.write_text("nonsense")
        fault = await fault_of(probe("http", **asked))
        assert fault.message == "`ca_file` cannot be used: is no PEM file with certificates"
        file.write_bytes(Authority(tmp_path, "another").file.read_bytes())
        assert "not accepted" in (await fault_of(probe("http", **asked))).message
        file.write_bytes(authority.file.read_bytes())
        os.utime(file, (1, 1))
        await probe("http", **asked).probe()


async def test_http_interim_answers_are_not_the_answer_and_have_an_end() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with serving(answering(early * 2 + OK)) as port:
        await probe("http", url=f"http://127.0.0.1:{port}/").probe()

    async def endless(stream: Any) -> None:
        while True:
            await stream.send(early * 100)

    async with serving(endless) as port:
        assert (await fault_of(probe("http", url=f"http://127.0.0.1:{port}/"))).reason is Reason.NO_ANSWER


async def test_http_an_interface_in_the_url_stays_on_this_machine() -> None:
    assert http._ZONE.sub("", "[fe80::1%25eth0]:8080") == "[fe80::1]:8080"
    options = PROBES["http"].model_validate({"url": "http://[fe80::1%25lo]:1/", "link_local": True})
    assert isinstance(options, http.HttpOptions)
    assert (await fault_of(options.build())).reason is Reason.CANNOT_PROBE  # nobody on lo has that address


async def test_http_tls_spoken_to_a_plain_port_is_no_answer() -> None:
    async def plain(stream: Any) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(plain) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/"))
    assert (fault.reason, fault.message) == (
        Reason.NO_ANSWER,
        "the connection was accepted, but TLS failed on it",
    )


async def test_http_a_connection_that_is_closed_before_tls_is_told() -> None:
    async def closes(stream: Any) -> None:
        await stream.receive()

    async with serving(closes) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/"))
    assert fault.reason is Reason.NO_ANSWER
    assert fault.message == "the connection was accepted, and closed before TLS was agreed on"


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

"""Probes against real sockets on loopback, and what the configuration may say of them."""

import errno
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream
from pydantic import ValidationError

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


async def test_tcp_a_network_that_cannot_be_sent_to_says_nothing_about_a_host() -> None:
    # No TCP connection can be made to the broadcast address: the system itself says so, on any machine.
    assert (await fault_of(probe("tcp", address="255.255.255.255", port=80))).reason is Reason.CANNOT_PROBE


async def test_tcp_a_silent_port_is_the_callers_to_end() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.socket() as filler:
        filler.connect(server.getsockname())  # fills the queue: from here on the system drops what comes
        with anyio.move_on_after(0.2) as scope:
            await probe("tcp", address="127.0.0.1", port=server.getsockname()[1]).probe()
            await probe("tcp", address="127.0.0.1", port=server.getsockname()[1]).probe()
        assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ECONNREFUSED, Reason.NO_ANSWER),
        (errno.ECONNRESET, Reason.NO_ANSWER),
        (errno.ETIMEDOUT, Reason.NO_ANSWER),
        (errno.EHOSTUNREACH, Reason.NO_ANSWER),
        (errno.ENETUNREACH, Reason.CANNOT_PROBE),
        (errno.EACCES, Reason.CANNOT_PROBE),
        (errno.EPERM, Reason.CANNOT_PROBE),
        (errno.EMFILE, Reason.CANNOT_PROBE),
        (errno.EADDRNOTAVAIL, Reason.CANNOT_PROBE),
    ],
)
async def test_only_what_was_sent_can_stay_unanswered(number: int, reason: Reason) -> None:
    assert sockets.fault(OSError(number, "x"), "port 1").reason is reason
    behind = OSError("all attempts failed")
    behind.__cause__ = ExceptionGroup("several", [OSError(errno.ENETUNREACH, "no IPv6"), OSError(number, "x")])
    assert sockets.fault(behind, "port 1").reason is reason


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
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made.split(), *named], check=True, capture_output=True)
    return certificate, key


async def test_http_a_certificate_that_nobody_vouches_for_is_not_accepted(certificate: tuple[Path, Path]) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    async with serving(answering(OK), tls) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/"))
    assert fault.reason is Reason.NO_ANSWER
    assert "certificate is not accepted" in fault.message


async def test_http_a_certificate_of_the_systems_authorities_is_accepted_for_its_own_name(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    http._tls.cache_clear()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    try:
        async with serving(answering(OK), tls) as port:
            assert (await probe("http", url=f"https://localhost:{port}/").probe()).method == "http"
            fault = await fault_of(probe("http", url=f"https://127.0.0.1:{port}/"))
            assert "certificate is not accepted" in fault.message
    finally:
        http._tls.cache_clear()


async def test_http_tls_spoken_to_a_plain_port_is_no_answer() -> None:
    async def plain(stream: Any) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(plain) as port:
        fault = await fault_of(probe("http", url=f"https://localhost:{port}/"))
    assert fault.reason is Reason.NO_ANSWER


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


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "db", "db-1.internal", "under_score.internal.", "a" * 63])
async def test_addresses_that_are_taken(address: str) -> None:
    PROBES["icmp"].model_validate({"address": address}).build()


async def test_every_probe_is_named_by_what_it_reports() -> None:
    async with serving(answering(OK)) as port:
        assert (await probe("tcp", address="127.0.0.1", port=port).probe()).method == "tcp"
        assert (await probe("http", url=f"http://127.0.0.1:{port}/").probe()).method == "http"
        assert (await probe("memory").probe()).method == "memory"

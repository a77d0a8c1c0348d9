"""The HTTP probe against real servers on loopback."""

import os
import re
import ssl
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.interpreter.loopback import OK, answering, fault_of, probe, resolving_to, serving, unused_port
from tests.server.certificates import Authority, Pair
from tests.system.remains import leaving_nothing

from guideway.interpreter.probes import PROBES, http
from guideway.interpreter.results import Reason

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("secured", [False, True])
async def test_http_a_probe_that_is_cancelled_wherever_it_waits_leaves_no_socket(
    authority: Authority, secured: bool
) -> None:
    """In a TLS handshake above all; and the other end is told."""
    serves, asked = (shows(authority.server()), "https") if secured else (None, "http")
    async with serving(answering(OK), serves) as port:
        one = probe("http", url=f"{asked}://localhost:{port}/", **({"ca_file": str(authority.file)} if secured else {}))
        await one.probe()
        at, cut = 0, True
        async with leaving_nothing():
            while cut:
                at += 1
                cut = await cancelled_at(at, one.probe())
        assert at > (6 if secured else 3)

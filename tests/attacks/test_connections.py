"""Connections that ask for nothing: whoever reaches the port can open them, without a token.

The story: a head is begun and never ended, a body goes on after its answer, bytes are no HTTP, thousands connect. Every
such connection must end by itself, leave room for others, and write nothing into the operator's log.
"""

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from anyio.from_thread import start_blocking_portal

from guideway.server import http_server
from tests.server.world import World

HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ASKED = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
JUNK = {
    "no HTTP": b"\x00\x01garbage\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an upgrade": HEAD + b"Content-Length: 0\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n",
    "a WebSocket": HEAD + b"Content-Length: 0\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n",
    "no chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nnone\r\n",
    "a request, then none": ASKED + b"\x00\r\n\r\n",
}
UNENDED = {
    "nothing": b"",
    "half a head": HEAD + b"X-",
    "half a second head": ASKED + HEAD,
    "the body of a request that was answered": HEAD + b"Content-Length: 1000\r\n\r\n",
}


@pytest.fixture
def url() -> Iterator[str]:
    """Serve in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(World().serving()) as url:
        yield url


def connected(url: str) -> socket.socket:
    at = urlsplit(url)
    return socket.create_connection((str(at.hostname), at.port or 0), timeout=30)


def until_closed(stream: socket.socket) -> bytes:
    """Return what is sent until the server ends the connection; ``TimeoutError`` where it does not."""
    received = b""
    try:
        while block := stream.recv(65_536):
            received += block
    except ConnectionResetError:
        pass
    return received


def dribble(stream: socket.socket) -> None:
    for _ in range(600):
        stream.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("begun", UNENDED.values(), ids=UNENDED)
def test_a_connection_that_never_ends_its_request_is_closed(
    url: str, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    with connected(url) as stream:
        stream.sendall(begun)
        until_closed(stream)


@pytest.mark.parametrize("begun", [HEAD + b"X-", HEAD + b"Content-Length: 1000000\r\n\r\n"], ids=["head", "body"])
def test_dribbling_does_not_keep_a_connection_open(url: str, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then, of a head, or of a body whose request was answered before it came."""
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    with connected(url) as stream:
        stream.sendall(begun)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            dribble(stream)


def test_too_many_connections_cost_the_one_that_waits_longest(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks at once is still answered."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 5)
    idle = [connected(url) for _ in range(6)]
    until_closed(idle[0])
    with connected(url) as stream:
        stream.sendall(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert until_closed(stream).startswith(b"HTTP/1.1 ")
    for stream in idle:
        stream.close()


def test_what_a_peer_sends_wrong_is_not_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    for sent in JUNK.values():
        with connected(url) as stream:
            stream.sendall(sent.replace(b"127.0.0.1", urlsplit(url).netloc.encode()))
            assert until_closed(stream).startswith(b"HTTP/1.1 4")
    assert not [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]

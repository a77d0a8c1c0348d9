"""Connections that ask for nothing, and clients that read nothing: whoever reaches the port can be one.

The story: a head is begun and never ended, TLS is begun and never agreed on, a body goes on after its answer, bytes are
no HTTP, thousands connect, an answer is asked for and left where it is. Every such connection must end by itself, leave
room for others, and write nothing into the operator's log.
"""

import json
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from anyio.from_thread import start_blocking_portal

from guideway.server import app, http_server
from guideway.server.listen import listen
from guideway.server.sections import TlsSection
from guideway.server.tls import Tls
from tests.server.certificates import Authority
from tests.server.oauth.door import a_call
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


@contextmanager
def serving(world: World | None = None, **settings: Any) -> Iterator[str]:
    """Serve in a thread of its own."""
    served = (world or World()).serving(**settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(served) as url:
        yield url


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.2)
    with serving() as url:
        yield url


def connected(url: str, *, by: str = "127.0.0.1", reads: int | None = None) -> socket.socket:
    """Connect from an address; ``reads`` is how many bytes the system takes for a client that reads none."""
    at = urlsplit(url)
    stream = socket.socket()
    if reads is not None:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
    stream.settimeout(30)
    stream.bind((by, 0))
    stream.connect((str(at.hostname), at.port or 0))
    return stream


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


def test_one_address_cannot_push_out_another_s_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it has waited longer than any of theirs."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 5)
    with ExitStack() as streams:
        mine = streams.enter_context(connected(url, by="127.0.0.2"))
        theirs = [streams.enter_context(connected(url)) for _ in range(10)]
        for stream in theirs[:6]:
            until_closed(stream)
        mine.sendall(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert until_closed(mine).startswith(b"HTTP/1.1 ")


def test_a_connection_that_asks_no_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.1)
    with serving() as url, connected(url) as stream:
        stream.sendall(ASKED)
        assert until_closed(stream).startswith(b"HTTP/1.1 ")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    pair = Authority(tmp_path_factory.mktemp("tls")).server()
    return Tls(TlsSection(certificate=pair.certificate, key=pair.key))


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a hello"])
def test_tls_that_is_never_agreed_on_ends(tls: Tls, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    with serving(tls=tls) as url, connected(url) as stream:
        stream.sendall(begun)
        until_closed(stream)


def test_handshakes_are_counted_and_make_room(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand that are never ended would take every file there is; whoever comes with a request is answered."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 5)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # whose server it is does not matter here
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with serving(tls=tls) as url, ExitStack() as streams:
        idle = [streams.enter_context(connected(url)) for _ in range(20)]
        for stream in idle[:15]:
            until_closed(stream)
        with context.wrap_socket(connected(url)) as stream:
            stream.sendall(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert stream.recv(65_536).startswith(b"HTTP/1.1 ")


def asking(url: str, program: str, *, era: str, progress: bool) -> bytes:
    """Return a call, and in the older era what comes before it on the connection."""
    message, headers = a_call(program)
    if era == "legacy":
        headers = {"Accept": headers["Accept"], "Mcp-Session-Id": session(url)}
        message["params"].pop("_meta")
    if progress:
        message["params"].setdefault("_meta", {})["progressToken"] = "p"
    return posted(url, message, headers)


def posted(url: str, message: dict[str, Any], headers: dict[str, str]) -> bytes:
    body = json.dumps(message).encode()
    lines = [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Host: {urlsplit(url).netloc}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


def session(url: str) -> str:
    """Open a session of 2025-11-25; return its id."""
    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": who}
    headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
    with connected(url) as stream:
        stream.sendall(posted(url, message, headers))
        answer = until_closed(stream).decode()
    return next(line.partition(": ")[2] for line in answer.splitlines() if line.lower().startswith("mcp-session-id"))


def until_cut(stream: socket.socket) -> None:
    """Wait until the connection is reset, and read nothing of what is there to be read."""
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    assert poll.poll(30_000), "the answer still waits to be read"


def until_logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    ends = time.monotonic() + 30
    while not any(words in record.getMessage() for record in caplog.records):
        assert time.monotonic() < ends, caplog.text
        time.sleep(0.01)


MANY = 'GET_STATUS "ledger" ' * 1_000


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve where the system takes little of an answer that is not read: by itself it takes megabytes on loopback."""

    def listening(host: str, port: int) -> socket.socket:
        listener = listen(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        return listener

    monkeypatch.setattr(app, "listen", listening)
    monkeypatch.setattr(http_server, "WRITE_SECONDS", 0.3)
    world = World()
    world.database.start_seconds = 1.0
    with serving(world) as url:
        yield url


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
def test_an_answer_that_nobody_reads_is_thrown_away(narrow: str, era: str, caplog: pytest.LogCaptureFixture) -> None:
    """The run is over by then, and recorded as what it was."""
    caplog.set_level("INFO")
    with connected(narrow, reads=4_096) as stream:
        stream.sendall(asking(narrow, MANY, era=era, progress=False))
        until_cut(stream)
    until_logged(caplog, ": completed, 1000 steps")


@pytest.mark.parametrize(
    ("era", "ends"), [("2026-07-28", ": cancelled, 1001 steps"), ("legacy", ": completed, 1001 steps")]
)
def test_progress_that_nobody_reads_ends_as_a_client_does_that_has_gone(
    narrow: str, era: str, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At 2026-07-28 the run is cancelled; in older revisions, where a client may come back, it is finished."""
    caplog.set_level("INFO")
    with connected(narrow, reads=4_096) as stream:
        stream.sendall(asking(narrow, f'{MANY} RESTART "database"', era=era, progress=True))
        until_cut(stream)
    until_logged(caplog, ends)

"""Bodies that no program needs: longer than any, slower than any, in more pieces than any.

The story: whoever has a token that reads sends megabytes of JSON, so that everybody waits while they are parsed; or
begins a body, holds it back, and holds up the server's own end with it.
"""

import json
import socket
from urllib.parse import urlsplit

import pytest

from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.server import request_body
from guideway.server.oauth import gate
from guideway.server.request_body import most_bytes
from tests.attacks.oauth import wire
from tests.attacks.oauth.stage import Stage, staged
from tests.attacks.oauth.watch import listening

MOST = most_bytes(DEFAULT_LIMITS.bytes)
READ = "mcp:diag:read"
SCOPES = pytest.mark.parametrize("scope", [READ, f"{READ} mcp:diag:write"], ids=["reads", "reads and writes"])


def begun(stage: Stage, token: str, *fields: tuple[str, str], body: bytes = b"") -> socket.socket:
    """Send the head of a call whose body is still to come, and a first piece of that."""
    at = urlsplit(stage.url)
    stream = socket.create_connection((str(at.hostname), at.port or 0), timeout=30)
    head = wire.calling(stage.url, f"Bearer {token}", without=["Content-Length"], fields=fields, body=body)
    stream.sendall(head)
    return stream


def status(stream: socket.socket) -> bytes:
    with stream:
        return stream.recv(65_536).partition(b"\r\n")[0].partition(b" ")[2]


@SCOPES
@pytest.mark.parametrize("era", [[], [("MCP-Protocol-Version", wire.LEGACY)]], ids=["newest", "older"])
def test_what_is_too_long_is_never_parsed(
    stage: Stage, scope: str, era: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def parsed(*_: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(gate, "_call", parsed)
    token = stage.ground.corp.saying(scope=scope)
    with stage.untouched():
        assert status(begun(stage, token, *era, ("Content-Length", str(MOST + 1)))).startswith(b"413")
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (MOST + 1, b"[" * (MOST + 1))
        assert status(begun(stage, token, *era, ("Transfer-Encoding", "chunked"), body=chunk)).startswith(b"413")


def test_nothing_is_read_of_a_request_without_a_good_token(stage: Stage) -> None:
    assert status(begun(stage, "none", ("Content-Length", str(MOST + 1)))).startswith(b"401")


def test_the_longest_program_fits_however_it_is_spelled(stage: Stage) -> None:
    program = "#" * DEFAULT_LIMITS.bytes
    spelled = json.dumps(wire.call(program)).replace("#", "\\u0023").encode()
    assert len(spelled) > 6 * DEFAULT_LIMITS.bytes
    token = stage.ground.corp.saying(scope=READ)
    assert wire.answer(stage.url, wire.calling(stage.url, f"Bearer {token}", body=spelled)).status == 200


@SCOPES
def test_a_body_that_is_held_back_is_not_waited_for(
    stage: Stage, scope: str, monkeypatch: pytest.MonkeyPatch, heard: list[str]
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.2)
    token = stage.ground.corp.saying(scope=scope)
    assert status(begun(stage, token, ("Content-Length", "100"), body=b"{")).startswith(b"408")
    assert "Traceback" not in "\n".join(heard)


def test_a_body_in_many_pieces_is_one_body(stage: Stage) -> None:
    pieces = b"".join(b"1\r\n%c\r\n" % each for each in wire.call_bytes(wire.STATUS)) + b"0\r\n\r\n"
    token = stage.ground.corp.saying(scope=READ)
    assert status(begun(stage, token, ("Transfer-Encoding", "chunked"), body=pieces)).startswith(b"200")


@SCOPES
def test_neither_a_body_that_is_held_back_nor_a_stream_holds_up_the_end(scope: str) -> None:
    """Both are cut, and the log says nothing of it."""
    with listening() as logged:
        with staged() as stage:
            token = stage.ground.corp.saying(scope=scope)
            [session] = wire.answer(stage.url, wire.opening(stage.url, token)).all("mcp-session-id")
            streaming = begun_stream(stage, token, session)
            held = begun(stage, token, ("Content-Length", "100"), body=b"{")
            wire.answer(stage.url, wire.calling(stage.url, f"Bearer {token}", wire.call(wire.STATUS)))  # held is there
        assert status(held).startswith(b"503")
        with streaming:
            assert streaming.recv(65_536).endswith(b"0\r\n\r\n")
    said = "\n".join(logged)
    assert "Traceback" not in said
    assert "timeout graceful shutdown exceeded" not in said


def begun_stream(stage: Stage, token: str, session: str) -> socket.socket:
    at = urlsplit(stage.url)
    stream = socket.create_connection((str(at.hostname), at.port or 0), timeout=30)
    stream.sendall(wire.in_session(stage.url, token, session, b"", method="GET"))
    assert stream.recv(65_536).startswith(b"HTTP/1.1 200")
    return stream

"""Sessions of older revisions by the thousand: one caller opens them all, and nobody else gets one.

The story: opening a session takes one small request, and a session stays. Whoever has any good token opens as many as
there are: the memory is theirs, others are turned away, and the server takes minutes to stop.
"""

import json
import socket
from urllib.parse import urlsplit

import pytest

from guideway.server import sessions
from tests.attacks.oauth import wire
from tests.attacks.oauth.stage import Stage, staged

READ = "mcp:diag:read"


def opened(stage: Stage, token: str) -> str:
    [session] = wire.answer(stage.url, wire.opening(stage.url, token)).all("mcp-session-id")
    return session


def listed(stage: Stage, token: str, session: str) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).encode()
    return wire.answer(stage.url, wire.in_session(stage.url, token, session, body)).status


def streaming(stage: Stage, token: str, session: str) -> socket.socket:
    at = urlsplit(stage.url)
    stream = socket.create_connection((str(at.hostname), at.port or 0), timeout=30)
    stream.sendall(wire.in_session(stage.url, token, session, b"", method="GET"))
    assert stream.recv(65_536).startswith(b"HTTP/1.1 200")
    return stream


def test_a_caller_who_opens_too_many_loses_the_one_not_used_for_longest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_A_CALLER", 3)
    mine, theirs = (stage.ground.corp.saying(scope=READ, sub=name) for name in ("greedy", "modest"))
    other = opened(stage, theirs)
    first, second, third = (opened(stage, mine) for _ in range(3))
    assert listed(stage, mine, first) == 200  # so that the second is the one not used for longest
    fourth = opened(stage, mine)
    assert [listed(stage, mine, each) for each in (first, second, third, fourth)] == [200, 404, 200, 200]
    assert listed(stage, theirs, other) == 200


def test_a_caller_whose_sessions_are_all_in_use_is_alone_turned_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_A_CALLER", 2)
    mine, theirs = (stage.ground.corp.saying(scope=READ, sub=name) for name in ("streamer", "bystander"))
    streams = [streaming(stage, mine, opened(stage, mine)) for _ in range(2)]
    refused = wire.answer(stage.url, wire.opening(stage.url, mine))
    assert (refused.status, refused.all("retry-after")) == (429, ["60"])
    opened(stage, theirs)
    for stream in streams:
        stream.close()


def test_there_are_only_so_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    with staged() as stage:
        for name in ("first", "second"):
            opened(stage, stage.ground.corp.saying(scope=READ, sub=name))
        third = stage.ground.corp.saying(scope=READ, sub="third")
        refused = wire.answer(stage.url, wire.opening(stage.url, third))
        assert (refused.status, refused.all("retry-after")) == (503, ["60"])
        newest = wire.calling(stage.url, f"Bearer {third}", wire.call(wire.STATUS))
        assert wire.answer(stage.url, newest).status == 200  # which needs no session


def test_a_session_that_its_owner_has_ended_is_not_counted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_A_CALLER", 2)
    mine = stage.ground.corp.saying(scope=READ, sub="tidy")
    kept = opened(stage, mine)
    for _ in range(3):
        ended = wire.in_session(stage.url, mine, opened(stage, mine), b"", method="DELETE")
        assert wire.answer(stage.url, ended, method="DELETE").status == 200
    assert listed(stage, mine, kept) == 200


def test_sessions_are_ended_before_what_is_left_is_cancelled(heard: list[str]) -> None:
    """To cancel them all at once takes time by the square of their number."""
    with staged() as stage:
        names = [opened(stage, stage.ground.corp.saying(scope=READ, sub=f"caller {number}")) for number in range(20)]
    said = "\n".join(heard)
    assert "Traceback" not in said
    down = said.index("StreamableHTTP session manager shutting down")
    assert all(f"Terminating session: {name}" in said[:down] for name in names)

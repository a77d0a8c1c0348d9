"""Sessions of older revisions: an identifier that opens nothing by itself, whoever has it.

The story: a session's identifier stands in logs and is no secret. Rights are those of each request's own token, also
where the session was opened by a stronger one; and nobody uses somebody else's session.
"""

import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from guideway.server.oauth import gate
from tests.attacks.oauth import wire
from tests.attacks.oauth.forge import Mint, ec_key
from tests.attacks.oauth.stage import Stage, staged, trusted

READ = "mcp:diag:read"
BOTH = "mcp:diag:read mcp:diag:write"


def opened(stage: Stage, token: str) -> str:
    [session] = wire.answer(stage.url, wire.opening(stage.url, token)).all("mcp-session-id")
    wire.answer(stage.url, wire.in_session(stage.url, token, session, wire.INITIALIZED))
    return session


def asked(stage: Stage, token: str | None, session: str, body: bytes = b"", method: str = "POST") -> wire.Answer:
    sent = wire.in_session(stage.url, token, session, body or wire.call_bytes(), method=method)
    return wire.answer(stage.url, sent, method=method)


def told(stage: Stage, token: str, session: str) -> str:
    """Return what a caller is told of the language: the tool's description, and its grammar."""
    [tool] = asked(stage, token, session, wire.listing_bytes()).json()["result"]["tools"]
    return f"{tool['description']} {tool['_meta']}"


OTHERS: dict[str, Callable[[Stage], str]] = {
    "another person": lambda stage: stage.ground.corp.saying(sub="alice"),
    "the same name at another issuer": lambda stage: stage.ground.partner.token(),
    "the same person by another client": lambda stage: stage.ground.corp.saying(client_id="other"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_session_of_somebody_else_is_not_there(stage: Stage, other: Callable[[Stage], str]) -> None:
    """A stolen identifier, with a good token of the thief's own."""
    owner, thief = stage.ground.corp.token(), other(stage)
    session = opened(stage, owner)
    with stage.untouched():
        for method in ("POST", "GET", "DELETE"):
            answer = asked(stage, thief, session, method=method)
            assert (method, answer.status, "not found" in answer.body.decode()) == (method, 404, True)
    assert asked(stage, owner, session).status == 200  # it was not ended either


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_session_without_a_token_is_closed(stage: Stage, method: str) -> None:
    session = opened(stage, stage.ground.corp.token())
    with stage.untouched():
        answer = asked(stage, None, session, method=method)
    assert answer.status == 401
    assert "error" not in answer.challenge


def test_a_session_does_not_keep_the_rights_that_it_was_opened_with(stage: Stage) -> None:
    """Opened by a token that may restart; then a weaker one of the same caller is used, or was stolen."""
    session = opened(stage, stage.ground.corp.saying(scope=BOTH))
    reader = stage.ground.corp.saying(scope=READ)
    with stage.untouched():
        answer = asked(stage, reader, session)
        assert (answer.status, answer.challenge["error"]) == (403, "insufficient_scope")
        assert asked(stage, stage.ground.corp.saying(scope="openid"), session).status == 403
    assert "GET_STATUS" in told(stage, reader, session)
    assert "RESTART" not in told(stage, reader, session)


def test_a_session_that_was_opened_with_less_has_no_more_for_others(stage: Stage) -> None:
    """One caller steps up; what another one sees and may do in a session of theirs stays as it was."""
    mine, theirs = opened(stage, stage.ground.corp.saying(scope=READ)), stage.ground.corp.saying(scope=READ, sub="bob")
    other = opened(stage, theirs)
    assert asked(stage, stage.ground.corp.saying(scope=BOTH), mine).status == 200
    with stage.untouched():
        assert asked(stage, theirs, other).status == 403
    assert "RESTART" not in told(stage, theirs, other)


def test_a_session_does_not_change_tenants(stage: Stage) -> None:
    """The same caller, with a token for another tenant: the first one's names are gone."""
    acme, zeta = (stage.ground.corp.saying(org=f"org_{name}") for name in ("acme", "zeta"))
    session = opened(stage, acme)
    with stage.untouched():
        answer = asked(stage, zeta, session, wire.call_bytes('RESTART "shop"'))
        assert answer.status in {200, 404}
        assert "completed" not in answer.body.decode()
        assert "shop" in told(stage, acme, session)
        assert "shop" not in told(stage, zeta, session)


@pytest.mark.parametrize("session", ["", "0" * 32, "../../etc/passwd", "\u00e9", "x" * 5_000])
def test_a_session_cannot_be_guessed(stage: Stage, session: str) -> None:
    with stage.untouched():
        assert asked(stage, stage.ground.corp.token(), session).status in {400, 404}


def test_a_session_ends_for_a_token_that_has_expired() -> None:
    with staged() as first:
        issuers = trusted(first.providers, leeway_seconds=0)
        with staged(providers={}, issuers=issuers) as stage:
            mint = Mint(first.ground.corp.issuer, stage.url, first.ground.corp.key)
            ends = int(time.time()) + 2
            token = mint.saying(exp=ends)
            session = opened(stage, token)
            assert asked(stage, token, session, wire.listing_bytes()).status == 200
            while time.time() < ends:
                time.sleep(0.05)
            with stage.untouched():
                for method in ("POST", "GET", "DELETE"):
                    answer = asked(stage, token, session, method=method)
                    assert (answer.status, answer.challenge["error_description"]) == (401, "the token has expired")
            assert asked(stage, mint.token(), session).status == 200  # the caller's next token goes on


def test_a_stream_ends_with_the_key_that_signed_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer withdraws a stolen key; a stream that was opened before must not go on until its token's end."""
    monkeypatch.setattr(gate, "CHECK_SECONDS", 0.1)
    with staged() as stage:
        token = stage.ground.corp.token()
        session = opened(stage, token)
        at = urlsplit(stage.url)
        with socket.create_connection((str(at.hostname), at.port or 0), timeout=30) as stream:
            stream.sendall(wire.in_session(stage.url, token, session, b"", method="GET"))
            assert stream.recv(65_536).startswith(b"HTTP/1.1 200")
            provider = stage.providers["corp"]
            provider.keys.clear()
            renewed = ec_key("corp-renewed")
            provider.publish(renewed)
            unknown = Mint(stage.ground.corp.issuer, stage.url, renewed).token()
            assert asked(stage, unknown, opened(stage, unknown)).status == 200  # the keys are asked for again
            assert stream.recv(65_536).endswith(b"0\r\n\r\n")
        assert asked(stage, token, session).status == 401

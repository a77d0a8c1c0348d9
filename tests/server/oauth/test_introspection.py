"""Opaque tokens: what must be said of them, how long that is believed, and the secret that asking takes."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from guideway.dsl.scopes import Scope
from guideway.server.oauth.introspection import MOST_INACTIVE, STRANGERS_AT_ONCE, read_secret
from guideway.server.sections import IntrospectionSection, TenantSection
from tests.server.oauth.issuer import CLIENT_SECRET, MISSING, Issuer
from tests.server.oauth.trusting import Clock, refusal, retry_after, subject, trusting

NOT_ACTIVE: Final = "the token is not active"
THUMBPRINT: Final = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
BOUND: Final = {"token_type": "DPoP", "cnf": {"jkt": THUMBPRINT}}


@pytest.mark.anyio
async def test_the_issuers_answer_says_who_is_behind_a_token(issuer: Issuer) -> None:
    tenants = {"acme": TenantSection(members={"corp": frozenset({"org_1"})})}
    async with trusting(issuer.opaque_section(tenant_claim="org_id"), tenants=tenants) as trusted:
        token = issuer.opaque_token(org_id="org_1", **BOUND)
        verified = await trusted.verify(token)
    caller = verified.principal
    assert (caller.subject, caller.client, caller.scopes) == ("alice", "laptop", frozenset({Scope.READ}))
    assert (caller.issuer, caller.tenant, verified.key_thumbprint) == (issuer.url, "acme", THUMBPRINT)
    assert caller.expires_at == issuer.opaque_tokens[token]["exp"] + 30


@pytest.mark.anyio
async def test_the_endpoint_can_be_named(issuer: Issuer) -> None:
    section = issuer.opaque_section(introspection={"endpoint": f"{issuer.origin}/introspection"})
    async with trusting(section) as trusted:
        assert await subject(trusted, issuer.opaque_token()) == "alice"
    assert issuer.requests == {"introspection": 1}


@pytest.mark.anyio
async def test_a_person_who_is_named_by_username_alone_is_that(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section()) as trusted:
        assert await subject(trusted, issuer.opaque_token(sub=MISSING, username="bob")) == "bob"
        assert await subject(trusted, issuer.opaque_token(username="bob")) == "alice"
        assert (
            await refusal(trusted, issuer.opaque_token(sub=None, username="bob")) == "the token has no proper subject"
        )


@pytest.mark.anyio
@pytest.mark.parametrize("left_out", ["iss", "client_id", "iat", "jti", "token_type", "scope"])
async def test_what_the_standard_leaves_open_and_nothing_needs_may_be_missing(issuer: Issuer, left_out: str) -> None:
    async with trusting(issuer.opaque_section()) as trusted:
        assert await subject(trusted, issuer.opaque_token(**{left_out: MISSING})) == "alice"


REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "inactive": ({"active": False}, NOT_ACTIVE),
    "active in words": ({"active": "true"}, NOT_ACTIVE),
    "active as a number": ({"active": 1}, NOT_ACTIVE),
    "active or not": ({"active": MISSING}, NOT_ACTIVE),
    "of another issuer": ({"iss": "https://login.example.com"}, "the token is from another issuer"),
    "of no proper issuer": ({"iss": None}, "the token is from another issuer"),
    "for another audience": ({"aud": "https://other.example.com"}, "the token is for another audience"),
    "for no audience": ({"aud": MISSING}, "the token has no proper audience"),
    "without end": ({"exp": MISSING}, "the token does not say when it expires"),
    "expired": ({"exp": 1_000}, "the token has expired"),
    "not valid yet": ({"nbf": 9_999_999_999}, "the token is not valid yet"),
    "of nobody": ({"sub": MISSING}, "the token has no proper subject"),
    "of a client without name": ({"client_id": ""}, "the token has no proper client"),
    "for refreshing": ({"token_type": "refresh_token"}, "the token is not an access token"),
    "of a type of null": ({"token_type": None}, "the token is not an access token"),
    "bound to a key that is not named": (
        {"token_type": "DPoP"},
        "the token is bound to a key that the issuer does not name",
    ),
    "bound to a certificate": ({"cnf": {"x5t#S256": "x"}}, "the token is bound in a way that is not supported"),
    "scopes in a list": ({"scope": ["mcp:diag:read"]}, "the token has scopes in a form that is not theirs"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("changes", "why"), REFUSED.values(), ids=REFUSED)
async def test_a_token_is_refused_that_is_said_to_be(issuer: Issuer, changes: dict[str, Any], why: str) -> None:
    async with trusting(issuer.opaque_section()) as trusted:
        assert await refusal(trusted, issuer.opaque_token(**changes)) == why


@pytest.mark.anyio
async def test_a_token_that_the_issuer_does_not_know_is_refused(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section()) as trusted:
        assert await refusal(trusted, "2YotnFZFEjr1zCsicMWpAA") == NOT_ACTIVE


# For how long


@pytest.mark.anyio
async def test_a_revoked_token_is_believed_for_as_long_as_the_answer_and_no_longer(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(introspection={"cache_seconds": 20}), clock=clock) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        del issuer.opaque_tokens[token]
        clock.later += 19
        assert await subject(trusted, token) == "alice"
        assert issuer.requests["introspection"] == 1
        clock.later += 2
        assert await refusal(trusted, token) == NOT_ACTIVE


@pytest.mark.anyio
async def test_an_answer_is_never_believed_beyond_the_tokens_expiry(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(introspection={"cache_seconds": 300}), clock=clock) as trusted:
        token = issuer.opaque_token(exp=int(clock.now()) + 60)
        await trusted.verify(token)
        clock.later += 91
        assert await refusal(trusted, token) == "the token has expired"


@pytest.mark.anyio
async def test_without_a_cache_every_call_asks(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section(introspection={"cache_seconds": 0})) as trusted:
        token = issuer.opaque_token()
        for _ in range(3):
            await trusted.verify(token)
    assert issuer.requests["introspection"] == 3


@pytest.mark.anyio
async def test_a_burst_with_one_token_asks_once(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section()) as trusted, anyio.create_task_group() as tasks:
        token = issuer.opaque_token()
        for _ in range(40):
            tasks.start_soon(subject, trusted, token)
    assert issuer.requests == {"metadata": 1, "introspection": 1}


@pytest.mark.anyio
async def test_an_issuer_is_asked_about_few_tokens_at_once_and_about_all_in_turn(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section(), request=30) as trusted, anyio.create_task_group() as tasks:
        await trusted.verify(issuer.opaque_token())
        issuer.stuck.add("introspection")
        for _ in range(25):
            tasks.start_soon(subject, trusted, issuer.opaque_token())
        while issuer.requests["introspection"] < 1 + STRANGERS_AT_ONCE:
            await anyio.sleep(0.005)
        await anyio.sleep(0.05)
        assert issuer.requests["introspection"] == 1 + STRANGERS_AT_ONCE
        issuer.stuck.clear()
    assert issuer.requests["introspection"] == 26


@pytest.mark.anyio
async def test_an_inactive_token_is_not_asked_about_at_once_again(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(), clock=clock) as trusted:
        for _ in range(3):
            await refusal(trusted, "unknown")
        assert issuer.requests["introspection"] == 1
        issuer.opaque_tokens["unknown"] = issuer.opaque_tokens.pop(issuer.opaque_token())
        clock.later += 11
        assert await subject(trusted, "unknown") == "alice"


@pytest.mark.anyio
async def test_what_is_remembered_of_inactive_tokens_is_bounded(issuer: Issuer) -> None:
    async with trusting(issuer.opaque_section()) as trusted:
        asks = next(iter(trusted._answering.values()))
        for number in range(MOST_INACTIVE + 100):
            asks._remember_inactive(number.to_bytes(4, "big"))
        assert len(asks._inactive) == MOST_INACTIVE


# Outages


@pytest.mark.anyio
async def test_in_an_outage_verified_tokens_go_on_for_an_hour_and_others_wait(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(), clock=clock) as trusted:
        token = issuer.opaque_token(exp=int(clock.now()) + 9_000)
        await trusted.verify(token)
        issuer.stop()
        clock.later += 3_500
        assert await subject(trusted, token) == "alice"
        assert await retry_after(trusted, issuer.opaque_token()) == 10
        clock.later += 200
        assert await retry_after(trusted, token) == 10


@pytest.mark.anyio
async def test_in_an_outage_no_token_goes_on_beyond_its_expiry(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(), clock=clock) as trusted:
        token = issuer.opaque_token(exp=int(clock.now()) + 60)
        await trusted.verify(token)
        issuer.stop()
        clock.later += 91
        assert await retry_after(trusted, token)


@pytest.mark.anyio
async def test_a_token_that_was_revoked_does_not_come_back_in_an_outage(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(introspection={"cache_seconds": 1}), clock=clock) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        del issuer.opaque_tokens[token]
        clock.later += 2
        assert await refusal(trusted, token) == NOT_ACTIVE
        issuer.stop()
        clock.later += 20
        assert await retry_after(trusted, token)


@pytest.mark.anyio
async def test_an_issuer_that_is_gone_is_asked_once_a_gap(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with trusting(issuer.opaque_section(), clock=clock, request=0.5) as trusted:
        await trusted.verify(issuer.opaque_token())
        issuer.stuck.add("introspection")
        for _ in range(3):
            assert await retry_after(trusted, issuer.opaque_token()) == 10
        assert issuer.requests["introspection"] == 2
        issuer.stuck.clear()
        clock.later += 11
        assert await subject(trusted, issuer.opaque_token()) == "alice"
    assert [record.getMessage() for record in caplog.records] == [
        f"[issuers.corp] does not say whether tokens are good: {SILENT} ({issuer.origin}/introspection)",
        "[issuers.corp] answers again",
    ]


SILENT: Final = "it did not answer in time"
SPOILT: Final[dict[str, Callable[[], Response]]] = {
    "a redirect": lambda: RedirectResponse("/elsewhere", 307),
    "an error": lambda: Response(status_code=500),
    "a refusal of the credentials": lambda: JSONResponse({"error": "invalid_client"}, 401),
    "no JSON": lambda: Response("active"),
    "a signed answer": lambda: Response("e30.e30.", media_type="application/token-introspection+jwt"),
    "two answers": lambda: Response('{"active": false, "active": true}'),
    "too much": lambda: Response(b" " * 1_000_000 + b'{"active": true}'),
}


@pytest.mark.anyio
@pytest.mark.parametrize("reply", SPOILT.values(), ids=SPOILT)
async def test_an_answer_that_is_none_is_no_pass_and_no_outage_for_other_tokens(
    issuer: Issuer, reply: Callable[[], Response], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever finds a token that an issuer stumbles over must not lock the others out."""
    async with trusting(issuer.opaque_section()) as trusted:
        issuer.replies["introspection"] = reply
        for _ in range(3):
            await retry_after(trusted, issuer.opaque_token())
        del issuer.replies["introspection"]
        assert await subject(trusted, issuer.opaque_token()) == "alice"
    assert len(caplog.records) == 1  # nor fill the log


# The secret


@pytest.mark.anyio
async def test_the_secret_may_stand_in_a_file(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{CLIENT_SECRET}\n")
    file.chmod(0o640)
    asks = {"client_secret_env": None, "client_secret_file": file}
    async with trusting(issuer.opaque_section(introspection=asks)) as trusted:
        assert await subject(trusted, issuer.opaque_token()) == "alice"


@pytest.mark.anyio
async def test_a_wrong_secret_is_no_pass_and_is_told(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GUIDEWAY_TEST_SECRET", "wrong-marker")
    token = issuer.opaque_token()
    async with trusting(issuer.opaque_section()) as trusted:
        await retry_after(trusted, token)
    assert "[issuers.corp] does not say whether tokens are good: it answered HTTP 401" in caplog.text
    assert "marker" not in caplog.text
    assert token not in caplog.text


def written(tmp_path: Path, content: bytes, mode: int = 0o600) -> IntrospectionSection:
    file = tmp_path / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return IntrospectionSection(client_id="guideway", client_secret_file=file)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"marker", 0o644, "can be read or written by anybody: chmod o= "),
        (b"marker", 0o602, "can be read or written by anybody: chmod o= "),
        (b"", 0o600, "is empty or not set"),
        (b"\n", 0o600, "is empty or not set"),
        (b"\xff", 0o600, "is not UTF-8"),
        (b"marker\nmarker\n", 0o600, "holds no secret: it must be one line of at most 4,096 characters"),
        (b"marker" * 1_000, 0o600, "holds no secret: it must be one line of at most 4,096 characters"),
    ],
)
def test_a_file_with_no_proper_secret_is_told_at_the_start(tmp_path: Path, content: bytes, mode: int, why: str) -> None:
    with pytest.raises(ValueError, match=r"^\[issuers.corp.introspection\] `client_secret_file`: `/") as error:
        read_secret("corp", written(tmp_path, content, mode))
    assert why in str(error.value)
    assert "marker" not in str(error.value)


def test_a_file_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    asks = IntrospectionSection(client_id="guideway", client_secret_file=tmp_path / "none")
    with pytest.raises(ValueError, match=r"`client_secret_file`: .* cannot be read: no such file or directory"):
        read_secret("corp", asks)


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set_is_told_at_the_start(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("GUIDEWAY_TEST_SECRET")
    if value is not None:
        monkeypatch.setitem(os.environ, "GUIDEWAY_TEST_SECRET", value)
    told = (
        r"^\[issuers.corp.introspection\] `client_secret_env`: the environment variable `GUIDEWAY_TEST_SECRET` is empty"
    )
    with pytest.raises(ValueError, match=told):
        trusting(issuer.opaque_section())

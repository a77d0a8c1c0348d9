"""What the SDK gets to see of a verified token."""

import pytest
from mcp.server.auth.provider import principal_components

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.server.oauth.sdk_token import VerifiedToken, sdk_token
from guideway.server.oauth.verified import Verified
from guideway.server.sections import IssuerSection

ISSUER = "https://login.example.com"
RESOURCE = "https://diag.example.com/mcp"
CALLER = Principal("alice", frozenset(Scope), ISSUER, "laptop", None, 1_800_000_000.9)


@pytest.fixture
def token() -> VerifiedToken:
    return sdk_token("very.secret.token", Verified(CALLER, IssuerSection(issuer=ISSUER)), RESOURCE)


def test_the_sdk_finds_everything_that_it_tells_callers_apart_by(token: VerifiedToken) -> None:
    assert principal_components(token) == ("laptop", ISSUER, "alice")
    assert token.resource == RESOURCE


def test_the_expiry_is_the_callers_in_whole_seconds(token: VerifiedToken) -> None:
    assert token.expires_at == 1_800_000_000


def test_the_caller_goes_with_the_token(token: VerifiedToken) -> None:
    assert token.verified.principal is CALLER


def test_the_scopes_are_those_of_guideway(token: VerifiedToken) -> None:
    assert token.scopes == sorted(Scope)


@pytest.mark.parametrize("shown", [repr, str, VerifiedToken.model_dump_json, lambda token: repr([token])])
def test_the_token_is_in_no_text_of_it(token: VerifiedToken, shown: object) -> None:
    assert callable(shown)
    assert "secret" not in shown(token)
    assert "very" not in shown(token)

"""The form of challenges: what no value can do to a header, and which scheme is asked for."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.interpreter.principal import Principal
from guideway.server.oauth.access import Access
from guideway.server.oauth.challenge import Challenges, Scheme
from guideway.server.oauth.verified import IssuerUnavailable, Verified
from guideway.server.sections import IssuerSection
from tests.server.oauth.door import ISSUER, READ, Tokens

BOUND = IssuerSection(issuer="https://bound.example", dpop="required")


def challenged_by(*issuers: IssuerSection) -> Challenges:
    """Return the challenges of a resource that trusts these issuers."""
    return Challenges(Access(Tokens(), "https://ops.example/mcp", issuers))


def lines(response: Response) -> list[str]:
    """Return the challenges of an answer, as they stand in its headers."""
    return response.headers.getlist("WWW-Authenticate")


@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_no_value_ends_its_quotes_its_header_or_its_line(text: str) -> None:
    [line] = lines(challenged_by(ISSUER).invalid_token(text, Scheme.BEARER))
    assert line.isascii()
    assert line.isprintable()
    _, _, rest = line.partition('error_description="')
    shown = ""
    characters = iter(rest)
    for char in characters:
        if char == '"':
            break
        shown += next(characters) if char == "\\" else char
    assert len(shown) == len(text)
    assert all(a in (b, "?") for a, b in zip(shown, text, strict=True))
    assert "".join(characters) == (
        ', scope="mcp:diag:read", resource_metadata="https://ops.example/.well-known/oauth-protected-resource/mcp"'
    )


@pytest.mark.parametrize(
    ("issuers", "schemes"),
    [
        ([ISSUER], ["Bearer"]),
        ([ISSUER, BOUND], ["Bearer", "DPoP"]),
        ([BOUND, ISSUER], ["Bearer", "DPoP"]),
        ([BOUND], ["DPoP"]),
    ],
    ids=["none", "one", "the first", "all"],
)
def test_proofs_are_asked_for_where_an_issuer_requires_them(issuers: list[IssuerSection], schemes: list[str]) -> None:
    """Bearer comes first where it is of use: many clients read the first challenge alone."""
    challenges = challenged_by(*issuers)
    for response in (challenges.no_token(), challenges.invalid_request("x")):
        assert [line.split()[0] for line in lines(response)] == schemes
        for line in lines(response):
            assert ('algs="ES256 ' in line) == line.startswith("DPoP ")
            assert "resource_metadata=" in line


def test_a_bound_token_without_a_scope_is_challenged_in_its_own_scheme() -> None:
    verified = Verified(Principal("alice", READ), ISSUER, "thumbprint")
    [line] = lines(challenged_by(ISSUER).insufficient_scope(verified, Scheme.DPOP, PROGRAM_SCOPES))
    assert line.startswith('DPoP error="insufficient_scope", ')
    assert 'scope="mcp:diag:read mcp:diag:write"' in line


@pytest.mark.parametrize(
    "answer",
    [
        lambda challenges: challenges.no_token(),
        lambda challenges: challenges.invalid_token("x", Scheme.BEARER),
        lambda challenges: challenges.invalid_request("x"),
        lambda challenges: challenges.insufficient_scope(
            Verified(Principal("alice", frozenset()), ISSUER), Scheme.BEARER
        ),
        lambda challenges: challenges.unavailable(IssuerUnavailable("x", 5)),
        lambda challenges: challenges.broken(),
    ],
)
def test_no_answer_is_kept_by_a_cache(answer: Any) -> None:
    assert answer(challenged_by(ISSUER)).headers["Cache-Control"] == "no-store"


def test_the_page_for_clients_shows_what_comes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
    challenges = Challenges(Access(Tokens(), "https://guideway.example.com/mcp", (ISSUER,)))
    verified = Verified(Principal("alice", READ), ISSUER)
    [line] = lines(challenges.insufficient_scope(verified, Scheme.BEARER, frozenset({Scope.WRITE})))
    assert f"HTTP/1.1 403 Forbidden\nWWW-Authenticate: {line}\n" in page


def test_approval_is_no_scope_of_programs_and_never_asked_for_again() -> None:
    """The challenge repeats what lets programs run, and nothing that somebody's token can do elsewhere."""
    verified = Verified(Principal("alice", frozenset({Scope.READ, Scope.APPROVE})), ISSUER)
    [line] = lines(challenged_by(ISSUER).insufficient_scope(verified, Scheme.BEARER, frozenset({Scope.WRITE})))
    assert 'scope="mcp:diag:read mcp:diag:write"' in line

"""Signing in by OpenID Connect: what is asked for, and every way in which an answer may be wrong."""

import gzip
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from guideway.interpreter.principal import Principal
from guideway.server.approvals.sign_in import Begun, NotSignedIn, SignIn
from guideway.server.oauth.access import Access, PageClient
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection
from tests.server.oauth.issuer import CLIENT_SECRET, MISSING, RESOURCE, Issuer, sign, signer

pytestmark = pytest.mark.anyio
CLIENT = "the-page"


@dataclass
class Attempt:
    """A sign-in on its way: what the browser was sent with, and what the issuer is going to say."""

    issuer: Issuer
    sign_in: SignIn
    begun: Begun

    @property
    def asked(self) -> dict[str, str]:
        """The parameters of the authorization request, each of which stands once."""
        return {name: value for name, [value] in parse_qs(urlsplit(self.begun.url).query).items()}

    def answer(self, **changes: str) -> dict[str, str]:
        """Return the parameters with which the browser comes back."""
        good = {"code": "a-code", "state": self.asked["state"], "iss": self.issuer.url}
        return {name: value for name, value in {**good, **changes}.items() if value}

    def id_token(self, by: Any = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a good ID token with changes."""
        now = int(time.time())
        good = {
            "iss": self.issuer.url,
            "sub": "ada",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": self.asked["nonce"],
        }
        claims = {name: value for name, value in {**good, **changes}.items() if value is not MISSING}
        by = by or self.issuer.signers[-1]
        return sign(self.issuer.header(by, typ="JWT", **(header or {})), claims, by)

    def issues(self, **changes: Any) -> None:
        """Let the token endpoint give good tokens, with changes."""
        access_token = self.issuer.token(sub="ada", client_id=CLIENT, scope="mcp:diag:approve")
        good = {"access_token": access_token, "token_type": "Bearer", "id_token": self.id_token()}
        body = {name: value for name, value in {**good, **changes}.items() if value is not MISSING}
        self.issuer.replies["token"] = lambda: JSONResponse(body)

    async def finish(self, **changes: str) -> tuple[Principal, str]:
        """Come back."""
        return await self.sign_in.finish(self.begun.kept, self.answer(**changes))


@asynccontextmanager
async def attempt(issuer: Issuer, secret: str | None = None, **section: Any) -> AsyncIterator[Attempt]:
    """Begin a sign-in for a ticket."""
    trusted: IssuerSection = issuer.section(**section)
    async with TrustedIssuers({"corp": trusted}, resource=RESOURCE, tenants={}) as verifier:
        access = Access(verifier, RESOURCE, (trusted,), PageClient(trusted, CLIENT, secret))
        sign_in = SignIn(access)
        begun = Attempt(issuer, sign_in, await sign_in.begin("a-ticket"))
        begun.issues()
        yield begun


@pytest.fixture
def issuer() -> Any:
    with Issuer() as issuer:
        yield issuer


async def test_what_is_asked_for_and_who_comes_of_it(issuer: Issuer) -> None:
    async with attempt(issuer) as ada:
        asked = ada.asked
        assert ada.begun.url.startswith(f"{issuer.origin}/authorize?")
        assert len(asked.pop("state")) == len(asked.pop("nonce")) == len(asked.pop("code_challenge")) == 43
        assert asked == {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": "https://diag.example.com/approvals/signed-in",
            "scope": "openid mcp:diag:approve",
            "code_challenge_method": "S256",
            "resource": RESOURCE,
        }
        principal, ticket = await ada.finish()
        assert (principal.subject, principal.issuer, principal.client) == ("ada", issuer.url, CLIENT)
        assert ticket == "a-ticket"


async def test_scopes_are_in_the_issuers_words(issuer: Issuer) -> None:
    async with attempt(issuer, scopes={"mcp:diag:approve": "diag.approve"}) as ada:
        assert ada.asked["scope"] == "openid diag.approve"


WRONG_ANSWERS: dict[str, dict[str, str]] = {
    "another state": {"state": "x" * 43},
    "no state": {"state": ""},
    "another issuer": {"iss": "https://evil.example"},
    "an error": {"error": "access_denied"},
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
async def test_a_wrong_answer_signs_nobody_in_and_asks_the_issuer_for_nothing(issuer: Issuer, name: str) -> None:
    async with attempt(issuer) as ada:
        with pytest.raises(NotSignedIn):
            await ada.finish(**WRONG_ANSWERS[name])
        assert issuer.requests["token"] == 0


async def test_an_issuer_that_promises_to_name_itself_has_to(issuer: Issuer) -> None:
    issuer.metadata["authorization_response_iss_parameter_supported"] = True
    async with attempt(issuer) as ada:
        with pytest.raises(NotSignedIn, match="another issuer"):
            await ada.finish(iss="")
    del issuer.metadata["authorization_response_iss_parameter_supported"]
    async with attempt(issuer) as ada:
        assert (await ada.finish(iss=""))[0].subject == "ada"


@pytest.mark.parametrize("kept", ["", "x", "." * 3, "a.b.c.d"])
async def test_a_sign_in_of_another_browser_is_not_finished(issuer: Issuer, kept: str) -> None:
    async with attempt(issuer) as ada:
        other = await ada.sign_in.begin("")
        for cookie in (kept, other.kept):
            with pytest.raises(NotSignedIn, match="not begun in this browser"):
                await ada.sign_in.finish(cookie, ada.answer())
        assert issuer.requests["token"] == 0


FORGED_ID_TOKENS: dict[str, Callable[[Attempt], Any]] = {
    "none": lambda _: MISSING,
    "no token": lambda _: "x.y.z",
    "another type": lambda _: 7,
    "another issuer": lambda ada: ada.id_token(iss="https://evil.example"),
    "another client": lambda ada: ada.id_token(aud="another"),
    "another party": lambda ada: ada.id_token(aud=[CLIENT, "another"], azp="another"),
    "another nonce": lambda ada: ada.id_token(nonce="another"),
    "no nonce": lambda ada: ada.id_token(nonce=MISSING),
    "expired": lambda ada: ada.id_token(exp=int(time.time()) - 60),
    "no expiry": lambda ada: ada.id_token(exp=MISSING),
    "no subject": lambda ada: ada.id_token(sub=MISSING),
    "an expiry that is none": lambda ada: ada.id_token(exp="soon"),
    "another key": lambda ada: ada.id_token(by=replace(signer(), kid=ada.issuer.signers[-1].kid)),
    "no algorithm": lambda ada: ada.id_token().rsplit(".", 1)[0] + ".",
    "symmetric": lambda ada: ada.id_token(by=signer("HS256", ada.issuer.signers[-1].kid)),
    "another access token": lambda ada: ada.id_token(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "critical header": lambda ada: ada.id_token(header={"crit": ["exp"]}),
}


@pytest.mark.parametrize("name", FORGED_ID_TOKENS)
async def test_an_id_token_that_is_not_the_answer_signs_nobody_in(issuer: Issuer, name: str) -> None:
    async with attempt(issuer, leeway_seconds=0) as ada:
        ada.issues(id_token=FORGED_ID_TOKENS[name](ada))
        with pytest.raises(NotSignedIn, match="cannot be believed"):
            await ada.finish()


WRONG_ACCESS_TOKENS: dict[str, tuple[Callable[[Issuer], Any], str]] = {
    "none": (lambda _: MISSING, "no access token"),
    "for another resource": (lambda issuer: issuer.token(aud="https://other.example"), "not for here"),
    "forged": (lambda issuer: issuer.token(by=signer()), "not for here"),
    "without the scope": (lambda issuer: issuer.token(sub="rudi", scope="openid mcp:diag:read"), "rudi, who may not"),
    "of a key": (lambda issuer: issuer.token(scope="mcp:diag:approve", cnf={"jkt": "A" * 43}), "bound to a key"),
}


@pytest.mark.parametrize("name", WRONG_ACCESS_TOKENS)
async def test_the_access_token_says_who_may_what(issuer: Issuer, name: str) -> None:
    made, why = WRONG_ACCESS_TOKENS[name]
    async with attempt(issuer) as ada:
        ada.issues(access_token=made(issuer))
        with pytest.raises(NotSignedIn, match=why):
            await ada.finish()


REPLIES: dict[str, Callable[[], Response]] = {
    "an error": lambda: JSONResponse({"error": "invalid_grant"}, 400),
    "a failure": lambda: Response("oops", 500),
    "no JSON": lambda: Response("<html>"),
    "a list": lambda: JSONResponse([1]),
    "a redirect": lambda: RedirectResponse("https://evil.example/token"),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_token_endpoint_that_gives_none_signs_nobody_in(issuer: Issuer, name: str) -> None:
    async with attempt(issuer) as ada:
        issuer.replies["token"] = REPLIES[name]
        with pytest.raises(NotSignedIn):
            await ada.finish()


async def test_no_more_is_read_of_the_token_endpoint_than_of_any_other(issuer: Issuer) -> None:
    """Long, or packed so that it is long only here: a million zeros are a thousand bytes then."""
    async with attempt(issuer) as ada:
        ada.issues(padding="x" * 400_000)
        assert (await ada.finish())[0].subject == "ada"
        ada.issues(padding="x" * 600_000)
        with pytest.raises(NotSignedIn, match="the issuer does not answer"):
            await ada.finish()
        ada.issues()
        plain = bytes(issuer.replies["token"]().body)
        packed = Response(gzip.compress(plain), headers={"Content-Encoding": "gzip"}, media_type="application/json")
        issuer.replies["token"] = lambda: packed
        with pytest.raises(NotSignedIn, match="the issuer does not answer"):
            await ada.finish()


async def test_an_issuer_that_is_away_is_told_and_asked_again_later(issuer: Issuer) -> None:
    async with attempt(issuer) as ada:
        issuer.stop()
        fresh = SignIn(ada.sign_in._access)
        with pytest.raises(NotSignedIn, match="does not answer as it should"):
            await fresh.begin("")
        issuer.start()
        assert (await fresh.begin("")).url


async def test_a_secret_goes_to_the_token_endpoint_alone_and_is_in_no_text(issuer: Issuer) -> None:
    async with attempt(issuer, secret=CLIENT_SECRET) as ada:
        assert CLIENT_SECRET not in ada.begun.url + repr(ada.sign_in._access.page)
        assert (await ada.finish())[0].subject == "ada"
        scheme, _, credentials = issuer.shown["token"].partition(" ")
        # RFC 6749, section 2.3.1: each is encoded by itself, so that every character gets through.
        sent = [unquote_plus(part) for part in b64decode(credentials).decode().split(":")]
        assert (scheme, sent) == ("Basic", [CLIENT, CLIENT_SECRET])
        assert not {name for name in issuer.shown if issuer.shown[name]} - {"token"}

"""Whom a token is from, and what is remembered of it: several issuers, cached verdicts, nothing that leaks."""

import gc
import logging
from collections.abc import Iterator
from typing import Any, Final

import anyio
import pytest
from starlette.responses import JSONResponse

from guideway.server.oauth import verifier
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused
from guideway.server.sections import TenantSection
from tests.server.oauth.issuer import Issuer, sign, signer
from tests.server.oauth.trusting import Clock, refusal, retry_after, subject, trusting

NOT_TRUSTED: Final = "the token is not from an issuer that is trusted here"


# Whom a token is from


@pytest.mark.anyio
async def test_each_issuers_tokens_are_checked_with_its_own_keys_and_rules() -> None:
    with Issuer() as one, Issuer(algorithm="Ed25519") as other:
        sections = one.section(), other.section(audience="diag", scopes={"mcp:diag:read": "r"})
        async with trusting(*sections) as trusted:
            mine = await trusted.verify(one.token())
            theirs = await trusted.verify(other.token(aud="diag", scope="r"))
            assert (mine.principal.issuer, mine.issuer) == (one.url, sections[0])
            assert (theirs.principal.issuer, theirs.issuer) == (other.url, sections[1])
            assert await refusal(trusted, other.token()) == "the token is for another audience"
            claimed = one.token(iss=other.url, aud="diag")
            assert await refusal(trusted, claimed) == "no key of the issuer has signed the token"
        assert "introspection" not in one.requests + other.requests


@pytest.mark.anyio
async def test_the_same_tenant_value_of_another_issuer_is_another_tenant() -> None:
    tenants = {
        "acme": TenantSection(members={"corp": frozenset({"org_1"})}),
        "zeta": TenantSection(members={"corp1": frozenset({"org_1"})}),
    }
    with Issuer() as one, Issuer() as other:
        sections = one.section(tenant_claim="org_id"), other.section(tenant_claim="org_id")
        async with trusting(*sections, tenants=tenants) as trusted:
            found = [(await trusted.verify(issuer.token(org_id="org_1"))).principal.tenant for issuer in (one, other)]
    assert found == ["acme", "zeta"]


@pytest.mark.anyio
async def test_only_what_is_no_jwt_is_shown_to_issuers_of_opaque_tokens() -> None:
    """A JWT says whose it is; what is wrong with it is no reason to show it to somebody else."""
    with Issuer() as jwts, Issuer() as opaque:
        async with trusting(jwts.section(), opaque.opaque_section()) as trusted:
            assert await subject(trusted, jwts.token()) == "alice"
            assert await refusal(trusted, jwts.token(by=signer()))
            assert await refusal(trusted, jwts.token(iss="https://login.example.com")) == NOT_TRUSTED
            assert await refusal(trusted, jwts.token() + ".x.x")
            assert not opaque.requests["introspection"]
            assert await subject(trusted, opaque.opaque_token()) == "alice"


@pytest.mark.anyio
async def test_a_jwt_of_an_issuer_that_has_to_be_asked_is_asked_about_there(issuer: Issuer) -> None:
    """Some issuers' opaque tokens look like JWTs; whoever is not their maker cannot check them."""
    with Issuer() as other:
        async with trusting(other.opaque_section(), issuer.opaque_section()) as trusted:
            token = issuer.token()
            issuer.opaque_tokens[token] = {"active": True, **issuer.claims(sub="bob")}
            assert await subject(trusted, token) == "bob"
            assert await refusal(trusted, issuer.token()) == "the token is not active"
        assert not other.requests


@pytest.mark.anyio
@pytest.mark.parametrize("token", ["a.b.c", "e30", "ZTMw.e30.e30", "abc.", "AbC~-_.+/123=="])
async def test_what_has_not_the_form_of_a_jwt_is_opaque(issuer: Issuer, token: str) -> None:
    issuer.opaque_tokens[token] = {"active": True, **issuer.claims()}
    async with trusting(issuer.opaque_section()) as trusted:
        assert await subject(trusted, token) == "alice"


@pytest.mark.anyio
async def test_issuers_of_opaque_tokens_are_asked_in_their_order_until_one_knows_the_token() -> None:
    clock = Clock()
    with Issuer() as one, Issuer() as other:
        async with trusting(one.opaque_section(), other.opaque_section(), clock=clock) as trusted:
            theirs = other.opaque_token()
            assert (await trusted.verify(theirs)).principal.issuer == other.url
            clock.later += 60
            assert (await trusted.verify(theirs)).principal.issuer == other.url
            assert one.requests["introspection"] == 1  # whoever knew it is asked first from then on
            assert (await trusted.verify(one.opaque_token())).principal.issuer == one.url
            assert other.requests["introspection"] == 2
            assert await refusal(trusted, "unknown") == "the token is not active"


@pytest.mark.anyio
async def test_an_issuer_that_is_down_may_be_the_one_that_knows_the_token() -> None:
    clock = Clock()
    with Issuer() as one, Issuer() as other:
        async with trusting(one.opaque_section(), other.opaque_section(), clock=clock) as trusted:
            known = other.opaque_token()
            await trusted.verify(known)
            one.stop()
            assert await subject(trusted, other.opaque_token()) == "alice"
            await retry_after(trusted, "unknown")
            other.stop()
            clock.later += 60
            assert await subject(trusted, known) == "alice"


@pytest.mark.anyio
async def test_without_issuers_no_token_is_believed() -> None:
    async with trusting() as trusted:
        for token in ("opaque", sign({"alg": "none"}, {"iss": ""}, signer())):
            assert await refusal(trusted, token) == NOT_TRUSTED


# What is remembered


@pytest.mark.anyio
async def test_a_warm_call_asks_nobody_and_gives_the_same_caller(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        token = issuer.token()
        first = await trusted.verify(token)
        asked = issuer.requests.copy()
        assert all([await trusted.verify(token) is first for _ in range(5)])
        await trusted.verify(issuer.token(sub="bob"))  # not seen before, but its key was
        assert issuer.requests == asked


@pytest.mark.anyio
async def test_a_verdict_ends_with_the_token(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.section(leeway_seconds=5), clock=clock) as trusted:
        token = issuer.token(exp=int(clock.now()) + 60)
        await trusted.verify(token)
        clock.later += 60
        assert await subject(trusted, token) == "alice"
        clock.later += 6
        assert await refusal(trusted, token) == "the token has expired"


@pytest.mark.anyio
async def test_a_token_that_was_refused_can_become_good(issuer: Issuer) -> None:
    clock = Clock()
    async with trusting(issuer.section(), clock=clock) as trusted:
        token = issuer.token(nbf=int(clock.now()) + 60)
        assert await refusal(trusted, token) == "the token is not valid yet"
        clock.later += 60
        assert await subject(trusted, token) == "alice"


@pytest.mark.anyio
async def test_what_is_remembered_is_bounded_and_the_oldest_goes(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "MOST_VERDICTS", 3)
    async with trusting(issuer.section()) as trusted:
        first, *others = [issuer.token() for _ in range(4)]
        kept = await trusted.verify(first)
        for token in others:
            await trusted.verify(token)
            await refusal(trusted, issuer.token(sub=""))  # what is refused takes no place
        assert len(trusted._verdicts) == 3
        assert await trusted.verify(first) is not kept


def texts(root: object) -> Iterator[str]:
    """Yield every text that can be reached from an object of this program through others of it and containers."""
    seen, left = {id(root)}, [root]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list | tuple | set | frozenset) or type(one).__module__.startswith("guideway."):
            inner = [each for each in gc.get_referents(one) if id(each) not in seen]
            seen.update(map(id, inner))
            left += inner


@pytest.mark.anyio
async def test_no_token_is_kept(issuer: Issuer) -> None:
    """Whoever gets to read the memory of the server, or a dump of it, finds no token to use elsewhere."""
    opaque = issuer.opaque_section(issuer=f"{issuer.url}/x", metadata_url=f"{issuer.origin}/introspection")
    async with trusting(issuer.section(), opaque) as trusted:
        signed, refused = issuer.token(jti="here"), issuer.token(sub="")
        await trusted.verify(signed)
        await refusal(trusted, refused)
        with pytest.raises(IssuerUnavailable):
            await trusted.verify("2YotnFZFEjr1zCsicMWpAA")
        kept = set(texts(trusted))
    assert "alice" in kept
    assert kept.isdisjoint({signed, refused, "2YotnFZFEjr1zCsicMWpAA", "here", *signed.split(".")})


# What leaks


@pytest.mark.anyio
async def test_no_log_and_no_error_has_a_part_of_a_token_or_of_an_answer(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[Exception] = []
    by = issuer.signers[-1]
    bad: list[dict[str, Any]] = [
        {"sub": "marker\n"},
        {"aud": "marker"},
        {"scope": ["marker"]},
        {"cnf": {"marker": 1}},
        {"iss": "marker"},
    ]
    shown = [issuer.token(**changes) for changes in bad]
    headers: list[dict[str, Any]] = [{"alg": "marker"}, {"typ": "marker"}, {"crit": ["marker"]}]
    shown += [sign(issuer.header(**changes), issuer.claims(), by) for changes in headers]
    shown += [issuer.token(by=signer(kid="marker")), sign('{"marker": ', "{}", by)]
    async with trusting(issuer.section(), gap=0) as trusted:
        await trusted.verify(issuer.token())
        for token in shown:
            with pytest.raises(TokenRefused) as refused:
                await trusted.verify(token)
            errors.append(refused.value)
        issuer.replies["keys"] = lambda: JSONResponse({"marker": "marker"}, headers={"Location": "/x"})
        with pytest.raises(IssuerUnavailable) as unavailable:
            await trusted.verify(issuer.token(by=signer(kid="marker")))
        errors.append(unavailable.value)
    told = caplog.text + "".join(f"{error!r} {error.__cause__!r} {error.__context__!r}" for error in errors)
    assert "marker" not in told
    assert not [part for token in shown for part in token.split(".") if part in told]


@pytest.mark.anyio
async def test_an_error_of_the_body_comes_out_as_it_is(issuer: Issuer) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with trusting(issuer.section()):
            raise LookupError("mine")


@pytest.mark.anyio
async def test_it_ends_while_an_issuer_keeps_silent(issuer: Issuer) -> None:
    issuer.stuck.add("metadata")
    with anyio.fail_after(3):
        async with trusting(issuer.section(), request=60):
            while not issuer.requests["metadata"]:
                await anyio.sleep(0.005)
    issuer.stuck.clear()


@pytest.mark.anyio
async def test_whoever_still_waits_when_it_ends_is_told_to_come_again(issuer: Issuer) -> None:
    issuer.stuck.add("keys")
    told: list[str] = []

    async def wait() -> None:
        with pytest.raises(IssuerUnavailable) as unavailable:
            await trusted.verify(issuer.token())
        told.append(str(unavailable.value))

    async with anyio.create_task_group() as tasks, trusting(issuer.section(), request=60) as trusted:
        tasks.start_soon(wait)
        while not issuer.requests["keys"]:
            await anyio.sleep(0.005)
    assert told == ["the server is stopping"]
    issuer.stuck.clear()

"""The keys that issuers publish: which are used for what; rotation, withdrawal, spraying and outages."""

import logging
from collections.abc import Callable
from typing import Any, Final

import anyio
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from guideway.server.oauth.keys import KeySet, PublishedKey, UnusableKey, read_key
from tests.server.oauth.issuer import Issuer, Signer, rsa_key, sign, signer
from tests.server.oauth.trusting import Clock, refusal, retry_after, subject, trusting

ALL: Final = frozenset({"RS256", "PS256", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"})
NOT_SIGNED: Final = "no key of the issuer has signed the token"


def read(jwk: dict[str, Any], allowed: frozenset[str] = ALL) -> PublishedKey:
    return read_key(jwk, allowed, KeySet(()))


# Which keys are used


@pytest.mark.parametrize(
    ("algorithm", "may"),
    [
        ("RS256", {"RS256", "PS256"}),
        ("ES256", {"ES256"}),
        ("ES384", {"ES384"}),
        ("ES512", {"ES512"}),
        ("Ed25519", {"Ed25519", "EdDSA"}),
    ],
)
def test_a_key_verifies_what_its_type_can_and_its_algorithm_says(algorithm: str, may: set[str]) -> None:
    jwk = signer(algorithm).jwk
    assert read(jwk).algorithms == {algorithm}
    del jwk["alg"], jwk["use"]
    assert read(jwk).algorithms == may
    assert read(jwk, frozenset({algorithm, "HS256"})).algorithms == {algorithm}


JUNK: Final[dict[str, tuple[Callable[[dict[str, Any]], Any], str]]] = {
    "no object": (lambda _: "key", "it is no JSON object"),
    "symmetric": (lambda _: {"kty": "oct", "k": "c2VjcmV0", "kid": "1"}, "it is of a type that is not used"),
    "of no type": (lambda jwk: {**jwk, "kty": None}, "it is of a type that is not used"),
    "of a list of types": (lambda jwk: {**jwk, "kty": ["EC"]}, "it is of a type that is not used"),
    "on another curve": (lambda jwk: {**jwk, "crv": "secp256k1"}, "it is of a type that is not used"),
    "for agreement": (lambda jwk: {**jwk, "kty": "OKP", "crv": "X25519"}, "it is of a type that is not used"),
    "private": (lambda jwk: {**jwk, "d": "AQAB"}, "it is a private key, and everybody can read it"),
    "for encryption": (lambda jwk: {**jwk, "use": "enc"}, "it is not for signatures"),
    "for something else": (lambda jwk: {**jwk, "use": ["sig"]}, "it is not for signatures"),
    "for signing alone": (lambda jwk: {**jwk, "key_ops": ["sign"]}, "it is not for signatures"),
    "for another algorithm": (lambda jwk: {**jwk, "alg": "RS256"}, "its algorithm is not allowed"),
    "for HMAC": (lambda jwk: {**jwk, "alg": "HS256"}, "its algorithm is not allowed"),
    "with a key id of a number": (lambda jwk: {**jwk, "kid": 1}, "its key id is no string"),
    "off its curve": (lambda jwk: {**jwk, "x": jwk["y"], "y": jwk["x"]}, "it cannot be read"),
    "without a part": (lambda jwk: {name: jwk[name] for name in jwk if name != "x"}, "it cannot be read"),
    "with a part of a number": (lambda jwk: {**jwk, "x": 1}, "it cannot be read"),
    "in other base64": (lambda jwk: {**jwk, "x": "+/=="}, "it cannot be read"),
    "a small RSA key": (lambda _: Signer("RS256", rsa_key(1024), "1").jwk, "its size is not used"),
    "an RSA key without size": (lambda _: {"kty": "RSA", "n": "", "e": "AQAB"}, "its size is not used"),
    "an RSA key of one part": (lambda _: {"kty": "RSA", "e": "AQAB"}, "it cannot be read"),
    "an RSA key of a list": (lambda _: {"kty": "RSA", "n": ["AQAB"], "e": "AQAB"}, "it cannot be read"),
}


@pytest.mark.filterwarnings("ignore:Key size should be")
@pytest.mark.parametrize(("make", "why"), JUNK.values(), ids=JUNK)
def test_a_published_key_is_left_out_that_is(make: Callable[[dict[str, Any]], Any], why: str) -> None:
    with pytest.raises(UnusableKey) as unusable:
        read(make(signer().jwk))
    assert str(unusable.value) == why


@pytest.mark.anyio
async def test_junk_among_the_keys_harms_none_of_the_others(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.junk_keys = [None, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "EC", "crv": "P-256"}, signer().jwk | {"d": "A"}]
    async with trusting(issuer.section()) as trusted:
        assert await subject(trusted, issuer.token()) == "alice"
        issuer.rotate()
        assert await subject(trusted, issuer.token()) == "alice"
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == len(issuer.junk_keys)
    assert "[issuers.corp] publishes a key that is left out: it is a private key, and everybody can read it" in told
    assert "c2VjcmV0" not in caplog.text


@pytest.mark.anyio
async def test_keys_that_share_an_id_are_each_tried(issuer: Issuer) -> None:
    issuer.signers = [signer(algorithm, kid="one") for algorithm in ("ES256", "ES256", "Ed25519")]
    async with trusting(issuer.section()) as trusted:
        for by in issuer.signers:
            assert await subject(trusted, issuer.token(by=by)) == "alice"
        assert await refusal(trusted, issuer.token(by=signer(kid="one"))) == NOT_SIGNED


@pytest.mark.anyio
async def test_a_token_without_key_id_needs_one_key_that_fits(issuer: Issuer) -> None:
    def unnamed(by: Signer) -> str:
        return sign({"typ": "at+jwt", "alg": by.algorithm}, issuer.claims(), by)

    issuer.signers = [one, other] = [signer("ES256"), signer("Ed25519")]
    async with trusting(issuer.section(), gap=0) as trusted:
        assert await subject(trusted, unnamed(one)) == "alice"
        assert await subject(trusted, unnamed(other)) == "alice"
        assert await refusal(trusted, unnamed(signer("ES256"))) == NOT_SIGNED
        issuer.signers = [third, _] = [signer("ES256"), signer("ES256")]
        assert await refusal(trusted, unnamed(third)) == NOT_SIGNED


@pytest.mark.anyio
async def test_a_key_that_is_published_for_one_algorithm_verifies_no_other(issuer: Issuer) -> None:
    issuer.rotate(algorithm="RS256")
    as_pss = Signer("PS256", issuer.signers[-1].key, issuer.signers[-1].kid)
    async with trusting(issuer.section()) as trusted:
        assert await subject(trusted, issuer.token()) == "alice"
        assert await refusal(trusted, issuer.token(by=as_pss)) == NOT_SIGNED


# Rotation and withdrawal


@pytest.mark.anyio
async def test_rotation_loses_no_call(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        for _ in range(4):
            assert await subject(trusted, issuer.token()) == "alice"
            issuer.rotate()
            assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_a_key_that_is_replaced_under_its_id_is_noticed(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        await trusted.verify(issuer.token())
        issuer.signers = [signer(kid=issuer.signers[-1].kid)]
        assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_a_withdrawn_key_takes_the_verdicts_with_it(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        old = issuer.token()
        assert await subject(trusted, old) == "alice"
        issuer.rotate()
        await trusted.verify(issuer.token())
        assert await refusal(trusted, old) == NOT_SIGNED


@pytest.mark.anyio
async def test_a_key_that_stays_keeps_its_verdicts(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        old = issuer.token()
        await trusted.verify(old)
        issuer.rotate(keep=True)
        await trusted.verify(issuer.token())
        asked = issuer.requests.total()
        assert await subject(trusted, old) == "alice"
        assert issuer.requests.total() == asked


@pytest.mark.anyio
async def test_keys_are_fetched_again_in_the_background(issuer: Issuer) -> None:
    async with trusting(issuer.section(), refresh=0.02) as trusted:
        old = issuer.token()
        await trusted.verify(old)
        issuer.rotate()
        asked = issuer.requests["keys"]
        while issuer.requests["keys"] < asked + 2:
            await anyio.sleep(0.005)
        assert await refusal(trusted, old) == NOT_SIGNED
        assert issuer.requests["metadata"] > 1  # which may name another place by now


@pytest.mark.anyio
async def test_sprayed_key_ids_cost_one_request_a_gap(issuer: Issuer) -> None:
    async with trusting(issuer.section(), again=0.2) as trusted:
        await trusted.verify(issuer.token())
        for _ in range(3):
            before, began = issuer.requests["keys"], anyio.current_time()
            async with anyio.create_task_group() as tasks:
                for _ in range(40):
                    tasks.start_soon(refusal, trusted, issuer.token(by=signer()))
            assert issuer.requests["keys"] - before <= (anyio.current_time() - began) / 0.2 + 1


@pytest.mark.anyio
async def test_forged_signatures_cost_one_request_a_gap(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        await trusted.verify(issuer.token())
        for _ in range(20):
            await refusal(trusted, issuer.token(by=signer(kid=issuer.signers[-1].kid)))
    assert issuer.requests["keys"] <= 2


@pytest.mark.anyio
async def test_who_sprays_key_ids_has_no_token_refused_whose_key_has_just_come(issuer: Issuer) -> None:
    """Each made-up key id sends the server to the issuer; then a key is rotated in, and its tokens are good at once."""
    async with trusting(issuer.section(), again=0.1) as trusted, anyio.create_task_group() as tasks:
        await trusted.verify(issuer.token())

        async def spray() -> None:
            while True:
                await refusal(trusted, issuer.token(by=signer()))

        for _ in range(10):
            tasks.start_soon(spray)
        for _ in range(4):
            issuer.rotate()
            assert await subject(trusted, issuer.token()) == "alice"
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_burst_of_unseen_tokens_waits_for_one_request(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted, anyio.create_task_group() as tasks:
        for _ in range(40):
            tasks.start_soon(subject, trusted, issuer.token())
    assert issuer.requests == {"metadata": 1, "keys": 1}


@pytest.mark.anyio
async def test_a_caller_who_gives_up_takes_nobody_along(issuer: Issuer) -> None:
    issuer.stuck.add("keys")
    async with trusting(issuer.section()) as trusted, anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.05):
            await trusted.verify(issuer.token())
        tasks.start_soon(subject, trusted, issuer.token())
        issuer.stuck.clear()
    assert issuer.requests["keys"] == 1


# Outages


@pytest.mark.anyio
async def test_in_an_outage_verified_tokens_go_on_and_others_wait(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with trusting(issuer.section(), clock=clock) as trusted:
        known = issuer.token(exp=int(clock.now()) + 5_000)
        await trusted.verify(known)
        issuer.stop()
        assert await subject(trusted, issuer.token()) == "alice"  # its key is known
        for _ in range(3):
            assert await retry_after(trusted, issuer.token(by=signer())) == 10
        clock.later += 4_000  # the keys are too old for anything new
        assert await retry_after(trusted, issuer.token(iat=int(clock.now()), exp=int(clock.now()) + 600)) == 10
        assert await subject(trusted, known) == "alice"
        clock.later += 1_100
        assert await retry_after(trusted, known)  # it has expired, which now nobody can check anew
    warnings = [record.getMessage() for record in caplog.records]
    why = "it cannot be reached: nothing listens there"
    url = f"{issuer.origin}/keys"
    told = f"[issuers.corp] does not say whether tokens are good: {why} ({url}); start it, or mend its address"
    assert warnings == [told] * len(warnings)
    assert warnings


@pytest.mark.anyio
async def test_an_issuer_that_is_down_is_asked_once_a_gap(issuer: Issuer) -> None:
    clock = Clock()
    issuer.replies["keys"] = lambda: Response(status_code=503)
    async with trusting(issuer.section(), clock=clock) as trusted:
        for _ in range(5):
            await retry_after(trusted, issuer.token())
        assert issuer.requests["keys"] == 1
        clock.later += 11
        await retry_after(trusted, issuer.token())
        assert issuer.requests["keys"] == 2


@pytest.mark.anyio
async def test_an_issuer_that_comes_back_is_believed_again(issuer: Issuer) -> None:
    clock = Clock()
    issuer.stop()
    async with trusting(issuer.section(), clock=clock) as trusted:
        await retry_after(trusted, issuer.token())
        issuer.start()
        clock.later += 11
        assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_an_outage_ends_without_any_call(issuer: Issuer) -> None:
    issuer.stop()
    async with trusting(issuer.section(), gap=0.02):
        issuer.start()
        while not issuer.requests["keys"]:
            await anyio.sleep(0.005)


SPOILT: Final[dict[str, Callable[[], Response]]] = {
    "a redirect to other keys": lambda: RedirectResponse("/elsewhere"),
    "an error": lambda: Response(status_code=500),
    "no content": lambda: Response(status_code=204),
    "no JSON": lambda: Response("<html>"),
    "no object": lambda: JSONResponse([]),
    "no keys": lambda: JSONResponse({}),
    "keys in an object": lambda: JSONResponse({"keys": {}}),
    "two key sets": lambda: Response('{"keys": [], "keys": []}'),
    "too much": lambda: Response(b" " * 1_000_000 + b'{"keys": []}'),
    "compressed": lambda: Response(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
    "nested without end": lambda: Response("[" * 100_000),
}


@pytest.mark.anyio
@pytest.mark.parametrize("reply", SPOILT.values(), ids=SPOILT)
async def test_keys_that_cannot_be_had_are_an_outage_and_what_was_known_stays(
    issuer: Issuer, reply: Callable[[], Response]
) -> None:
    async with trusting(issuer.section()) as trusted:
        await trusted.verify(issuer.token())
        issuer.replies["keys"] = reply
        await retry_after(trusted, issuer.token(by=signer()))
        assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_an_issuer_that_is_slow_is_waited_for_no_longer_than_that(issuer: Issuer) -> None:
    issuer.stuck.add("keys")
    async with trusting(issuer.section(), request=0.05) as trusted:
        await retry_after(trusted, issuer.token())
    issuer.stuck.clear()


@pytest.mark.anyio
async def test_an_empty_key_set_withdraws_every_key(issuer: Issuer) -> None:
    async with trusting(issuer.section()) as trusted:
        known = issuer.token()
        await trusted.verify(known)
        stranger = issuer.token(by=signer())
        issuer.signers.clear()
        assert await refusal(trusted, stranger) == NOT_SIGNED
        assert await refusal(trusted, known) == NOT_SIGNED

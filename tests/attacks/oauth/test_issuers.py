"""Issuers that turned hostile, or that somebody stands in front of: what they say is input like any other.

The story: whoever can change one answer of an issuer, by a redirect, a poisoned cache or a broken-into page, must not
be able to let themselves in. Where nobody can say whether a token is good, it is not.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from guideway.server.oauth.trusted import DEFAULT_PATIENCE
from guideway.server.sections import IntrospectionSection, IssuerSection
from tests.attacks.oauth import forge, wire
from tests.attacks.oauth.forge import Key, Mint, b64, ec_key, rsa_key
from tests.attacks.oauth.provider import Provider, Reply, json_reply, redirect
from tests.attacks.oauth.stage import Stage, staged

MALLORY = ec_key("mallory-ec")
CORP = ec_key("corp-ec")
SECRET = "introspection-secret-9f8e7d6c5b4a"  # noqa: S105  # nobody else's

VARIABLE = "GUIDEWAY_ATTACKED_SECRET"

Change = Callable[[Provider, Provider], None]


def by_mallory(stage: Stage, key: Key = MALLORY) -> str:
    """Return a token of Mallory's making, in the issuer's name."""
    return Mint(stage.ground.corp.issuer, stage.url, key).token()


def shown(stage: Stage, token: str) -> wire.Answer:
    return wire.answer(stage.url, wire.calling(stage.url, f"Bearer {token}"))


def poisoned_keys(reply: Callable[[Provider], Reply]) -> Change:
    def change(corp: Provider, mallory: Provider) -> None:
        corp.replies["/jwks"] = reply(mallory)

    return change


def poisoned_metadata(**members: Callable[[Provider], Any]) -> Change:
    def change(corp: Provider, mallory: Provider) -> None:
        corp.metadata |= {name: value(mallory) for name, value in members.items()}

    return change


def moved_metadata(corp: Provider, mallory: Provider) -> None:
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
        corp.replies[path] = redirect(f"{mallory.url}{path}")
    mallory.metadata["issuer"] = corp.url


#: Each is published at the issuer's own address, and none may make Mallory's key the issuer's.
POISONED: dict[str, Change] = {
    "keys that redirect": poisoned_keys(lambda mallory: redirect(f"{mallory.url}/jwks")),
    "keys that redirect for good": poisoned_keys(lambda mallory: redirect(f"{mallory.url}/jwks", 308)),
    "keys that are a page": poisoned_keys(lambda _: (200, {"Content-Type": "text/html"}, b"<html>keys</html>")),
    "keys that are no object": poisoned_keys(lambda _: json_reply([MALLORY.jwk()])),
    "keys that are no list": poisoned_keys(lambda _: json_reply({"keys": MALLORY.jwk()})),
    "keys that stand twice": poisoned_keys(
        lambda _: (
            200,
            {},
            b'{"keys":[' + forge.written(MALLORY.jwk()) + b'],"keys":[' + forge.written(CORP.jwk()) + b"]}",
        )
    ),
    "keys that nest": poisoned_keys(lambda _: (200, {}, b'{"keys":' + b"[" * 50_000)),
    "keys without end": poisoned_keys(lambda _: json_reply({"keys": [MALLORY.jwk()] * 20_000})),
    "keys under an error": poisoned_keys(lambda _: json_reply({"keys": [MALLORY.jwk()]}, 500)),
    "metadata that redirects": moved_metadata,
    "metadata of another issuer": poisoned_metadata(
        issuer=lambda mallory: mallory.url, jwks_uri=lambda mallory: f"{mallory.url}/jwks"
    ),
    "metadata with a slash more": poisoned_metadata(
        issuer=lambda mallory: f"{mallory.url}/", jwks_uri=lambda mallory: f"{mallory.url}/jwks"
    ),
    "metadata without an issuer": poisoned_metadata(
        issuer=lambda _: None, jwks_uri=lambda mallory: f"{mallory.url}/jwks"
    ),
    "keys in a file": poisoned_metadata(jwks_uri=lambda _: "file:///etc/passwd"),
    "keys in the address itself": poisoned_metadata(jwks_uri=lambda _: "data:application/json,{}"),
    "keys in the clear": poisoned_metadata(jwks_uri=lambda _: "http://keys.example.com/jwks"),
    "keys at no address": poisoned_metadata(jwks_uri=lambda _: ["x"]),
}


@pytest.mark.parametrize("change", POISONED.values(), ids=POISONED)
def test_what_an_issuer_is_made_to_say_lets_nobody_in(change: Change) -> None:
    corp, mallory = Provider().publish(CORP), Provider().publish(MALLORY)
    change(corp, mallory)
    with mallory, staged(providers={"corp": corp}) as stage, stage.untouched():
        answer = shown(stage, by_mallory(stage))
        assert answer.status == 503  # the issuer cannot be asked: never a pass
        assert int(answer.all("retry-after")[0]) > 0
        assert not mallory.asked


#: Keys that an issuer publishes by mistake, or because somebody made it to; each with a token that it "verifies".
UNUSABLE: dict[str, tuple[dict[str, Any], Callable[[Mint], str]]] = {
    "a shared secret": (
        {"kty": "oct", "kid": "mallory-ec", "alg": "HS256", "k": b64(b"0123456789abcdef0123456789abcdef")},
        lambda mint: mint.token(mint.header(alg="HS256"), key=b"0123456789abcdef0123456789abcdef"),
    ),
    "an empty secret": (
        {"kty": "oct", "kid": "mallory-ec", "k": ""},
        lambda mint: mint.token(mint.header(alg="HS256"), key=b""),
    ),
    "a secret that says it is for RS256": (
        {"kty": "oct", "kid": "mallory-ec", "alg": "RS256", "k": b64(b"0123456789abcdef0123456789abcdef")},
        lambda mint: mint.token(mint.header(alg="RS256"), key=b"0123456789abcdef0123456789abcdef"),
    ),
    "a private key": (ec_key("mallory-ec").private_jwk(), lambda mint: mint.token()),
    "a key for encryption": (ec_key("mallory-ec").jwk(use="enc"), lambda mint: mint.token()),
    "a key for wrapping": (ec_key("mallory-ec").jwk(key_ops=["wrapKey"]), lambda mint: mint.token()),
    "a key for another algorithm": (ec_key("mallory-ec").jwk(alg="ES384"), lambda mint: mint.token()),
    "a key that is too short": (
        rsa_key("corp-weak", 1024).jwk(kid="mallory-ec"),
        lambda mint: mint.token(mint.header(alg="RS256"), key=rsa_key("corp-weak", 1024)),
    ),
    "a point on no curve": (ec_key("mallory-ec").jwk(y=b64(bytes(32))), lambda mint: mint.token()),
    "a key by certificate alone": (
        {"kty": "EC", "kid": "mallory-ec", "x5u": "http://127.0.0.1:1/mallory"},
        lambda mint: mint.token(),
    ),
}


@pytest.mark.parametrize(("key", "make"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_that_no_issuer_should_publish_signs_nothing(key: dict[str, Any], make: Callable[[Mint], str]) -> None:
    corp = Provider().publish(CORP)
    corp.keys.append(key)
    with staged(providers={"corp": corp}) as stage:
        with stage.untouched():
            answer = shown(stage, make(Mint(corp.url, stage.url, MALLORY)))
            assert (answer.status, answer.challenge["error"]) == (401, "invalid_token")
        assert shown(stage, Mint(corp.url, stage.url, CORP).token()).status == 200  # the others are used


def test_a_withdrawn_key_signs_nothing_any_more() -> None:
    """The key was stolen, and the issuer has noticed; its own new key brings the news."""
    new = ec_key("corp-new")
    corp = Provider().publish(CORP)
    with staged(providers={"corp": corp}) as stage:
        stolen = by_mallory(stage, CORP)
        assert shown(stage, stolen).status == 200
        corp.keys[:] = [new.jwk()]
        assert shown(stage, by_mallory(stage, new)).status == 200
        with stage.untouched():
            assert shown(stage, stolen).status == 401
            assert shown(stage, by_mallory(stage, CORP)).status == 401


def test_made_up_names_of_keys_do_not_make_the_server_knock_at_the_issuer(stage: Stage) -> None:
    """A crowd names keys that nobody has: whoever does is kept waiting, and the issuer is asked four times a second."""
    corp = stage.providers["corp"]
    assert shown(stage, stage.ground.corp.token()).status == 200  # its keys are known
    before, began = len(corp.asked), time.monotonic()
    tokens = [stage.ground.corp.headed(kid=f"made up {number}") for number in range(100)]
    with ThreadPoolExecutor(50) as crowd:
        assert {answer.status for answer in crowd.map(lambda token: shown(stage, token), tokens)} == {401}
    assert len(corp.asked) - before <= (time.monotonic() - began) / DEFAULT_PATIENCE.again + 2


def test_an_issuer_that_is_gone_lets_nobody_in_and_costs_no_service() -> None:
    with Provider().publish(CORP) as gone:
        pass
    issuers = {"corp": IssuerSection(issuer=gone.url)}
    with staged(providers={}, issuers=issuers) as stage, stage.untouched():
        answer = shown(stage, Mint(gone.url, stage.url, CORP).token())
    assert answer.status == 503
    assert answer.facts["error"] == "temporarily_unavailable"
    assert not answer.challenges


# ---- introspection


@contextmanager
def opaque(
    monkeypatch: pytest.MonkeyPatch, *, cache_seconds: float = 0, **section: Any
) -> Iterator[tuple[Stage, Provider]]:
    """Serve those whose tokens an issuer has to be asked about."""
    monkeypatch.setenv(VARIABLE, SECRET)
    forge.SECRETS.add(SECRET)
    desk = Provider()
    asks = IntrospectionSection(client_id="guideway", client_secret_env=VARIABLE, cache_seconds=cache_seconds)
    issuers = {"desk": IssuerSection(issuer=desk.url, tokens="opaque", introspection=asks, **section)}
    with staged(providers={"desk": desk}, issuers=issuers) as stage:
        yield stage, desk


def said(stage: Stage, **changes: Any) -> dict[str, Any]:
    """Return a good answer about a token, with some of it changed."""
    mint = Mint(stage.ground.corp.issuer, stage.url, CORP)
    return {"active": True, "token_type": "Bearer", **mint.payload(**changes)}


#: What an issuer answers about a token, by the names of what is changed; with the words that refuse it.
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing about whether it is active": ({"active": forge.MISSING}, "the token is not active"),
    "active in a string": ({"active": "true"}, "the token is not active"),
    "active as a number": ({"active": 1}, "the token is not active"),
    "active in a list": ({"active": [True]}, "the token is not active"),
    "active null": ({"active": None}, "the token is not active"),
    "not active": ({"active": False}, "the token is not active"),
    "another issuer's token": ({"iss": "https://evil.example"}, "the token is from another issuer"),
    "a refresh token": ({"token_type": "refresh_token"}, "the token is not an access token"),
    "a type that is none": ({"token_type": 7}, "the token is not an access token"),
    "a token for another resource": ({"aud": "https://files.example.com/mcp"}, "the token is for another audience"),
    "a token for nobody": ({"aud": forge.MISSING}, "the token has no proper audience"),
    "a token without an end": ({"exp": forge.MISSING}, "the token does not say when it expires"),
    "a token that has ended": ({"exp": 1}, "the token has expired"),
    "a token of nobody": ({"sub": forge.MISSING}, "the token has no proper subject"),
    "a token of two": ({"sub": ["alice", "bob"]}, "the token has no proper subject"),
    "scopes in a list": ({"scope": ["mcp:diag:write"]}, "the token has scopes in a form that is not theirs"),
    "a binding to what is not checked": (
        {"cnf": {"x5t#S256": "A" * 43}},
        "the token is bound in a way that is not supported",
    ),
    "a binding that is not named": (
        {"token_type": "DPoP"},
        "the token is bound to a key that the issuer does not name",
    ),
}


@pytest.mark.parametrize(("changes", "why"), ANSWERS.values(), ids=ANSWERS)
def test_what_an_issuer_answers_about_a_token_is_held_to_the_same_rules(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    with opaque(monkeypatch) as (stage, desk):
        token = forge.secret("opaque-token-that-somebody-made-up")
        desk.active[token] = {
            name: value for name, value in {**said(stage), **changes}.items() if value is not forge.MISSING
        }
        with stage.untouched():
            answer = shown(stage, token)
        assert (answer.status, answer.challenge["error_description"]) == (401, why)
        desk.active[token] = said(stage)
        honest = forge.secret("opaque-token-that-is-nobody-elses")
        desk.active[honest] = said(stage)
        assert shown(stage, honest).status == 200


#: What stands where an answer about a token should be.
BROKEN: dict[str, Callable[[Provider, dict[str, Any]], Reply]] = {
    "a page": lambda _desk, _good: (200, {"Content-Type": "text/html"}, b"<html>sign in</html>"),
    "a list": lambda _desk, good: json_reply([good]),
    "the word true": lambda _desk, _good: json_reply(True),
    "active twice": lambda _desk, good: (200, {}, forge.written(good)[:-1] + b',"active":true}'),
    "a number that is none": lambda _desk, good: json_reply({**good, "exp": float("inf")}),
    "more than anybody reads": lambda _desk, good: json_reply({**good, "more": "x" * 2_000_000}),
    "a good answer under an error": lambda _desk, good: json_reply(good, 500),
    "a good answer to somebody else": lambda _desk, good: json_reply(good, 401),
    "a redirect to a good answer": lambda desk, _good: redirect(f"{desk.url}/elsewhere", 307),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
def test_an_answer_that_is_none_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, reply: Callable[[Provider, dict[str, Any]], Reply]
) -> None:
    with opaque(monkeypatch) as (stage, desk):
        desk.replies["/introspect"] = reply(desk, said(stage))
        desk.replies["/elsewhere"] = json_reply(said(stage))
        with stage.untouched():
            answer = shown(stage, forge.secret("opaque-token-that-somebody-made-up"))
        assert answer.status == 503
        assert "/elsewhere" not in desk.asked


def test_a_revoked_token_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where no answer is kept; in a session that it opened too."""
    with opaque(monkeypatch) as (stage, desk):
        token = forge.secret("opaque-token-that-is-to-be-revoked")
        desk.active[token] = said(stage)
        [session] = wire.answer(stage.url, wire.opening(stage.url, token)).all("mcp-session-id")
        assert shown(stage, token).status == 200
        desk.active.clear()
        with stage.untouched():
            assert shown(stage, token).status == 401
            inside = wire.in_session(stage.url, token, session, wire.call_bytes())
            assert wire.answer(stage.url, inside).status == 401


def test_strangers_cannot_keep_the_issuer_from_being_asked_about_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd shows tokens that it made up, and the issuer takes long over each. Who was verified before goes on; and
    who has had a token revoked gains nothing by being in the crowd.
    """
    with opaque(monkeypatch) as (stage, desk), ThreadPoolExecutor(20) as crowd:
        honest, revoked = forge.secret("opaque-token-of-somebody-honest"), forge.secret("opaque-token-to-be-revoked")
        desk.active |= {honest: said(stage), revoked: said(stage)}
        assert {shown(stage, token).status for token in (honest, revoked)} == {200}
        over, answers = threading.Event(), desk.reply

        def slowly(path: str, body: bytes) -> Reply:
            if b"token=made-up" in body:
                over.wait()
            return answers(path, body)

        monkeypatch.setattr(desk, "reply", slowly)
        try:
            strangers = [crowd.submit(shown, stage, forge.secret(f"made-up-token-{number}")) for number in range(20)]
            while not any(b"token=made-up" in seen for seen in tuple(desk.seen)):
                time.sleep(0.01)
            del desk.active[revoked]
            assert shown(stage, honest).status == 200
            with stage.untouched():
                assert shown(stage, revoked).status == 401
            assert strangers[0].result().status == 503  # in time, and that is no outage for the others
            assert shown(stage, honest).status == 200
            with stage.untouched():
                assert shown(stage, revoked).status in (401, 503)  # it is one of the crowd now
        finally:
            over.set()
        assert {stranger.result().status for stranger in strangers} <= {401, 503}


def test_an_opaque_token_cannot_say_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be another parameter in a form, or another line in a request, stays one value or is refused."""
    with opaque(monkeypatch) as (stage, desk):
        desk.active["good"] = said(stage)
        for token, asked in [
            ("x&token=good", None),
            ("x%26token%3Dgood", None),
            ("x+y", "x%2By"),
            ("x==", "x%3D%3D"),
            ("~x/../y", "~x%2F..%2Fy"),
        ]:
            desk.seen.clear()
            assert shown(stage, token).status == 401
            bodies = [seen.partition(b"\n\n")[2] for seen in desk.seen if seen.startswith(b"POST")]
            assert bodies == ([] if asked is None else [f"token={asked}&token_type_hint=access_token".encode()])


def test_a_jwt_cannot_choose_to_be_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer of JWTs and one of opaque tokens: the second never sees what says that it is the first one's."""
    with opaque(monkeypatch) as (stage, desk):
        desk.active[forged := Mint("https://corp.example", stage.url, MALLORY).token()] = said(stage)
        with stage.untouched():
            assert shown(stage, forged).status == 401
        assert "/introspect" not in desk.asked

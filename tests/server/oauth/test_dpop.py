"""What a proof of possession must say, and that it is believed once: RFC 9449, section 4.3."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.interpreter.records import StoreUnavailable
from guideway.server.oauth.dpop import ALGORITHMS, APART, EARLIEST, MOST_BYTES, OLDEST, ProofRefused, Proofs
from guideway.server.oauth.verified import IssuerUnavailable
from tests.attacks.oauth import forge
from tests.attacks.oauth.forge import MISSING, Key, ec_key, ed_key, proof, rsa_key

URL = "https://guideway.example.com/mcp"
TOKEN = "eyJ.a-token.of-somebody"  # noqa: S105  # it is none
KEY = ec_key("dpop")
NOW = 1_800_000_000.0

Check = Callable[..., None]


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def check(clock: Clock) -> Check:
    return checking(Proofs(clock=clock))


def checking(proofs: Proofs) -> Check:
    """Return a check of one proof for the endpoint's POST, with some of it changed."""

    def check(*values: str, **other: Any) -> None:
        asked = {"method": "POST", "url": URL, "token": TOKEN, "key_thumbprint": KEY.thumbprint()} | other
        proofs.check(values, **asked)

    return check


def made(key: Key = KEY, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    """Return a good proof, but for what is given."""
    said: dict[str, Any] = {"token": TOKEN, "method": "POST", "url": URL, "iat": int(NOW)} | claims
    return proof(key, header=header, **said)


def jwk(key: Key, **more: Any) -> dict[str, Any]:
    return {"header": {"jwk": {**key.jwk(), **more}}}


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (KEY, "ES256"),
        (ec_key("dpop-384", "ES384"), "ES384"),
        (ed_key("dpop-ed"), "Ed25519"),
        (ed_key("dpop-ed"), "EdDSA"),
        (rsa_key("dpop-rsa"), "RS256"),
        (rsa_key("dpop-rsa"), "PS256"),
        (rsa_key("dpop-large", 4096), "RS256"),
    ],
)
def test_a_good_proof_is_believed_by_each_algorithm_that_is_allowed(check: Check, key: Key, algorithm: str) -> None:
    assert algorithm in ALGORITHMS
    good = made(key, header={"alg": algorithm})
    assert len(good) < MOST_BYTES
    check(good, key_thumbprint=key.thumbprint())


def test_what_says_nothing_here_may_be_there(check: Check) -> None:
    check(made(nonce="of-another-server", exp=1, more={"a": []}, header={"kid": "mine", "more": "x" * 600}))
    check(made(**jwk(KEY, use="sig", key_ops=["verify"], ext=True, alg="ES256", kid="mine")))


@pytest.mark.parametrize(
    "htu",
    [
        URL,
        "HTTPS://Guideway.Example.COM/mcp",
        "https://guideway.example.com:443/mcp",
        "https://guideway.example.com:/mcp",
        URL + "?a=b",
        URL + "#part",
        URL + "?a=b#part",
    ],
)
def test_one_url_may_be_written_in_several_ways(check: Check, htu: str) -> None:
    check(made(htu=htu))


@pytest.mark.parametrize(
    ("configured", "htu"),
    [
        ("http://127.0.0.1:8765/mcp", "http://127.0.0.1:8765/mcp"),
        ("http://127.0.0.1/mcp", "http://127.0.0.1:80/mcp"),
        ("http://[::1]:8765/mcp", "http://[::1]:8765/mcp"),
        ("https://guideway.example.com", "https://guideway.example.com/"),
        ("https://example.com/team/mcp", "https://example.com/team/mcp"),
    ],
)
def test_the_configured_url_is_what_counts(check: Check, configured: str, htu: str) -> None:
    check(made(htu=htu), url=configured)


LONG = "x" * 100
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no type", {"header": {"typ": MISSING}}, "another type"),
    ("an access token's type", {"header": {"typ": "at+jwt"}}, "another type"),
    ("a type in a list", {"header": {"typ": ["dpop+jwt"]}}, "another type"),
    ("a type in other case", {"header": {"typ": "DPoP+JWT"}}, "another type"),
    ("no algorithm", {"header": {"alg": MISSING}}, "an algorithm"),
    ("alg none", {"header": {"alg": "none"}}, "an algorithm"),
    ("alg nOnE", {"header": {"alg": "nOnE"}}, "an algorithm"),
    ("a symmetric algorithm", {"header": {"alg": "HS256"}}, "an algorithm"),
    ("an algorithm that is not allowed", {"header": {"alg": "ES512"}}, "an algorithm"),
    ("algorithms", {"header": {"alg": ["ES256"]}}, "an algorithm"),
    ("another key's algorithm", {"header": {"alg": "RS256"}}, "of a kind"),
    ("another curve's algorithm", {"header": {"alg": "ES384"}}, "of a kind"),
    ("no key", {"header": {"jwk": MISSING}}, "no public key"),
    ("a key in text", {"header": {"jwk": json.dumps(KEY.jwk())}}, "no public key"),
    ("an empty key", {"header": {"jwk": {}}}, "of a kind"),
    ("a private key", {"header": {"jwk": KEY.private_jwk()}}, "gives a private key away"),
    ("a symmetric key", {"header": {"jwk": {"kty": "oct", "k": "AAAA"}}}, "gives a private key away"),
    ("a key with a list in it", jwk(KEY, x=["AAAA"]), "of a kind"),
    ("a key with a number in it", jwk(KEY, x=1), "of a kind"),
    ("a critical member", {"header": {"crit": ["b64"], "b64": False}}, "a member that is refused"),
    ("a payload that is not encoded", {"header": {"b64": False}}, "a member that is refused"),
    ("a compressed one", {"header": {"zip": "DEF"}}, "a member that is refused"),
    ("a key somewhere else", {"header": {"jku": "https://evil.example/jwks"}}, "a member that is refused"),
    ("a certificate somewhere else", {"header": {"x5u": "https://evil.example/"}}, "a member that is refused"),
    ("a certificate", {"header": {"x5c": ["AAAA"]}}, "a member that is refused"),
    ("no method", {"htm": MISSING}, "another method"),
    ("another method", {"htm": "GET"}, "another method"),
    ("a method in lower case", {"htm": "post"}, "another method"),
    ("methods", {"htm": ["POST"]}, "another method"),
    ("no url", {"htu": MISSING}, "another URL"),
    ("an empty url", {"htu": ""}, "another URL"),
    ("urls", {"htu": [URL]}, "another URL"),
    ("another path", {"htu": "https://guideway.example.com/grammar"}, "another URL"),
    ("a longer path", {"htu": URL + "/"}, "another URL"),
    ("a shorter path", {"htu": URL[:-1]}, "another URL"),
    ("a path in other case", {"htu": "https://guideway.example.com/MCP"}, "another URL"),
    ("a path in dots", {"htu": "https://guideway.example.com/x/../mcp"}, "another URL"),
    ("another host", {"htu": "https://evil.example/mcp"}, "another URL"),
    ("a host before it", {"htu": "https://guideway.example.com.evil.example/mcp"}, "another URL"),
    ("a user before it", {"htu": "https://guideway.example.com@evil.example/mcp"}, "another URL"),
    ("a user in it", {"htu": "https://x@guideway.example.com/mcp"}, "another URL"),
    ("another scheme", {"htu": "http://guideway.example.com/mcp"}, "another URL"),
    ("another port", {"htu": "https://guideway.example.com:8443/mcp"}, "another URL"),
    ("port nought", {"htu": "https://guideway.example.com:0/mcp"}, "another URL"),
    ("no port at all", {"htu": "https://guideway.example.com:x/mcp"}, "another URL"),
    ("no host", {"htu": "https:///mcp"}, "another URL"),
    ("a path alone", {"htu": "/mcp"}, "another URL"),
    ("a space before it", {"htu": " " + URL}, "another URL"),
    ("a line end in it", {"htu": "https://guideway.example.com/m\ncp"}, "another URL"),
    ("a look-alike host", {"htu": "https://gu\u0456deway.example.com/mcp"}, "another URL"),
    ("no token's hash", {"ath": MISSING}, "another token"),
    ("another token's hash", {"token": "another"}, "another token"),
    ("a padded hash", {"ath": forge.b64(hashlib.sha256(TOKEN.encode()).digest()) + "="}, "another token"),
    ("the token itself", {"ath": TOKEN}, "another token"),
    ("no id", {"jti": MISSING}, "no proper jti"),
    ("an empty id", {"jti": ""}, "no proper jti"),
    ("a number for an id", {"jti": 1}, "no proper jti"),
    ("a long id", {"jti": "x" * 513}, "no proper jti"),
    ("no time", {"iat": MISSING}, "does not say when"),
    ("a time in text", {"iat": str(int(NOW))}, "does not say when"),
    ("true for a time", {"iat": True}, "does not say when"),
    ("no number", {"iat": float("nan")}, "cannot be read"),
    ("an endless time", {"iat": float("inf")}, "cannot be read"),
    ("an old one", {"iat": NOW - OLDEST - 1}, "too old"),
    ("a negative time", {"iat": -NOW}, "too old"),
    ("one from the future", {"iat": NOW + EARLIEST + 1}, "from the future"),
    ("a time in milliseconds", {"iat": NOW * 1000}, "from the future"),
    ("a time beyond all numbers", {"iat": 10**400}, "from the future"),
    ("a long one", {"more": "x" * MOST_BYTES}, "too long"),
]


@pytest.mark.parametrize(("change", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_proof_that_says_something_else_is_refused(check: Check, change: dict[str, Any], words: str) -> None:
    bad = made(**change)
    with pytest.raises(ProofRefused, match=words) as refusal:
        check(bad)
    assert not any(part in str(refusal.value) for part in bad.split("."))
    check(made())


@pytest.mark.parametrize("key", [rsa_key("dpop-small", 1024), ec_key("dpop-k", "ES256K")])
def test_a_key_that_is_too_weak_or_not_allowed_is_refused(check: Check, key: Key) -> None:
    with pytest.raises(ProofRefused):
        check(made(key), key_thumbprint=key.thumbprint())


def test_an_exponent_of_the_clients_choice_is_refused(check: Check) -> None:
    """An exponent as long as the modulus would keep the server busy for a proof that it then refuses."""
    key = rsa_key("dpop-rsa")
    with pytest.raises(ProofRefused, match="of a kind"):
        check(made(key, **jwk(key, e=key.jwk()["n"])))


def test_another_key_is_refused_that_signs_well(check: Check) -> None:
    """Somebody who has the token and not its key brings a key of their own."""
    with pytest.raises(ProofRefused, match="another key"):
        check(made(ec_key("mallory")))


def test_the_right_key_in_the_header_and_another_ones_signature_is_refused(check: Check) -> None:
    with pytest.raises(ProofRefused, match="not signed"):
        check(made(ec_key("mallory"), header={"jwk": KEY.jwk()}))


@pytest.mark.parametrize("change", ["claims", "header", "empty", "short", "long", "nought"])
def test_a_proof_that_was_changed_afterwards_is_refused(check: Check, change: str) -> None:
    header, claims, signature = made().split(".")
    match change:
        case "claims":
            claims = forge.b64(forge.unb64(claims).replace(b'"htm"', b' "htm"'))
        case "header":
            header = forge.b64(forge.unb64(header).replace(b'"typ"', b' "typ"'))
        case "empty":
            signature = "AA"
        case "short":
            signature = signature[:-2]
        case "long":
            signature += "AA"
        case _:
            signature = forge.b64(bytes(64))
    with pytest.raises(ProofRefused, match="not signed"):
        check(f"{header}.{claims}.{signature}")


def test_a_point_that_is_not_on_its_curve_is_refused(check: Check) -> None:
    x = forge.b64(bytes(32))
    key = {"kty": "EC", "crv": "P-256", "x": x, "y": x}
    thumbprint = forge.b64(hashlib.sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).digest())
    with pytest.raises(ProofRefused, match="not signed"):
        check(made(header={"jwk": key}), key_thumbprint=thumbprint)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("twice", ["first", "second"])
def test_a_member_that_is_there_twice_is_refused(check: Check, part: int, twice: str) -> None:
    """Two readers of one proof could each see another method, or another key."""
    parts = [forge.unb64(each).decode() for each in made().split(".")[:2]]
    member = '"typ":"dpop+jwt"' if part == 0 else '"htm":"POST"'
    parts[part] = "{" + member + "," + parts[part][1:] if twice == "first" else parts[part][:-1] + "," + member + "}"
    with pytest.raises(ProofRefused, match="cannot be read"):
        check(forge.jws(parts[0], parts[1], KEY))


def test_a_member_of_the_key_that_is_there_twice_is_refused(check: Check) -> None:
    header, claims = (forge.unb64(each).decode() for each in made().split(".")[:2])
    with pytest.raises(ProofRefused, match="cannot be read"):
        check(forge.jws(header.replace('"kty":"EC"', '"kty":"EC","kty":"EC"'), claims, KEY))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "the proof is missing"),
        (["", ""], "needs one DPoP header"),
        ([""], "not a signed JWT"),
        (["DPoP"], "not a signed JWT"),
        (["a.b"], "not a signed JWT"),
        (["a.b.c.d.e"], "not a signed JWT"),
        (["a.b."], "not a signed JWT"),
        (["e30.e30.AA="], "not a signed JWT"),
        (["e30.e30.\u00e4"], "not a signed JWT"),
        (["e30.e30.AA\n"], "not a signed JWT"),
        (["a.b.c"], "cannot be read"),
        (["bnVsbA.e30.AA"], "cannot be read"),
        (["W10.e30.AA"], "cannot be read"),
        (["e30.e30.AA"], "another type"),
        ([f"{forge.b64(b'[' * 1000)}.e30.AA"], "cannot be read"),
    ],
)
def test_what_is_not_one_proof_is_refused(check: Check, values: list[str], words: str) -> None:
    with pytest.raises(ProofRefused, match=words):
        check(*values)


def test_two_good_proofs_are_refused_in_two_headers_and_in_one(check: Check) -> None:
    first, second = made(), made()
    with pytest.raises(ProofRefused, match="needs one DPoP header"):
        check(first, second)
    with pytest.raises(ProofRefused, match="not a signed JWT"):
        check(f"{first}, {second}")


@given(st.text() | st.builds("{}.{}.{}".format, *[st.binary(max_size=200).map(forge.b64)] * 3))
def test_whatever_comes_is_refused_in_one_way(text: str) -> None:
    with pytest.raises(ProofRefused):
        checking(Proofs())(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(["header", "jwk", "claims"]),
    st.sampled_from(["typ", "alg", "jwk", "kty", "crv", "x", "y", "htm", "htu", "ath", "jti", "iat"]),
    values,
)
def test_whatever_a_member_is_a_proof_is_believed_or_refused(where: str, name: str, value: Any) -> None:
    change: dict[str, Any] = {"claims": {name: value}, "header": {"header": {name: value}}}.get(where, {})
    check = checking(Proofs(clock=Clock()))
    try:
        check(made(**(change or jwk(KEY, **{name: value}))))
    except ProofRefused:
        return
    is_unread = (where, name) not in {("header", n) for n in ("typ", "alg", "jwk")} | {
        *(("jwk", n) for n in ("kty", "crv", "x", "y")),
        *(("claims", n) for n in ("htm", "htu", "ath")),
    }
    assert is_unread, "what must be as it was is not"


# ---- once


def test_a_proof_is_believed_once(check: Check, clock: Clock) -> None:
    """Somebody reads a request on its way, and sends it again."""
    good = made()
    check(good)
    for later in (0, 1, OLDEST):
        clock.now = NOW + later
        with pytest.raises(ProofRefused, match="used before"):
            check(good)
    clock.now = NOW + OLDEST + 1
    with pytest.raises(ProofRefused, match="too old"):
        check(good)


def test_a_proof_with_another_spelling_of_its_signature_is_the_same_proof(check: Check) -> None:
    """ES256 has two signatures for each, and base64url several spellings: what counts is the jti."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    good = made()
    signed, _, signature = good.rpartition(".")
    raw = forge.unb64(signature)
    other = order - int.from_bytes(raw[32:])
    check(good)
    with pytest.raises(ProofRefused, match="used before"):
        check(f"{signed}.{forge.b64(raw[:32] + other.to_bytes(32))}")


def test_one_jti_of_two_keys_is_two_proofs(check: Check) -> None:
    other = ec_key("another")
    check(made(jti="1"))
    check(made(other, jti="1"), key_thumbprint=other.thumbprint())


def test_a_proof_that_was_refused_was_not_used(check: Check) -> None:
    """Else somebody without the key could use up the proofs of somebody who has it."""
    good = made(jti="1")
    header, claims, _ = good.split(".")
    with pytest.raises(ProofRefused):
        check(f"{header}.{claims}.{forge.b64(bytes(64))}")
    with pytest.raises(ProofRefused):
        check(good, method="GET")
    check(good)


@pytest.mark.parametrize("issued", [NOW - OLDEST, NOW, NOW + 0.5, NOW + EARLIEST])
def test_a_proof_is_good_up_to_the_edges_of_its_time(check: Check, issued: float) -> None:
    check(made(iat=issued))


def test_a_proof_from_ahead_of_time_is_remembered_for_longer(check: Check, clock: Clock) -> None:
    early = made(iat=NOW + EARLIEST)
    check(early)
    clock.now = NOW + OLDEST + EARLIEST
    check(made(iat=clock.now))
    with pytest.raises(ProofRefused, match="used before"):
        check(early)


def test_a_clock_that_is_set_back_makes_no_used_proof_good(check: Check, clock: Clock) -> None:
    used = made()
    check(used)
    clock.now = NOW + 3600
    check(made(iat=clock.now))
    clock.now = NOW
    with pytest.raises(ProofRefused, match="used before"):
        check(used)
    clock.now = NOW + 1
    check(made(iat=clock.now))


def test_where_no_more_can_be_remembered_nobody_is_let_in(clock: Clock) -> None:
    check = checking(Proofs(most=3, clock=clock))
    used = [made(iat=NOW + number) for number in range(3)]
    for each in used:
        check(each)
    with pytest.raises(IssuerUnavailable, match="too many proofs") as refusal:
        check(made())
    assert 0 < refusal.value.retry_after <= OLDEST
    for each in used:
        with pytest.raises(ProofRefused, match="used before"):
            check(each)
    clock.now = NOW + OLDEST + 1
    check(made(iat=clock.now))


def test_what_is_remembered_is_bounded(clock: Clock) -> None:
    proofs = Proofs(most=50, clock=clock)
    check = checking(proofs)
    for second in range(300):
        clock.now = NOW + second * 2
        check(made(iat=clock.now))
        assert len(proofs._seen) == len(proofs._by_time) <= OLDEST / 2 + 2


def test_the_clock_is_the_systems() -> None:
    checking(Proofs())(made(iat=time.time()))


class Shared:
    """What replicas remember together, as a store does it that can be away."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}
        self.is_away = False

    async def put(self, digest: str, until: float) -> bool:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        if digest in self.until:
            return False
        self.until[digest] = until
        return True


ASKED: dict[str, Any] = {"method": "POST", "url": URL, "token": TOKEN, "key_thumbprint": KEY.thumbprint()}


@pytest.mark.anyio
async def test_replicas_believe_a_proof_once_together(clock: Clock) -> None:
    shared, used = Shared(), made()
    here, there = Proofs(shared, clock=clock), Proofs(shared, clock=clock)
    await here.require([used], **ASKED)
    with pytest.raises(ProofRefused, match="used before"):
        await there.require([used], **ASKED)
    await there.require([made()], **ASKED)
    assert [*shared.until.values()] == [int(NOW) + OLDEST + APART] * 2


@pytest.mark.anyio
async def test_where_replicas_cannot_ask_each_other_nobody_is_let_in(clock: Clock) -> None:
    shared = Shared()
    proofs = Proofs(shared, clock=clock)
    shared.is_away = True
    with pytest.raises(StoreUnavailable):
        await proofs.require([made()], **ASKED)
    shared.is_away = False
    await proofs.require([made()], **ASKED)

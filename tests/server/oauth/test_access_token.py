"""JWT access tokens: which are believed, and why the others are not (RFC 9068, section 4)."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey

from guideway.server.oauth.access_token import MOST_BYTES
from guideway.server.oauth.verified import TokenRefused
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import Algorithm
from tests.server.oauth.issuer import MISSING, Issuer, Signer, encode, sign, signer
from tests.server.oauth.trusting import refusal, subject, trusting

FAR: Final = 10_000
OTHER_KIND: Final = "the token is not an access token"
REFUSED_MEMBER: Final = "the header of the token has a member that is refused"
NOT_ALLOWED: Final = "the token is signed with an algorithm that is not allowed"
UNREADABLE: Final = "the token cannot be read"
NO_TIME: Final = "the token has a time that is none"
NO_SUBJECT: Final = "the token has no proper subject"
NOT_YET: Final = "the token is not valid yet"
LACKS: Final = "the token lacks a claim that it must have"
NOT_TRUSTED: Final = "the token is not from an issuer that is trusted here"
NO_AUDIENCE: Final = "the token has no proper audience"
OTHER_AUDIENCE: Final = "the token is for another audience"
NOT_SIGNED: Final = "no key of the issuer has signed the token"
OTHER_BINDING: Final = "the token is bound in a way that is not supported"
NO_SCOPES: Final = "the token has scopes in a form that is not theirs"
NO_CLIENT: Final = "the token has no proper client"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "algorithm",
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"],
)
async def test_a_token_is_believed_whatever_asymmetric_algorithm_it_is_signed_with(algorithm: Algorithm) -> None:
    with Issuer(algorithm=algorithm) as issuer:
        async with trusting(issuer.section(algorithms=[algorithm])) as trusted:
            assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+JWT"])
async def test_the_type_is_that_of_access_tokens_in_any_case(steady: Issuer, kind: str) -> None:
    async with trusting(steady.section()) as trusted:
        assert await subject(trusted, steady.token(header={"typ": kind})) == "alice"


@pytest.mark.anyio
async def test_members_of_the_header_that_mean_nothing_here_have_no_effect(steady: Issuer) -> None:
    header = {"pi.atm": "x" * 600, "x5t": "abc", "cty": "x"}
    async with trusting(steady.section()) as trusted:
        assert await subject(trusted, steady.token(header=header)) == "alice"


HEADERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no type": ({"typ": MISSING}, OTHER_KIND),
    "the type of any JWT": ({"typ": "JWT"}, OTHER_KIND),
    "the type of a logout token": ({"typ": "logout+jwt"}, OTHER_KIND),
    "the type of a proof": ({"typ": "dpop+jwt"}, OTHER_KIND),
    "a type with a look-alike letter": ({"typ": "at+\u212bwt"}, OTHER_KIND),
    "a type twice prefixed": ({"typ": "application/application/at+jwt"}, OTHER_KIND),
    "a list of types": ({"typ": ["at+jwt"]}, OTHER_KIND),
    "a type of null": ({"typ": None}, OTHER_KIND),
    "crit": ({"crit": ["exp"]}, REFUSED_MEMBER),
    "b64": ({"b64": False, "crit": ["b64"]}, REFUSED_MEMBER),
    "b64 that changes nothing": ({"b64": True}, REFUSED_MEMBER),
    "zip": ({"zip": "DEF"}, REFUSED_MEMBER),
    "jwk": ({"jwk": signer().jwk}, REFUSED_MEMBER),
    "jku": ({"jku": "https://attacker.example/keys"}, REFUSED_MEMBER),
    "x5u": ({"x5u": "https://attacker.example/chain"}, REFUSED_MEMBER),
    "x5c": ({"x5c": ["MIIB"]}, REFUSED_MEMBER),
    "no algorithm": ({"alg": MISSING}, NOT_ALLOWED),
    "a list of algorithms": ({"alg": ["ES256"]}, NOT_ALLOWED),
    **{f"algorithm {alg!r}": ({"alg": alg}, NOT_ALLOWED) for alg in ("none", "None", "nOnE", "", "es256", "HS256")},
    "an algorithm that is not configured": ({"alg": "ES384"}, NOT_ALLOWED),
    "an algorithm for other keys": ({"alg": "RS256"}, NOT_SIGNED),
    "a key id that is a number": ({"kid": 1}, "the token names its key in a way that is not known"),
    "a key id that is a list": ({"kid": ["1"]}, "the token names its key in a way that is not known"),
    "a key id that is a path": ({"kid": "../../../dev/null"}, NOT_SIGNED),
    "a key id that is SQL": ({"kid": "' UNION SELECT 'x"}, NOT_SIGNED),
    "an empty key id": ({"kid": ""}, NOT_SIGNED),
}

CLAIMS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no issuer": ({"iss": MISSING}, NOT_TRUSTED),
    "a list of issuers": ({"iss": ["x"]}, NOT_TRUSTED),
    "no audience": ({"aud": MISSING}, LACKS),
    "another audience": ({"aud": "https://other.example.com/mcp"}, OTHER_AUDIENCE),
    "an audience before ours": ({"aud": "https://diag.example.com"}, OTHER_AUDIENCE),
    "an audience behind ours": ({"aud": "https://diag.example.com/mcp/"}, OTHER_AUDIENCE),
    "our audience in other letters": ({"aud": "https://DIAG.example.com/mcp"}, OTHER_AUDIENCE),
    "an empty audience": ({"aud": ""}, OTHER_AUDIENCE),
    "an empty list of audiences": ({"aud": []}, OTHER_AUDIENCE),
    "an audience of null": ({"aud": None}, NO_AUDIENCE),
    "a number among the audiences": ({"aud": ["https://diag.example.com/mcp", 1]}, NO_AUDIENCE),
    "audiences in an object": ({"aud": {"https://diag.example.com/mcp": True}}, NO_AUDIENCE),
    "audiences in two levels": ({"aud": [["https://diag.example.com/mcp"]]}, NO_AUDIENCE),
    "no expiry": ({"exp": MISSING}, LACKS),
    "expired": ({"exp": time.time() - FAR}, "the token has expired"),
    "an expiry of text": ({"exp": "9999999999"}, NO_TIME),
    "an expiry of true": ({"exp": True}, NO_TIME),
    "an expiry of null": ({"exp": None}, NO_TIME),
    "an expiry beyond all time": ({"exp": 10**30}, NO_TIME),
    "an expiry beyond all floats": ({"exp": 10**400}, NO_TIME),
    "an expiry before all time": ({"exp": -1}, NO_TIME),
    "not valid yet": ({"nbf": time.time() + FAR}, NOT_YET),
    "a beginning of text": ({"nbf": "0"}, NO_TIME),
    "issued in the future": ({"iat": time.time() + FAR}, NOT_YET),
    "never issued": ({"iat": MISSING}, LACKS),
    "no subject": ({"sub": MISSING}, LACKS),
    "an empty subject": ({"sub": ""}, NO_SUBJECT),
    "a blank subject": ({"sub": "  "}, NO_SUBJECT),
    "a subject that is a number": ({"sub": 7}, NO_SUBJECT),
    "a subject in two lines": ({"sub": "alice\nadmin"}, NO_SUBJECT),
    "a subject with a NUL": ({"sub": "alice\0"}, NO_SUBJECT),
    "a subject that turns the text around": ({"sub": "alice\u202e"}, NO_SUBJECT),
    "a subject with half a character": ({"sub": "alice\ud800"}, NO_SUBJECT),
    "a subject that is too long": ({"sub": "a" * 256}, NO_SUBJECT),
    "no client": ({"client_id": MISSING}, "the token names no client"),
    "an empty client": ({"client_id": ""}, NO_CLIENT),
    "a client in two lines": ({"client_id": "a\r\nb"}, NO_CLIENT),
    "a client in another claim": ({"client_id": MISSING, "azp": "laptop"}, "the token names no client"),
    "no id": ({"jti": MISSING}, LACKS),
    "an id that is a number": ({"jti": 1}, "the token has no proper jti"),
    "scopes in a list": ({"scope": ["mcp:diag:read"]}, NO_SCOPES),
    "scopes in an object": ({"scope": {"mcp:diag:read": True}}, NO_SCOPES),
    "scopes of null": ({"scope": None}, NO_SCOPES),
    "scopes of a number": ({"scope": 1}, NO_SCOPES),
    "bound to a certificate": ({"cnf": {"x5t#S256": "A" * 43}}, OTHER_BINDING),
    "bound to a key in two ways": ({"cnf": {"jkt": "A" * 43, "x5t#S256": "A" * 43}}, OTHER_BINDING),
    "bound to a whole key": ({"cnf": {"jwk": {}}}, OTHER_BINDING),
    "bound to nothing": ({"cnf": {}}, OTHER_BINDING),
    "bound to null": ({"cnf": None}, OTHER_BINDING),
    "bound to a thumbprint that is none": ({"cnf": {"jkt": "A" * 42}}, OTHER_BINDING),
    "bound to a thumbprint of other characters": ({"cnf": {"jkt": "A" * 42 + "\n"}}, OTHER_BINDING),
}


def raw(of: Callable[[Issuer, str, str], tuple[str, str]]) -> Callable[[Issuer], str]:
    """Return what signs a header and claims that were changed as text."""

    def token(issuer: Issuer) -> str:
        header, claims = of(issuer, json.dumps(issuer.header()), json.dumps(issuer.claims()))
        return sign(header, claims, issuer.signers[-1])

    return token


def resigned(issuer: Issuer, key: OctKey, algorithm: str = "HS256") -> str:
    """Return a token under HMAC, with the key id of the issuer's own key."""
    return issuer.token(by=Signer(algorithm, key, issuer.signers[-1].kid))


def pem(issuer: Issuer) -> bytes:
    """Return the issuer's public key as text."""
    key: Any = issuer.signers[-1].key
    return bytes(key.as_pem(private=False))


FORMS: Final[dict[str, tuple[Callable[[Issuer], str], str]]] = {
    "empty": (lambda _: "", "the token has characters that no token has"),
    "a space within": (lambda issuer: issuer.token() + " x", "the token has characters that no token has"),
    "a line end": (lambda issuer: issuer.token() + "\n", "the token has characters that no token has"),
    "a NUL": (lambda issuer: issuer.token() + "\0", "the token has characters that no token has"),
    "not ASCII": (lambda issuer: issuer.token() + "é", "the token has characters that no token has"),
    "too long": (lambda issuer: issuer.token(more="x" * MOST_BYTES), "the token is too long"),
    "opaque": (lambda _: "2YotnFZFEjr1zCsicMWpAA", NOT_TRUSTED),
    "without its last part": (lambda issuer: issuer.token().rpartition(".")[0], "the token is not a signed JWT"),
    "encrypted": (lambda issuer: issuer.token() + ".AAAA.AAAA", "the token is not a signed JWT"),
    "with a part more": (lambda issuer: issuer.token() + ".AAAA", "the token is not a signed JWT"),
    "unsigned": (lambda issuer: issuer.token().rpartition(".")[0] + ".", NOT_SIGNED),
    "padded": (lambda issuer: issuer.token() + "==", NOT_TRUSTED),
    "signed by somebody": (lambda issuer: issuer.token(by=signer(kid=issuer.signers[-1].kid)), NOT_SIGNED),
    "under HMAC with the public key": (
        lambda issuer: resigned(issuer, OctKey.import_key(encode(pem(issuer)))),
        NOT_ALLOWED,
    ),
    "a claim twice": (raw(lambda _, head, body: (head, body[:-1] + ', "sub": "root"}')), UNREADABLE),
    "a claim twice, within": (raw(lambda _, head, body: (head, body[:-1] + ', "a": {"b": 1, "b": 2}}')), UNREADABLE),
    "a member of the header twice": (raw(lambda _, head, body: (head[:-1] + ', "alg": "none"}', body)), UNREADABLE),
    "a claim that is NaN": (raw(lambda _, head, body: (head, body[:-1] + ', "nbf": NaN}')), UNREADABLE),
    "a claim that is infinite": (raw(lambda _, head, body: (head, body[:-1] + ', "nbf": -Infinity}')), UNREADABLE),
    "a time that is too large": (raw(lambda _, head, body: (head, body[:-1] + ', "nbf": 1e999}')), NO_TIME),
    "a number of 5,000 digits": (raw(lambda _, head, body: (head, body[:-1] + f', "a": {"9" * 5_000}}}')), UNREADABLE),
    "something behind the claims": (raw(lambda _, head, body: (head, body + "{}")), UNREADABLE),
    "claims in a list": (raw(lambda _, head, body: (head, f"[{body}]")), UNREADABLE),
    "claims that are no UTF-8": (
        lambda issuer: sign(issuer.header(), b'{"iss": "\xff"}', issuer.signers[-1]),
        UNREADABLE,
    ),
    "claims in UTF-16": (
        lambda issuer: sign(issuer.header(), json.dumps(issuer.claims()).encode("utf-16"), issuer.signers[-1]),
        UNREADABLE,
    ),
    "claims without end": (
        raw(lambda _, head, body: (head, body[:-1] + ', "a": ' + "[" * 4_000 + "]" * 4_000 + "}")),
        UNREADABLE,
    ),
    "claims nested too deeply": (
        raw(lambda _, head, body: (head, body[:-1] + ', "a": ' + "[" * 32 + "]" * 32 + "}")),
        UNREADABLE,
    ),
    "the issuer with a slash": (lambda issuer: issuer.token(iss=issuer.url + "/"), NOT_TRUSTED),
    "the issuer of others": (lambda issuer: issuer.token(iss="https://login.example.com"), NOT_TRUSTED),
    "the issuer in a list": (lambda issuer: issuer.token(iss=[issuer.url]), NOT_TRUSTED),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("changes", "why"), HEADERS.values(), ids=HEADERS)
async def test_a_header_is_refused_that_has(steady: Issuer, changes: dict[str, Any], why: str) -> None:
    token = sign(steady.header(**changes), steady.claims(), steady.signers[-1])
    async with trusting(steady.section(), gap=FAR, again=0) as trusted:
        assert await refusal(trusted, token) == why


@pytest.mark.anyio
@pytest.mark.parametrize(("changes", "why"), CLAIMS.values(), ids=CLAIMS)
async def test_claims_are_refused_that_have(steady: Issuer, changes: dict[str, Any], why: str) -> None:
    async with trusting(steady.section()) as trusted:
        assert await refusal(trusted, steady.token(**changes)) == why


@pytest.mark.anyio
@pytest.mark.parametrize(("make", "why"), FORMS.values(), ids=FORMS)
async def test_a_token_is_refused_that_is(steady: Issuer, make: Callable[[Issuer], str], why: str) -> None:
    async with trusting(steady.section()) as trusted:
        assert await refusal(trusted, make(steady)) == why


@pytest.mark.anyio
async def test_no_refusal_has_a_word_of_the_token(steady: Issuer) -> None:
    async with trusting(steady.section()) as trusted:
        for changes in ({"sub": "m\narker"}, {"aud": "marker"}, {"scope": ["marker"]}, {"iss": "marker"}):
            assert "marker" not in await refusal(trusted, steady.token(**changes))


@pytest.mark.anyio
async def test_claims_may_be_nested_and_long(steady: Issuer) -> None:
    nested: Any = {}
    for _ in range(30):
        nested = {"a": nested}
    token = steady.token(groups=["g" * 36] * 200, nested=nested)
    async with trusting(steady.section()) as trusted:
        assert await subject(trusted, token) == "alice"


@dataclass
class Believer:
    """A verifier that is entered, for tests that have no event loop."""

    portal: BlockingPortal
    trusted: TrustedIssuers

    def believes(self, token: str) -> bool:
        """Say whether a token is believed; the only other answer is that it is refused."""
        try:
            self.portal.call(self.trusted.verify, token)
        except TokenRefused:
            return False
        return True


@pytest.fixture(scope="module")
def believer(steady: Issuer) -> Iterator[Believer]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(trusting(steady.section(), gap=FAR, again=0)) as trusted,
    ):
        yield Believer(portal, trusted)


@given(st.data())
def test_a_token_with_one_character_changed_is_never_believed(
    steady: Issuer, believer: Believer, data: st.DataObject
) -> None:
    """Wherever it is: all that is read is signed over, and base64url has one spelling."""
    token = steady.token()
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda letter: letter != token[place]))
    assert not believer.believes(token[:place] + other + token[place + 1 :])
    assert believer.believes(token)


@given(st.data())
def test_parts_of_two_tokens_are_never_believed_together(
    steady: Issuer, believer: Believer, data: st.DataObject
) -> None:
    one, other = steady.token().split("."), steady.token(sub="bob", header={"x": 1}).split(".")
    parts = [data.draw(st.sampled_from(pair)) for pair in zip(one, other, strict=True)]
    assert believer.believes(".".join(parts)) == (parts in (one, other))


@given(
    st.text()
    | st.from_regex(r"[\w-]{0,40}(\.[\w-]{0,40}){0,5}=*", fullmatch=True, alphabet=st.characters(codec="ascii"))
)
def test_whatever_is_shown_as_a_token_is_refused_and_nothing_else(believer: Believer, token: str) -> None:
    assert not believer.believes(token)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["typ", "alg", "kid", "crit", "b64", "jwk", "more"]), _JSON, max_size=3))
def test_whatever_a_header_holds_it_is_believed_or_refused(
    steady: Issuer, believer: Believer, changes: dict[str, Any]
) -> None:
    token = sign(steady.header(**changes), steady.claims(), steady.signers[-1])
    assert believer.believes(token) == (changes.keys() <= {"more"})


@given(st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "sub", "scope", "client_id", "cnf"]), _JSON))
def test_whatever_claims_hold_they_are_believed_or_refused(
    steady: Issuer, believer: Believer, changes: dict[str, Any]
) -> None:
    token = steady.token(**changes)
    believed = believer.believes(token)
    assert not believed or changes.keys().isdisjoint({"aud", "cnf"})  # none of what is drawn is a good one

"""Proofs of possession that prove nothing, shown with a token that is bound to a key (RFC 9449).

The thief has the token and whatever was sent with it before, but not the key. Some rows have the key, and an honest
program's mistakes, which a thief would use.
"""

import base64
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.attacks.oauth.forge import MISSING, b64, ec_key, ed_key, jws, proof, rsa_key, secret
from tests.attacks.oauth.stage import Stage

CLIENT: Final = ec_key("client")
THIEF: Final = ec_key("thief")

OTHER_KEY: Final = "the proof is of another key than the token"
METHOD: Final = "the proof is for another method"
TARGET: Final = "the proof is for another URL"
TOKEN: Final = "the proof is for another token"  # noqa: S105  # words, no secret
OLD: Final = "the proof is too old: one is made for each request, by a clock that is right"
EARLY: Final = "the proof is from the future: the clock of the client is wrong"
NO_TIME: Final = "the proof does not say when it was made"
JTI: Final = "the proof has no proper jti"
TYPE: Final = "the proof has another type than dpop+jwt"
ALGORITHM: Final = "the proof is signed with an algorithm that is not allowed"
MEMBER: Final = "the header of the proof has a member that is refused"
NO_KEY: Final = "the proof has no public key"
PRIVATE: Final = "the proof gives a private key away"
KIND: Final = "the key of the proof is of a kind that is not allowed"
SIGNATURE: Final = "the proof is not signed by its key"
UNREADABLE: Final = "the proof cannot be read"
NOT_JWT: Final = "the proof is not a signed JWT"
TOO_LONG: Final = "the proof is too long"
NONE: Final = "the proof is missing"
SEVERAL: Final = "the token needs one DPoP header, with a proof"
USED: Final = "the proof was used before"


@dataclass(frozen=True)
class Shown:
    """What is shown with a bound token: the values of the DPoP headers, by the server and the token."""

    name: str
    story: str
    make: Callable[[Stage, str], list[str]]
    why: str
    scheme: str = "DPoP"
    error: str = "invalid_dpop_proof"
    fields: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        return self.name


def made(stage: Stage, token: str, *, key: Any = CLIENT, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a good proof for a call, but for what is given."""
    return proof(key, token=token, method="POST", url=stage.url, header=header, **claims)


def saying(name: str, story: str, why: str, **claims: Any) -> Shown:
    """Return a proof by the right key that says something else."""
    return Shown(name, story, lambda stage, token: [made(stage, token, **claims)], why)


def timed(name: str, story: str, why: str, seconds: float) -> Shown:
    return Shown(name, story, lambda stage, token: [made(stage, token, iat=time.time() + seconds)], why)


def headed(name: str, story: str, why: str, **members: Any) -> Shown:
    """Return a proof by the right key under another header."""
    return Shown(name, story, lambda stage, token: [made(stage, token, header=members)], why)


def aimed(name: str, story: str, target: Callable[[str], Any]) -> Shown:
    return Shown(f"htu {name}", story, lambda stage, token: [made(stage, token, htu=target(stage.url))], TARGET)


def parts(stage: Stage, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a good proof."""
    claims = {
        "jti": uuid.uuid4().hex,
        "htm": "POST",
        "htu": stage.url,
        "iat": int(time.time()),
        "ath": b64(hashlib.sha256(token.encode()).digest()),
    }
    public = {name: value for name, value in CLIENT.jwk().items() if name not in {"kid", "use"}}
    return {"typ": "dpop+jwt", "alg": "ES256", "jwk": public}, claims


def by_thief(stage: Stage, token: str) -> list[str]:
    """Return a proof with the right key in its header, signed by another."""
    return [jws(*parts(stage, token), THIEF)]


def without_signature(stage: Stage, token: str) -> list[str]:
    header, claims = parts(stage, token)
    return [jws({**header, "alg": "none"}, claims, None)]


def cut(stage: Stage, token: str) -> list[str]:
    return [secret(made(stage, token).rpartition(".")[0] + ".")]


def by_shared_secret(stage: Stage, token: str) -> list[str]:
    header, claims = parts(stage, token)
    return [jws({**header, "alg": "HS256"}, claims, CLIENT.pem())]


def twice(stage: Stage, token: str) -> list[str]:
    """Return a proof that names two methods."""
    header, claims = parts(stage, token)
    return [jws(header, json.dumps(claims)[:-1] + ',"htm":"POST"}', CLIENT)]


ROWS: Final = (
    Shown("no proof", "a token that was stolen by itself", lambda _stage, _token: [], NONE),
    Shown(
        "no proof, under Bearer",
        "the same, shown as if it were not bound",
        lambda _stage, _token: [],
        "the token is bound to a key, so that its scheme is DPoP",
        "Bearer",
        "invalid_token",
    ),
    Shown(
        "a good proof, under Bearer",
        "a proof that nobody looks at",
        lambda stage, token: [made(stage, token)],
        "the token is bound to a key, so that its scheme is DPoP",
        "Bearer",
        "invalid_token",
    ),
    Shown("an empty proof", "nothing", lambda _stage, _token: [""], NOT_JWT),
    Shown(
        "the thief's key", "the thief has a key too", lambda stage, token: [made(stage, token, key=THIEF)], OTHER_KEY
    ),
    Shown("the right key in the header, the thief's signature", "the public key is no secret", by_thief, SIGNATURE),
    Shown("no signature", "the same, unsigned", without_signature, NOT_JWT),
    Shown("a signature that was cut off", "the same", cut, NOT_JWT),
    Shown("HMAC with the public key", "the public key is no secret", by_shared_secret, ALGORITHM),
    Shown(
        "two proofs",
        "who checks the first and who checks the last do not check the same",
        lambda stage, token: [made(stage, token), made(stage, token)],
        SEVERAL,
    ),
    Shown("two proofs, the first one bad", "the same", lambda stage, token: ["x", made(stage, token)], SEVERAL),
    Shown(
        "two proofs in one header",
        "the same",
        lambda stage, token: [f"{made(stage, token)}, {made(stage, token)}"],
        NOT_JWT,
    ),
    Shown("a member twice", "the same", twice, UNREADABLE),
    Shown("the token itself", "a token is no proof", lambda _stage, token: [token], TYPE),
    saying("for another method", "a proof that was caught on a harmless request", METHOD, htm="GET"),
    saying("for the method in lower case", "methods have a case", METHOD, htm="post"),
    saying("for a list of methods", "one of them is right", METHOD, htm=["POST"]),
    saying("for no method", "for any", METHOD, htm=MISSING),
    aimed(
        "of the other endpoint", "a proof for the grammar opens no call", lambda url: url.replace("/mcp", "/grammar")
    ),
    aimed("of another server", "a proof that a hostile server was shown", lambda _: "https://files.example.com/mcp"),
    aimed("of another port", "another server of this machine", lambda _: "http://127.0.0.1:1/mcp"),
    aimed("by another scheme", "the same server, for who does not look", lambda url: url.replace("http:", "https:")),
    aimed("with a slash", "another path", lambda url: f"{url}/"),
    aimed("in upper case", "paths have a case", lambda url: url.replace("/mcp", "/MCP")),
    aimed("cut", "the beginning of the right one", lambda url: url[:-1]),
    aimed("with a user", "the right one behind somebody's name", lambda url: url.replace("//", "//corp@")),
    aimed("relative", "no server at all", lambda _: "/mcp"),
    aimed("in a list", "one of them is right", lambda url: [url]),
    aimed("missing", "for any", lambda _: MISSING),
    Shown(
        "htu of the host that a header names",
        "the request's own words about where it goes count for nothing",
        lambda stage, token: [made(stage, token, htu="https://evil.example/mcp")],
        TARGET,
        fields=(("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Proto", "https")),
    ),
    saying(
        "for another token",
        "a proof that was caught with a weaker token",
        TOKEN,
        ath=b64(hashlib.sha256(b"another").digest()),
    ),
    saying("for no token", "a proof that was meant for the token endpoint", TOKEN, ath=MISSING),
    saying("for an empty token", "the same", TOKEN, ath=""),
    Shown(
        "for the token in another spelling",
        "a digest in plain base64",
        lambda stage, token: [
            made(stage, token, ath=base64.b64encode(hashlib.sha256(token.encode()).digest()).decode())
        ],
        TOKEN,
    ),
    timed("from before", "a proof that lay around", OLD, -120),
    timed("from tomorrow", "a proof that was made in advance, to be good later", EARLY, 86_400),
    saying("without a time", "for ever", NO_TIME, iat=MISSING),
    saying("with a time that is a string", "for ever", NO_TIME, iat="99999999999"),
    saying("with a time that is true", "true is 1", NO_TIME, iat=True),
    saying("with a time of 400 digits", "a number that no other kind of number can hold", EARLY, iat=10**400),
    saying("with a time that is none", "never too old", UNREADABLE, iat=float("nan")),
    saying("without a jti", "what cannot be told from itself again", JTI, jti=MISSING),
    saying("with an empty jti", "the same", JTI, jti=""),
    saying("with a jti that is a number", "the same", JTI, jti=7),
    saying("with a jti without end", "what fills the memory of used ones", JTI, jti="j" * 1_500),
    saying("without end", "work", TOO_LONG, more="x" * 5_000),
    headed("of another type", "any JWT that the key ever signed", TYPE, typ="JWT"),
    headed("of no type", "the same", TYPE, typ=MISSING),
    headed("without a key", "nothing to check by", NO_KEY, jwk=MISSING),
    headed("with a key that is a string", "nothing to check by", NO_KEY, jwk="client"),
    headed(
        "with the private key", "a key that is nobody's secret any more", PRIVATE, jwk=ec_key("client").private_jwk()
    ),
    headed("with a symmetric key", "a key that is in the request", PRIVATE, jwk={"kty": "oct", "k": "c2VjcmV0"}),
    headed(
        "with a key on another curve",
        "a point that is on no curve",
        KIND,
        jwk={**ec_key("client").jwk(), "crv": "P-384"},
    ),
    headed("with an RSA key", "a key that does not fit the algorithm", KIND, jwk=rsa_key("mallory").jwk()),
    headed("with another kind of key", "the same", KIND, jwk=ed_key("mallory").jwk()),
    headed("with jku", "from where a key is to be fetched", MEMBER, jku="http://127.0.0.1:1/mallory"),
    headed("with crit", "what must be understood", MEMBER, crit=["jwk"]),
    headed("with b64", "signed one way, read another", MEMBER, b64=False),
)

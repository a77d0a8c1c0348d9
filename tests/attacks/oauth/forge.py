"""Tokens, proofs and key sets, made by hand from bytes: libraries refuse to make bad ones.

Owns how a forgery is spelled, and remembers every secret that it makes, so that the tests can look for them in whatever
was written. Never uses the code that it attacks, nor the library that this code verifies with.
"""

import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Part = Mapping[str, Any] | list[Any] | str | bytes
"""A part of a token: JSON to write, or the very text or bytes."""

MISSING: Final = object()
"""The value of a claim, or of a header member, that is to be left out."""

SECRETS: set[str] = set()
"""The tokens and proofs that were made, and must be read nowhere. A test that looks for its own empties it first."""

KEYS: set[str] = set()
"""The private members of every key that was made."""

_HASHES: Final = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_CURVES: Final = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1(), "ES256K": ec.SECP256K1()}


def secret(text: str) -> str:
    """Remember a secret, and return it."""
    SECRETS.add(text)
    return text


def b64(content: bytes) -> str:
    """Return base64url without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    """Return what base64url without padding stands for."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def written(part: Part) -> bytes:
    """Return the bytes of a part. JSON is written as it comes: NaN, and whatever a strict writer would refuse."""
    if isinstance(part, bytes):
        return part
    return part.encode() if isinstance(part, str) else json.dumps(part, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Key:
    """A key pair and the name under which it is published."""

    private: PrivateKey
    kid: str

    @property
    def alg(self) -> str:
        """The algorithm that fits it."""
        match self.private:
            case rsa.RSAPrivateKey():
                return "RS256"
            case ec.EllipticCurvePrivateKey():
                return next(alg for alg, curve in _CURVES.items() if curve.name == self.private.curve.name)
            case _:
                return "Ed25519"

    def jwk(self, **more: Any) -> dict[str, Any]:
        """Return the public key (RFC 7517), with the members that are told apart by no signature changed."""
        return _with({"kid": self.kid, "use": "sig"} | self._numbers(), more)

    def private_jwk(self) -> dict[str, Any]:
        """Return the private key: what no key set may hold."""
        match self.private:
            case rsa.RSAPrivateKey():
                numbers = self.private.private_numbers()
                own = {"d": numbers.d, "p": numbers.p, "q": numbers.q}
                return self.jwk() | {name: b64(_bytes(value)) for name, value in own.items()}
            case ec.EllipticCurvePrivateKey():
                size = (self.private.key_size + 7) // 8
                return self.jwk() | {"d": b64(self.private.private_numbers().private_value.to_bytes(size))}
            case _:
                return self.jwk() | {"d": b64(self.private.private_bytes_raw())}

    def pem(self) -> bytes:
        """Return the public key in PEM."""
        info = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, info)

    def thumbprint(self) -> str:
        """Return what a token that is bound to the key names it by (RFC 7638)."""
        numbers = json.dumps(self._numbers(), separators=(",", ":"), sort_keys=True)
        return b64(hashlib.sha256(numbers.encode()).digest())

    def _numbers(self) -> dict[str, str]:
        match self.private.public_key():
            case rsa.RSAPublicKey() as public:
                numbers = public.public_numbers()
                return {"kty": "RSA", "n": b64(_bytes(numbers.n)), "e": b64(_bytes(numbers.e))}
            case ec.EllipticCurvePublicKey() as public:
                point, size = public.public_numbers(), (public.key_size + 7) // 8
                curve = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}.get(
                    public.curve.name, public.curve.name
                )
                return {"kty": "EC", "crv": curve, "x": b64(point.x.to_bytes(size)), "y": b64(point.y.to_bytes(size))}
            case other:
                return {"kty": "OKP", "crv": "Ed25519", "x": b64(other.public_bytes_raw())}


@cache
def rsa_key(kid: str, bits: int = 2048) -> Key:
    """Return an RSA key; the same one for the same name."""
    return _kept(Key(rsa.generate_private_key(65537, bits), kid))


@cache
def ec_key(kid: str, alg: str = "ES256") -> Key:
    """Return a key on the curve of an algorithm; the same one for the same name."""
    return _kept(Key(ec.generate_private_key(_CURVES[alg]), kid))


@cache
def ed_key(kid: str) -> Key:
    """Return an Ed25519 key; the same one for the same name."""
    return _kept(Key(ed25519.Ed25519PrivateKey.generate(), kid))


def sign(alg: str, key: Key | bytes, message: bytes) -> bytes:
    """Return a signature by an algorithm, also with a key that is not meant for it. ``bytes`` are a shared secret."""
    if isinstance(key, bytes):
        return hmac.digest(key, message, f"sha{alg[2:] if alg.startswith('HS') else '256'}")
    match key.private:
        case rsa.RSAPrivateKey() as private:
            hashing = _HASHES.get(alg[2:], _HASHES["256"])
            pss = padding.PSS(padding.MGF1(hashing), hashing.digest_size)
            return private.sign(message, pss if alg.startswith("PS") else padding.PKCS1v15(), hashing)
        case ec.EllipticCurvePrivateKey() as private:
            size = (private.key_size + 7) // 8
            r, s = decode_dss_signature(private.sign(message, ec.ECDSA(_HASHES.get(alg[2:5], _HASHES["256"]))))
            return r.to_bytes(size) + s.to_bytes(size)
        case private:
            return private.sign(message)


def jws(header: Part, payload: Part, key: Key | bytes | None, alg: str | None = None) -> str:
    """Return a compact JWS of any two parts; without a key its signature is empty.

    ``alg`` is what it is signed by, else what the header says, else what fits the key.
    """
    signed = f"{b64(written(header))}.{b64(written(payload))}"
    said = header.get("alg") if isinstance(header, Mapping) else None
    if key is None:
        return secret(f"{signed}.")
    chosen = alg or (said if isinstance(said, str) else None) or (key.alg if isinstance(key, Key) else "HS256")
    return secret(f"{signed}.{b64(sign(chosen, key, signed.encode()))}")


def _with(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**base, **changes}.items() if value is not MISSING}


@dataclass(frozen=True)
class Mint:
    """Makes access tokens as one issuer does (RFC 9068), and as it never would."""

    issuer: str
    audience: str
    key: Key
    claims: Mapping[str, Any] = field(default_factory=dict)

    def header(self, **changes: Any) -> dict[str, Any]:
        """Return a good header with some members changed."""
        return _with({"alg": self.key.alg, "kid": self.key.kid, "typ": "at+jwt"}, changes)

    def payload(self, **changes: Any) -> dict[str, Any]:
        """Return good claims with some changed."""
        now = int(time.time())
        base = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": "mallory",
            "client_id": "agent",
            "jti": uuid.uuid4().hex,
            "iat": now,
            "exp": now + 300,
            "scope": "mcp:diag:read mcp:diag:write",
        }
        return _with({**base, **self.claims}, changes)

    def token(
        self,
        header: Part | None = None,
        payload: Part | None = None,
        *,
        key: Key | bytes | None = MISSING,  # type: ignore[assignment]  # None: no signature
        alg: str | None = None,
    ) -> str:
        """Return a good token, but for what is given."""
        key = self.key if key is MISSING else key
        return jws(
            self.header() if header is None else header, self.payload() if payload is None else payload, key, alg
        )

    def saying(self, **claims: Any) -> str:
        """Return a token that is signed well, and says something else."""
        return self.token(payload=self.payload(**claims))

    def headed(self, **members: Any) -> str:
        """Return a token that is signed by this issuer's key under another header."""
        return self.token(self.header(**members))


def proof(
    key: Key, *, token: str, method: str, url: str, header: Mapping[str, Any] | None = None, **claims: Any
) -> str:
    """Return a proof of possession for one request (RFC 9449, section 4.2), with some of it changed."""
    base = {
        "jti": uuid.uuid4().hex,
        "htm": method,
        "htu": url,
        "iat": int(time.time()),
        "ath": b64(hashlib.sha256(token.encode()).digest()),
    }
    public = {name: value for name, value in key.jwk().items() if name not in {"kid", "use"}}
    head = _with({"typ": "dpop+jwt", "alg": key.alg, "jwk": public}, header or {})
    return jws(head, _with(base, claims), key)


def _kept(key: Key) -> Key:
    for name, value in key.private_jwk().items():
        if name in {"d", "p", "q"}:
            KEYS.add(value)
    return key


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)

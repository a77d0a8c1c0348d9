"""DPoP: whoever shows a token that is bound to a key proves with each request that they have the key (RFC 9449).

A proof is a small JWT that the client signs for one request. It is believed once: what was shown is remembered for as
long as it would be believed again, by this process, and where replicas share a store there too, so that one that is
caught on its way is good at none of them. The server's own nonces (RFC 9449, section 9) are not asked for. No part of a
proof or of a token is in any message.
"""

import base64
import hashlib
import heapq
import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import import_key, thumbprint
from joserfc.util import urlsafe_b64decode

from guideway.server.oauth.access_token import Unverified, is_signed_by
from guideway.server.oauth.strict_json import read_object
from guideway.server.oauth.verified import IssuerUnavailable

ALGORITHMS: Final = ("ES256", "ES384", "Ed25519", "EdDSA", "PS256", "RS256")
"""The signatures of proofs that are believed, none of them symmetric."""

OLDEST: Final = 60
"""Seconds after which a proof is too old."""

EARLIEST: Final = 30
"""Seconds by which a client's clock may be ahead."""

APART: Final = 10
"""Seconds by which the clocks of replicas, and of what they share, may differ."""

STORE_SECONDS: Final = 5
"""Seconds until somebody is to try again whose proof could not be looked for."""

MOST_BYTES: Final = 4096
"""A longer proof is refused unread. With an RSA key of 4,096 bits one has about 2,000."""

MOST_REMEMBERED: Final = 250_000
"""Proofs that are remembered, in about 50 MB: as many as one processor core can check in the time they are."""

_PROOF: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[!-~]+")
_MOST_JTI: Final = 512
#: By algorithm the members of the public key, and those of them that can only be so.
_KEYS: Final[Mapping[str, tuple[frozenset[str], Mapping[str, str]]]] = MappingProxyType(
    {
        "ES256": (frozenset({"kty", "crv", "x", "y"}), {"kty": "EC", "crv": "P-256"}),
        "ES384": (frozenset({"kty", "crv", "x", "y"}), {"kty": "EC", "crv": "P-384"}),
        "Ed25519": (frozenset({"kty", "crv", "x"}), {"kty": "OKP", "crv": "Ed25519"}),
        "EdDSA": (frozenset({"kty", "crv", "x"}), {"kty": "OKP", "crv": "Ed25519"}),
        # A key with an exponent of its own choice could make the check as slow as it likes.
        "PS256": (frozenset({"kty", "n", "e"}), {"kty": "RSA", "e": "AQAB"}),
        "RS256": (frozenset({"kty", "n", "e"}), {"kty": "RSA", "e": "AQAB"}),
    }
)
_LEAST_MODULUS: Final = 342  # characters of base64url: 2,048 bits
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# What changes how the proof is to be read, or names another key for it.
_REFUSED_MEMBERS: Final = frozenset({"crit", "b64", "zip", "enc", "jku", "x5u", "x5c"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ProofRefused(Exception):  # noqa: N818  # it is an answer, not a fault
    """The proof is not believed: ``invalid_dpop_proof`` (RFC 9449, section 7.1). The message is the description."""


class Shared(Protocol):
    """What replicas remember together."""

    async def put(self, digest: str, until: float) -> bool:
        """Remember a proof; say whether no replica has been shown it before. May raise ``StoreUnavailable``."""
        ...


@runtime_checkable
class KeepsProofs(Protocol):
    """A store that may be one of replicas."""

    @property
    def proofs(self) -> Shared | None:
        """What replicas remember together, None where this machine has the store for itself."""
        ...


def shared_by(records: object) -> Shared | None:
    """Return what a store has that replicas remember together; None for one that keeps nothing of the kind."""
    return records.proofs if isinstance(records, KeepsProofs) else None


class Shown(NamedTuple):
    """A proof that was believed: its digest, and when it was made, in seconds since the epoch."""

    digest: bytes
    issued: float


class Proofs:
    """Checks proofs, and remembers those that it believed. One for a server, whatever it serves."""

    def __init__(
        self,
        shared: Shared | None = None,
        *,
        most: int = MOST_REMEMBERED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``most`` proofs are remembered; while there are as many, nobody with a bound token is let in.

        ``shared`` is None where this process alone is shown proofs.
        """
        self._shared = shared
        self._most = most
        self._clock = clock
        self._seen: set[bytes] = set()
        self._by_time: list[tuple[float, bytes]] = []  # a heap
        self._forgotten_until = float("-inf")

    async def require(self, values: Sequence[str], *, method: str, url: str, token: str, key_thumbprint: str) -> None:
        """Check the proof that came with a token as ``check`` does, and that no other replica has been shown it.

        Raises ``StoreUnavailable`` too, where that cannot be looked for: then nobody is let in.
        """
        shown = self.check(values, method=method, url=url, token=token, key_thumbprint=key_thumbprint)
        if self._shared is None:
            return
        if not await self._shared.put(shown.digest.hex(), shown.issued + OLDEST + APART):
            raise ProofRefused("the proof was used before, or is too old by the clock that replicas share")

    def check(self, values: Sequence[str], *, method: str, url: str, token: str, key_thumbprint: str) -> Shown:
        """Check the proof that came with a token: RFC 9449, section 4.3; and that it is new to this process.

        ``values`` are those of all DPoP headers of the request. ``method`` is the request's; ``url`` is where clients
        send it to, by the configuration and never by the request. ``key_thumbprint`` is the token's ``cnf.jkt``
        (RFC 7638). Raises ``ProofRefused``, and ``IssuerUnavailable`` where no more can be remembered.
        """
        proof = _read(values)
        key = _public_key(proof.header)
        if thumbprint(key) != key_thumbprint:
            raise ProofRefused("the proof is of another key than the token")
        claims = proof.claims
        if claims.get("htm") != method:
            raise ProofRefused("the proof is for another method")
        target = _target(claims.get("htu"))
        if target is None or target != _target(url):
            raise ProofRefused("the proof is for another URL")
        if claims.get("ath") != _digest(token.encode("ascii")):
            raise ProofRefused("the proof is for another token")
        jti = claims.get("jti")
        if not isinstance(jti, str) or not 0 < len(jti) <= _MOST_JTI:
            raise ProofRefused("the proof has no proper jti")
        now = self._clock()
        issued = _issued(claims.get("iat"), now)
        if not _is_signed(proof, key):
            raise ProofRefused("the proof is not signed by its key")
        digest = hashlib.sha256(f"{key_thumbprint} {jti}".encode("utf-8", "surrogatepass")).digest()
        shown = Shown(digest, issued)
        self._remember(shown, now)
        return shown

    def _remember(self, shown: Shown, now: float) -> None:
        """Remember a proof until it would be too old. Raises where it is known, or cannot be remembered."""
        proof, issued = shown
        while self._by_time and self._by_time[0][0] < now - OLDEST:
            self._forgotten_until, forgotten = heapq.heappop(self._by_time)
            self._seen.discard(forgotten)
        # The second: a clock that is set back would make the old ones good again.
        if proof in self._seen or issued <= self._forgotten_until:
            raise ProofRefused("the proof was used before")
        if len(self._seen) >= self._most:
            raise IssuerUnavailable("too many proofs came at once", EARLIEST)
        self._seen.add(proof)
        heapq.heappush(self._by_time, (issued, proof))


def _read(values: Sequence[str]) -> Unverified:
    if len(values) != 1:
        raise ProofRefused("the token needs one DPoP header, with a proof" if values else "the proof is missing")
    if len(values[0]) > MOST_BYTES:
        raise ProofRefused("the proof is too long")
    if not _PROOF.fullmatch(values[0]):
        raise ProofRefused("the proof is not a signed JWT")
    header, claims, _ = values[0].encode("ascii").split(b".")
    try:
        return Unverified(values[0], read_object(urlsafe_b64decode(header)), read_object(urlsafe_b64decode(claims)))
    except ValueError:
        raise ProofRefused("the proof cannot be read") from None


def _public_key(header: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return what makes up the key that the proof brings along; other members say nothing here."""
    if header.get("typ") != "dpop+jwt":
        raise ProofRefused("the proof has another type than dpop+jwt")
    if not _REFUSED_MEMBERS.isdisjoint(header):
        raise ProofRefused("the header of the proof has a member that is refused")
    algorithm, key = header.get("alg"), header.get("jwk")
    if not isinstance(algorithm, str) or algorithm not in _KEYS:
        raise ProofRefused("the proof is signed with an algorithm that is not allowed")
    names, fixed = _KEYS[algorithm]
    if not isinstance(key, dict):
        raise ProofRefused("the proof has no public key")
    if not _PRIVATE.isdisjoint(key):
        raise ProofRefused("the proof gives a private key away")
    public = {name: value for name in names if isinstance(value := key.get(name), str)}
    is_short = "n" in names and len(public.get("n", "")) < _LEAST_MODULUS
    if public.keys() != names or not fixed.items() <= public.items() or is_short:
        raise ProofRefused("the key of the proof is of a kind that is not allowed")
    return {**public}


def _target(url: Any) -> tuple[str, str, int, str] | None:
    """Return what must be equal of two URLs: RFC 9449, section 4.3, and RFC 3986, section 6.2. None for no such URL."""
    try:
        parts = urlsplit(url if isinstance(url, str) and _PLAIN.fullmatch(url) else "")
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        return None
    port = _DEFAULT_PORTS[parts.scheme] if port is None else port
    return parts.scheme, parts.hostname, port, parts.path or "/"


def _issued(issued: Any, now: float) -> float:
    if not isinstance(issued, int | float) or isinstance(issued, bool):
        raise ProofRefused("the proof does not say when it was made")
    if issued < now - OLDEST:
        raise ProofRefused("the proof is too old: one is made for each request, by a clock that is right")
    if not issued <= now + EARLIEST:
        raise ProofRefused("the proof is from the future: the clock of the client is wrong")
    return issued


def _is_signed(proof: Unverified, key: dict[str, str | list[str]]) -> bool:
    try:
        return is_signed_by(proof, import_key(key))
    except (JoseError, ValueError):  # such as a point that is not on its curve
        return False


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")

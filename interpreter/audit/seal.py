"""Seals: signed statements of where a trail has come to, and who is believed when they say so.

A seal is a compact JWS (RFC 7515) by Ed25519 (RFC 8037, with the algorithm's name of RFC 9864); its ``kid`` is the
thumbprint of the key (RFC 7638). Its payload names a trail, a place in it, that record's hash, and the time. Whoever
has the public key needs nothing of this program to check one. Loaded only where a key is configured.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import OKPKey

from guideway.interpreter.audit.chain import moment
from guideway.interpreter.audit.sealed import Seal, Unbelieved, unproven

ALGORITHM: Final = "Ed25519"


class Signer:
    """Signs with one private key (``Sealer``)."""

    def __init__(self, key: OKPKey) -> None:
        if not key.is_private:
            raise ValueError("is a public key: the trail is signed with the private one")
        self._key = key
        self.kid = key.thumbprint()
        self._header = {"alg": ALGORITHM, "kid": self.kid}

    @classmethod
    def of(cls, text: str) -> "Signer":
        """Return the signer of a private key, as PEM (PKCS #8) or as JWK. Raises ``ValueError``, without the key."""
        keys = _read(text)
        if len(keys) != 1:
            raise ValueError("holds a set of keys: the trail is signed with one")
        return cls(keys[0])

    @property
    def public(self) -> OKPKey:
        """The public key."""
        return _public(self._key)

    def seal(self, trail: str, seq: int, digest: str, at: float) -> str:
        """Return a seal of a trail's record; ``at`` is in seconds since the epoch."""
        payload = {"trail": trail, "seq": seq, "hash": digest, "at": moment(at)}
        said = json.dumps(payload, separators=(",", ":")).encode()
        return jws.serialize_compact(self._header, said, self._key, algorithms=[ALGORITHM])


class Believed:
    """The public keys whose seals are believed (``Belief``)."""

    def __init__(self, keys: Iterable[OKPKey] = ()) -> None:
        self._keys = {key.thumbprint(): key for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def kids(self) -> list[str]:
        """The keys' thumbprints, in the order in which they were given."""
        return list(self._keys)

    def read(self, text: str) -> Seal:
        """Return what a seal says that was signed by a believed key. Raises ``Unbelieved``."""
        seal = unproven(text)
        key = self._keys.get(seal.kid)
        if key is None:
            raise Unbelieved(f"was signed by another key ({seal.kid}) than is believed here")
        try:
            jws.deserialize_compact(text, key, algorithms=[ALGORITHM])
        except Exception:  # noqa: BLE001  # what a header can be is endless, and not all of it is looked for there
            raise Unbelieved("has a signature that is not right") from None
        return seal


def public_keys(text: str) -> list[OKPKey]:
    """Return the public keys of a file: PEM, JWK, or JWK Set (RFC 7517). Raises ``ValueError``.

    Of a private key the public half is taken: who verifies with the file that signs need not make another.
    """
    return [_public(key) for key in _read(text)]


def _public(key: OKPKey) -> OKPKey:
    return OKPKey.import_key(key.as_dict(private=False)) if key.is_private else key


def _read(text: str) -> list[OKPKey]:
    """Return the keys that a text holds. Raises ``ValueError`` without a word of them."""
    found: Any = text.strip()
    if not found:
        raise ValueError("is empty or not set")
    if found.startswith("{"):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            raise ValueError("is no JWK: it is not JSON") from None
    try:
        members = found["keys"] if isinstance(found, dict) and "keys" in found else [found]
        keys = [OKPKey.import_key(each) for each in members]
        curves = {key.as_dict(private=False)["crv"] for key in keys}
    except Exception:  # noqa: BLE001  # what a text can be is endless, and what is said of a key is nothing
        raise ValueError("holds no Ed25519 key: `openssl genpkey -algorithm ed25519` makes one") from None
    if not keys or curves != {ALGORITHM}:
        raise ValueError("holds no Ed25519 key: `openssl genpkey -algorithm ed25519` makes one")
    return keys

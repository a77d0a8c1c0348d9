"""JWT access tokens (RFC 9068): what one must look like, and whether a key signed it.

Nothing in a token is believed here. Its claims are read once, before its signature is checked, to find out whose keys
to ask; they are the ones that the signature then covers. Every refusal is one of a few fixed sentences.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import Key
from joserfc.util import urlsafe_b64decode

from guideway.server.oauth.strict_json import read_object
from guideway.server.oauth.trusted import TrustedIssuer
from guideway.server.oauth.verified import TokenRefused
from guideway.server.sections import Algorithm

MOST_BYTES: Final = 12 * 1024
"""A longer token is refused unread. Headers of a request may have 16 KiB in all."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_SEGMENTS: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)+")

# What changes how a token is to be read, or brings its own key along. None of it is ever needed here.
_REFUSED_MEMBERS: Final = frozenset({"crit", "b64", "zip", "enc", "jwk", "jku", "x5u", "x5c"})

# What says that a token is something else: OpenID Connect Core, sections 2 and 3.3.2.11; RFC 8417, section 2.2.
_OTHER_TOKENS_CLAIMS: Final = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events"})


@dataclass(frozen=True, slots=True, repr=False)
class Unverified:
    """A JWT as it came. Nothing in it is believed."""

    token: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """The issuer that it says it is from, empty if it says none properly."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else ""


def check_form(token: str) -> None:
    """Check that something can be a token at all. Raises ``TokenRefused``."""
    if len(token) > MOST_BYTES:
        raise TokenRefused("the token is too long")
    if not _TOKEN.fullmatch(token):
        raise TokenRefused("the token has characters that no token has")


def read(token: str) -> Unverified | None:
    """Return a JWT's parts, None where it has not the form of one and so is opaque. Raises ``TokenRefused``."""
    if not _SEGMENTS.fullmatch(token):
        return None
    segments = token.encode("ascii").split(b".")
    try:
        header = urlsafe_b64decode(segments[0])
    except ValueError:
        return None
    if not header.lstrip(b" \t\r\n").startswith(b"{"):
        return None
    if len(segments) != 3:
        raise TokenRefused("the token is not a signed JWT")  # five are an encrypted one: RFC 7516, section 3.1
    try:
        return Unverified(token, read_object(header), read_object(urlsafe_b64decode(segments[1])))
    except ValueError:
        raise TokenRefused("the token cannot be read") from None


def check_header(unverified: Unverified, issuer: TrustedIssuer) -> tuple[str, str | None]:
    """Return the algorithm and the key id that a JWT names. Raises ``TokenRefused``: RFC 9068, section 4."""
    header = unverified.header
    if not _REFUSED_MEMBERS.isdisjoint(header):
        raise TokenRefused("the header of the token has a member that is refused")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in issuer.section.algorithms:
        raise TokenRefused("the token is signed with an algorithm that is not allowed")
    kid = header.get("kid")
    if "kid" in header and not isinstance(kid, str):
        raise TokenRefused("the token names its key in a way that is not known")
    _check_type(unverified, issuer)
    return algorithm, kid


def _check_type(unverified: Unverified, issuer: TrustedIssuer) -> None:
    """Check that the token is an access token: RFC 9068, section 2.1, or what the profile has instead of it."""
    profile = issuer.profile
    kind: str | None = None
    if "typ" in unverified.header:
        stated = unverified.header["typ"]
        if not isinstance(stated, str) or not stated.isascii():
            raise TokenRefused("the token is not an access token")
        kind = stated.lower().removeprefix("application/")
    if kind == "at+jwt":
        return
    claims = unverified.claims
    if (
        kind not in profile.plain_types
        or issuer.scope_claim not in claims
        or not _OTHER_TOKENS_CLAIMS.isdisjoint(claims)
        or any(claims.get(name) not in tuple(values) for name, values in profile.marks.items())
    ):
        raise TokenRefused("the token is not an access token")


class _Registry(jws.JWSRegistry):
    """The algorithms that can be allowed. Sizes are bounded before; unknown members of a header have no effect
    (RFC 7515, section 4). ``EdDSA`` gives no warning: it is what older issuers write for ``Ed25519``.
    """

    max_header_length = MOST_BYTES

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in _ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_ALGORITHMS: Final = frozenset(get_args(Algorithm))
_REGISTRY: Final = _Registry(strict_check_header=False)


def is_signed_by(unverified: Unverified, key: Key) -> bool:
    """Say whether a key signed a JWT, whose algorithm was checked to be one for that key."""
    try:
        jws.deserialize_compact(unverified.token, key, registry=_REGISTRY)
    except (JoseError, ValueError):
        return False
    return True

"""The ID token: whether it is the issuer's answer to the question that this page asked. Its claims are used for nothing
else; who somebody is, the access token says.
"""

from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from guideway.server.oauth.access_token import Unverified, is_signed_by, read
from guideway.server.oauth.keys import KeySet
from guideway.server.oauth.verified import TokenRefused
from guideway.server.sections import IssuerSection


class IdTokenRefused(Exception):  # noqa: N818  # it is an answer, not a fault
    """The ID token is not believed. The message says why, and holds no part of it."""


def check_id_token(
    text: object, issuer: IssuerSection, keys: KeySet, *, client_id: str, nonce: str, access_token: str, now: float
) -> None:
    """Check an ID token: OpenID Connect Core, section 3.1.3.7. Raises ``IdTokenRefused``."""
    try:
        unverified = read(text) if isinstance(text, str) and text.isascii() else None
    except TokenRefused as refused:
        raise IdTokenRefused(str(refused)) from None
    if unverified is None:
        raise IdTokenRefused("there is none")
    _check_signature(unverified, issuer, keys)
    expected = {
        "iss": {"essential": True, "value": issuer.issuer},
        "aud": {"essential": True, "value": client_id},
        "nonce": {"essential": True, "value": nonce},
    }
    known = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    claims = CodeIDToken(dict(unverified.claims), dict(unverified.header), expected, known)
    try:
        claims.validate(now=int(now), leeway=issuer.leeway_seconds)
    except (JoseError, ValueError, TypeError) as error:  # the claims may be of any type
        claim = getattr(error, "claim", None)
        raise IdTokenRefused(f"its {claim}" if isinstance(claim, str) else type(error).__name__) from None


def _check_signature(unverified: Unverified, issuer: IssuerSection, keys: KeySet) -> None:
    header = unverified.header
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms or "crit" in header:
        raise IdTokenRefused("its algorithm is not allowed")
    candidates = keys.candidates(kid if isinstance(kid, str) else None, algorithm)
    if not any(is_signed_by(unverified, candidate.key) for candidate in candidates):
        raise IdTokenRefused("no key of the issuer has signed it")

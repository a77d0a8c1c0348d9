"""What claims must say before there is a caller: RFC 9068, section 4, and RFC 7662, section 2.2.

Owns every rule about a claim, for JWTs and for answers of introspection alike. Whether the claims are the issuer's own
words was settled before. Every refusal is one of a few fixed sentences.
"""

from collections.abc import Mapping
from typing import Any, Final

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.server.oauth.trusted import TrustedIssuer
from guideway.server.oauth.verified import TokenRefused, Verified

Claims = Mapping[str, Any]

MOST_SUBJECT: Final = 255  # OpenID Connect Core, section 2
MOST_CLIENT: Final = 1024  # a client may be named by the URL of its metadata
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999; what lies beyond is no time
_THUMBPRINT_LENGTH: Final = 43  # of SHA-256 in base64url

_BASE64URL: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def caller(claims: Claims, issuer: TrustedIssuer, now: float) -> Verified:
    """Return the caller that the claims of a JWT are about. Raises ``TokenRefused``."""
    if not issuer.profile.required <= claims.keys():
        raise TokenRefused("the token lacks a claim that it must have")
    if "jti" in claims:
        _name(claims["jti"], MOST_CLIENT, "the token has no proper jti")
    client = _client(claims, issuer)
    if client is None:
        raise TokenRefused("the token names no client")
    return _verified(claims, issuer, now, subject=claims["sub"], client=client)


def introspected_caller(answer: Claims, issuer: TrustedIssuer, now: float) -> Verified:
    """Return the caller that an issuer's answer about an active token is about. Raises ``TokenRefused``.

    Stricter than RFC 7662 where that leaves things open: who, for whom and until when must all be said. Some providers
    name the person in ``username`` alone.
    """
    if "iss" in answer and answer["iss"] != issuer.section.issuer:
        raise TokenRefused("the token is from another issuer")
    kind = answer.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "dpop"):
        raise TokenRefused("the token is not an access token")
    if kind.lower() == "dpop" and "cnf" not in answer:
        raise TokenRefused("the token is bound to a key that the issuer does not name")
    subject = answer["sub"] if "sub" in answer else answer.get("username")
    return _verified(answer, issuer, now, subject=subject, client=_client(answer, issuer))


def _verified(claims: Claims, issuer: TrustedIssuer, now: float, *, subject: Any, client: str | None) -> Verified:
    _audience(claims.get("aud"), issuer)
    expires_at = _times(claims, now, issuer.section.leeway_seconds)
    principal = Principal(
        subject=_name(subject, MOST_SUBJECT, "the token has no proper subject"),
        scopes=_scopes(claims, issuer),
        issuer=issuer.section.issuer,
        client=client,
        tenant=_tenant(claims, issuer),
        expires_at=expires_at,
    )
    thumbprint = _key_thumbprint(claims)
    if thumbprint is None and issuer.section.dpop == "required":
        raise TokenRefused("the token is not bound to a key and must be")
    return Verified(principal, issuer.section, thumbprint)


def _audience(audience: Any, issuer: TrustedIssuer) -> None:
    """Check that the token is for here: RFC 8707, and RFC 7519, section 4.1.3. Compared character by character."""
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise TokenRefused("the token has no proper audience")
    if issuer.audiences.isdisjoint(named):
        raise TokenRefused("the token is for another audience")


def _times(claims: Claims, now: float, leeway: float) -> float:
    """Return when the token ends, the leeway included: RFC 7519, sections 4.1.4 to 4.1.6."""
    ends = _time(claims, "exp")
    if ends is None:
        raise TokenRefused("the token does not say when it expires")
    if now >= ends + leeway:
        raise TokenRefused("the token has expired")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and now < begins - leeway:
            raise TokenRefused("the token is not valid yet")
    return ends + leeway


def _time(claims: Claims, name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LAST_SECOND:  # infinity is not, and NaN neither
        raise TokenRefused("the token has a time that is none")
    return float(value)


def _name(value: Any, most: int, otherwise: str) -> str:
    """Return what somebody is called. It goes into logs and results, so that nothing invisible may be in it."""
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable() or value.isspace():
        raise TokenRefused(otherwise)
    return value


def _client(claims: Claims, issuer: TrustedIssuer) -> str | None:
    for name in issuer.client_claims:
        if name in claims:
            return _name(claims[name], MOST_CLIENT, "the token has no proper client")
    return None


def _scopes(claims: Claims, issuer: TrustedIssuer) -> frozenset[Scope]:
    """Return the scopes that are ours. Others grant nothing."""
    name = issuer.scope_claim
    if name not in claims:
        return frozenset()
    value = claims[name]
    if name in issuer.profile.list_claims and isinstance(value, list) and all(isinstance(one, str) for one in value):
        words = value
    elif isinstance(value, str):
        words = value.split(" ")  # RFC 6749, section 3.3: nothing but a space stands between two scopes
    else:
        raise TokenRefused("the token has scopes in a form that is not theirs")
    return frozenset(issuer.words[word] for word in words if word in issuer.words)


def _tenant(claims: Claims, issuer: TrustedIssuer) -> str | None:
    """Return whose tenant the caller is. A token that says something else than one known tenant is nobody's."""
    found: Any = claims
    if not issuer.tenant_path:
        return None
    for name in issuer.tenant_path:
        if not isinstance(found, Mapping):
            raise TokenRefused("the token has a tenant in a form that is not known")
        if name not in found:
            return None
        found = found[name]
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, str):
        raise TokenRefused("the token does not name one tenant")
    if found not in issuer.tenants:
        raise TokenRefused("the token is of a tenant that is not known here")
    return issuer.tenants[found]


def _key_thumbprint(claims: Claims) -> str | None:
    """Return the key that the token is bound to: RFC 9449, section 6.1. A binding that nobody checks is refused."""
    if "cnf" not in claims:
        return None
    confirmation = claims["cnf"]
    if not isinstance(confirmation, dict) or confirmation.keys() != {"jkt"}:
        raise TokenRefused("the token is bound in a way that is not supported")
    thumbprint = confirmation["jkt"]
    if (
        not isinstance(thumbprint, str)
        or len(thumbprint) != _THUMBPRINT_LENGTH
        or not _BASE64URL.issuperset(thumbprint)
    ):
        raise TokenRefused("the token is bound in a way that is not supported")
    return thumbprint

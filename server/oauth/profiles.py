"""How the tokens of known providers depart from RFC 9068: as data, one entry a provider.

The strict profile is the standard's. The others let in what their provider is documented to send, and nothing else.
What they give up in the header's ``typ`` they ask for elsewhere, so that no ID token is taken for an access token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from guideway.server import sections

_REQUIRED: Final = frozenset({"iss", "exp", "aud", "sub", "iat"})


@dataclass(frozen=True, slots=True)
class Profile:
    """What a provider's access tokens look like.

    ``client_claims`` are looked at in order; the first that is there counts. ``scope_claim`` is a string (RFC 9068,
    section 2.2.3) unless it is in ``list_claims``. ``required`` are the claims that must be there beside the client.
    ``plain_types`` are the values of ``typ`` that are let in beside ``at+jwt``, None for a header without one; a token
    with such a type must have its scope claim and, where ``marks`` has some, one of these values in these claims.
    """

    client_claims: tuple[str, ...] = ("client_id",)
    scope_claim: str = "scope"
    list_claims: frozenset[str] = frozenset()
    required: frozenset[str] = _REQUIRED
    plain_types: frozenset[str | None] = frozenset()
    marks: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))


PROFILES: Final[Mapping[sections.Profile, Profile]] = MappingProxyType(
    {
        "rfc9068": Profile(required=_REQUIRED | {"jti"}),
        # Its own token profile has `azp` and no `jti`; the other one that it offers is the standard's.
        "auth0": Profile(
            client_claims=("client_id", "azp"),
            list_claims=frozenset({"permissions"}),
            plain_types=frozenset({"jwt"}),
        ),
        # `azp` in version 2.0, `appid` in 1.0; `uti` stands for `jti`. Tokens without a user have `roles`, no `scp`.
        "entra": Profile(
            client_claims=("azp", "appid"),
            scope_claim="scp",
            list_claims=frozenset({"roles"}),
            plain_types=frozenset({"jwt"}),
        ),
        # All of its tokens are `JWT`; which kind one is stands in a claim `typ`.
        "keycloak": Profile(
            client_claims=("azp", "client_id"),
            required=_REQUIRED | {"jti"},
            plain_types=frozenset({"jwt"}),
            marks=MappingProxyType({"typ": frozenset({"Bearer", "DPoP"})}),
        ),
        # Its headers have no `typ`. Only access tokens have `cid` and `scp`.
        "okta": Profile(
            client_claims=("cid",),
            scope_claim="scp",
            list_claims=frozenset({"scp"}),
            required=_REQUIRED | {"jti"},
            plain_types=frozenset({"jwt", None}),
        ),
    }
)

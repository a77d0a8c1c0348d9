"""What claims say of a caller: until when, with which scopes, in whose tenant; and how providers differ."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.dsl.scopes import Scope
from guideway.server.oauth import claims
from guideway.server.oauth.access_token import Unverified, check_header
from guideway.server.oauth.trusted import TrustedIssuer, trusted_issuer
from guideway.server.oauth.verified import TokenRefused, Verified
from guideway.server.sections import IssuerSection, TenantSection
from tests.server.oauth.issuer import MISSING, RESOURCE, with_changes

ISSUER: Final = "https://login.example.com"
NOW: Final = 1_800_000_000
GOOD: Final = {
    "iss": ISSUER,
    "sub": "alice",
    "aud": RESOURCE,
    "client_id": "laptop",
    "iat": NOW - 60,
    "exp": NOW + 600,
    "jti": "1",
    "scope": "mcp:diag:read",
}


def trusted(tenants: dict[str, TenantSection] | None = None, **keys: Any) -> TrustedIssuer:
    section = IssuerSection.model_validate({"issuer": ISSUER, **keys})
    return trusted_issuer("corp", section, resource=RESOURCE, tenants=tenants or {})


def verified(issuer: TrustedIssuer | None = None, **changes: Any) -> Verified:
    return claims.caller(with_changes(GOOD, changes), issuer or trusted(), NOW)


def refusal(issuer: TrustedIssuer | None = None, **changes: Any) -> str:
    with pytest.raises(TokenRefused) as refused:
        verified(issuer, **changes)
    return str(refused.value)


def scopes(issuer: TrustedIssuer | None = None, **changes: Any) -> frozenset[Scope]:
    return verified(issuer, **changes).principal.scopes


# Until when


def test_the_callers_expiry_has_the_leeway_in_it() -> None:
    assert verified(trusted(leeway_seconds=7), exp=NOW + 600).principal.expires_at == NOW + 607


@pytest.mark.parametrize("leeway", [0, 30, 300])
def test_the_leeway_ends_where_it_says(leeway: int) -> None:
    issuer = trusted(leeway_seconds=leeway)
    verified(issuer, exp=NOW - leeway + 0.5)
    assert refusal(issuer, exp=NOW - leeway) == "the token has expired"
    for claim in ("nbf", "iat"):
        verified(issuer, **{claim: NOW + leeway})
        assert refusal(issuer, **{claim: NOW + leeway + 0.5}) == "the token is not valid yet"


def test_a_believed_token_gives_a_caller_who_holds_their_scopes_now() -> None:
    """The leeway counts here and there alike: no token is believed whose caller has expired."""
    caller = verified(trusted(leeway_seconds=30), exp=NOW - 29).principal
    assert caller.holds(Scope.READ, NOW)
    assert not caller.holds(Scope.READ, NOW + 1)


# For whom


def test_the_audience_may_be_one_of_several_and_one_of_those_that_are_configured() -> None:
    verified(aud=["https://other.example.com", RESOURCE])
    configured = trusted(audience=["api://diag", "diag"])
    verified(configured, aud="diag")
    assert refusal(configured, aud=RESOURCE) == "the token is for another audience"


# With which scopes

UNLIKE: Final = {
    "empty": "",
    "of others": "openid profile email",
    "in other letters": "MCP:DIAG:READ Mcp:diag:read",
    "its beginning": "mcp:diag mcp:diag: mcp:* mcp",
    "its end": "diag:read :read read",
    "longer": "mcp:diag:reader mcp:diag:read: mcp:diag:read*",
    "behind a no-break space": "openid\u00a0mcp:diag:read",
    "behind a tab": "openid\tmcp:diag:read",
    "behind a line end": "openid\nmcp:diag:read",
    "behind a comma": "openid,mcp:diag:read",
    "in full width": "\uff4d\uff43\uff50:diag:read",
    "with a look-alike": "mcp:diag:re\u0430d",
    "with a zero-width space": "mcp:diag:read\u200b",
    "quoted": '"mcp:diag:read"',
}


@pytest.mark.parametrize("scope", UNLIKE.values(), ids=UNLIKE)
def test_what_is_not_exactly_a_scope_grants_nothing(scope: str) -> None:
    assert scopes(scope=scope) == frozenset()


@given(st.lists(st.sampled_from(sorted(Scope)) | st.text()))
def test_the_scopes_are_the_words_between_spaces_that_are_exactly_ours(words: list[str]) -> None:
    text = " ".join(words)
    assert scopes(scope=text) == {scope for scope in Scope if scope.value in text.split(" ")}


def test_a_token_without_scopes_is_believed_and_grants_nothing() -> None:
    assert scopes(scope=MISSING) == frozenset()


def test_the_issuers_words_stand_for_the_scopes_and_the_usual_ones_no_more() -> None:
    issuer = trusted(scopes={"mcp:diag:read": "diag.read"})
    assert scopes(issuer, scope="diag.read mcp:diag:write") == {Scope.READ, Scope.WRITE}
    assert scopes(issuer, scope="mcp:diag:read") == frozenset()


def test_the_claims_of_the_scopes_and_of_the_client_can_be_named() -> None:
    issuer = trusted(scope_claim="rights", client_claim="app")
    caller = verified(issuer, rights="mcp:diag:write", app="phone").principal
    assert (caller.scopes, caller.client) == (frozenset({Scope.WRITE}), "phone")
    assert refusal(issuer) == "the token names no client"


# Bound to a key

THUMBPRINT: Final = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


def test_a_bound_token_says_to_which_key() -> None:
    assert verified(cnf={"jkt": THUMBPRINT}).key_thumbprint == THUMBPRINT
    assert verified().key_thumbprint is None


def test_a_token_that_is_not_bound_is_refused_where_it_must_be() -> None:
    issuer = trusted(dpop="required")
    assert verified(issuer, cnf={"jkt": THUMBPRINT}).key_thumbprint == THUMBPRINT
    assert refusal(issuer) == "the token is not bound to a key and must be"


# In whose tenant

TENANTS: Final = {
    "acme": TenantSection(members={"corp": frozenset({"org_1", "org_2"})}),
    "zeta": TenantSection(members={"corp": frozenset({"org_3"}), "other": frozenset({"org_1"})}),
}


@pytest.mark.parametrize(
    ("value", "tenant"),
    [("org_1", "acme"), ("org_2", "acme"), ("org_3", "zeta"), (["org_3"], "zeta"), (MISSING, None)],
)
def test_one_known_value_is_a_tenant_and_no_claim_is_none(value: Any, tenant: str | None) -> None:
    issuer = trusted(TENANTS, tenant_claim="org_id")
    assert verified(issuer, org_id=value).principal.tenant == tenant


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("org_4", "the token is of a tenant that is not known here"),
        ("ORG_1", "the token is of a tenant that is not known here"),
        ("acme", "the token is of a tenant that is not known here"),
        ("", "the token is of a tenant that is not known here"),
        (["org_1", "org_1"], "the token does not name one tenant"),
        (["org_1", "org_3"], "the token does not name one tenant"),
        ([], "the token does not name one tenant"),
        ([["org_1"]], "the token does not name one tenant"),
        ({"org_1": {}}, "the token does not name one tenant"),
        (1, "the token does not name one tenant"),
        (None, "the token does not name one tenant"),
    ],
)
def test_any_other_value_is_nobodys(value: Any, why: str) -> None:
    assert refusal(trusted(TENANTS, tenant_claim="org_id"), org_id=value) == why


def test_the_tenant_may_stand_inside_of_claims() -> None:
    issuer = trusted(TENANTS, tenant_claim=["org", "id"])
    assert verified(issuer, org={"id": "org_1"}).principal.tenant == "acme"
    assert verified(issuer, org={"name": "org_1"}).principal.tenant is None
    assert verified(issuer).principal.tenant is None
    assert verified(issuer, **{"org.id": "org_1"}).principal.tenant is None
    assert refusal(issuer, org="org_1") == "the token has a tenant in a form that is not known"
    assert refusal(issuer, org=None) == "the token has a tenant in a form that is not known"


def test_without_a_tenant_claim_nobody_has_a_tenant() -> None:
    assert verified(trusted(TENANTS), org_id="org_1").principal.tenant is None


def test_values_of_another_issuer_are_not_this_ones() -> None:
    section = IssuerSection(issuer=ISSUER, tenant_claim="org_id")
    other = trusted_issuer("other", section, resource=RESOURCE, tenants=TENANTS)
    assert verified(other, org_id="org_1").principal.tenant == "zeta"


# How providers differ

#: What each is documented to send, beside what stands in every token: its header's `typ`, and its claims.
PROVIDERS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "auth0": ("JWT", {"client_id": MISSING, "jti": MISSING, "azp": "laptop"}),
    "entra": ("JWT", {"client_id": MISSING, "jti": MISSING, "azp": "laptop", "scope": MISSING, "scp": "mcp:diag:read"}),
    "keycloak": ("JWT", {"client_id": MISSING, "azp": "laptop", "typ": "Bearer"}),
    "okta": (MISSING, {"client_id": MISSING, "cid": "laptop", "scope": MISSING, "scp": ["mcp:diag:read", "openid"]}),
}


def checked(issuer: TrustedIssuer, kind: Any, **changes: Any) -> Verified:
    header = with_changes({"alg": "RS256", "kid": "1", "typ": kind}, {})
    check_header(Unverified("", header, with_changes(GOOD, changes)), issuer)
    return verified(issuer, **changes)


@pytest.mark.parametrize("profile", PROVIDERS)
def test_a_profile_lets_in_what_its_provider_sends(profile: str) -> None:
    kind, changes = PROVIDERS[profile]
    caller = checked(trusted(profile=profile), kind, **changes).principal
    assert (caller.subject, caller.client, caller.scopes) == ("alice", "laptop", frozenset({Scope.READ}))


@pytest.mark.parametrize("profile", PROVIDERS)
def test_the_strict_profile_lets_none_of_that_in(profile: str) -> None:
    kind, changes = PROVIDERS[profile]
    with pytest.raises(TokenRefused):
        checked(trusted(), kind, **changes)
    with pytest.raises(TokenRefused):
        checked(trusted(), "at+jwt", **changes)


@pytest.mark.parametrize("profile", PROVIDERS)
@pytest.mark.parametrize(
    "changes",
    [
        {"scope": MISSING, "scp": MISSING},
        {"nonce": "n"},
        {"at_hash": "h"},
        {"c_hash": "h"},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
    ],
    ids=["no scopes", "a nonce", "the hash of a token", "the hash of a code", "a logout"],
)
def test_no_profile_lets_an_id_token_or_a_logout_token_in(profile: str, changes: dict[str, Any]) -> None:
    kind, usual = PROVIDERS[profile]
    with pytest.raises(TokenRefused, match="the token is not an access token"):
        checked(trusted(profile=profile), kind, **{**usual, **changes})


@pytest.mark.parametrize("kind", ["ID", "Refresh", "Offline", "Logout", "bearer", "", None, ["Bearer"], MISSING])
def test_keycloaks_tokens_of_other_kinds_are_told_by_a_claim(kind: Any) -> None:
    _, usual = PROVIDERS["keycloak"]
    with pytest.raises(TokenRefused, match="the token is not an access token"):
        checked(trusted(profile="keycloak"), "JWT", **{**usual, "typ": kind})


@pytest.mark.parametrize("profile", ["auth0", "entra", "keycloak"])
def test_a_token_without_type_is_let_in_only_where_the_provider_sends_none(profile: str) -> None:
    _, usual = PROVIDERS[profile]
    with pytest.raises(TokenRefused, match="the token is not an access token"):
        checked(trusted(profile=profile), MISSING, **usual)


def test_the_first_version_of_entras_tokens_names_the_client_otherwise() -> None:
    kind, usual = PROVIDERS["entra"]
    changes = {**usual, "azp": MISSING, "appid": "laptop"}
    assert checked(trusted(profile="entra"), kind, **changes).principal.client == "laptop"


def test_entras_roles_and_auth0s_permissions_are_lists_and_can_be_the_scopes() -> None:
    roles = trusted(profile="entra", scope_claim="roles")
    assert checked(roles, "JWT", azp="job", roles=["mcp:diag:write"]).principal.scopes == {Scope.WRITE}
    permissions = trusted(profile="auth0", scope_claim="permissions")
    assert checked(permissions, "JWT", permissions=["mcp:diag:write"]).principal.scopes == {Scope.WRITE}


@pytest.mark.parametrize("scp", [["mcp:diag:read", 1], [["mcp:diag:read"]], {"mcp:diag:read": 1}, None, 1])
def test_a_list_of_scopes_holds_strings_and_nothing_else(scp: Any) -> None:
    issuer = trusted(profile="okta")
    assert refusal(issuer, cid="x", scp=scp) == "the token has scopes in a form that is not theirs"


def test_a_string_in_a_list_of_scopes_is_one_scope() -> None:
    assert scopes(trusted(profile="okta"), cid="x", scp=["mcp:diag:read mcp:diag:write"]) == frozenset()


def test_only_oktas_scopes_are_a_list_without_being_named() -> None:
    for profile, claim in (("entra", "scp"), ("auth0", "scope"), ("keycloak", "scope")):
        changes = {claim: ["mcp:diag:read"], "azp": "x"}
        assert refusal(trusted(profile=profile), **changes) == "the token has scopes in a form that is not theirs"

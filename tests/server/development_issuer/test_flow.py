"""From a client's first request to its tokens, what the tokens are, and what stays over a restart."""

import time
from pathlib import Path

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from guideway.dsl.scopes import Scope
from tests.server.development_issuer.browser import Browser, approve, parameters
from tests.server.development_issuer.world import CODE, PEOPLE, READ, RESOURCE, WRITE, Client, opened, running

pytestmark = pytest.mark.anyio


async def test_a_client_gets_tokens_that_the_published_keys_verify(issuer: str, client: Client) -> None:
    tokens = await client.tokens()
    assert tokens["token_type"] == "Bearer"  # noqa: S105
    assert tokens["expires_in"] == 600
    assert tokens["scope"].split(" ") == [READ, WRITE]
    metadata = (await client.http.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
    published = (await client.http.get(metadata["jwks_uri"])).json()
    assert all(set(key) == {"kty", "crv", "x", "y", "use", "alg", "kid"} for key in published["keys"])
    keys = KeySet.import_key_set(published)
    verified = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
    assert verified.header == {"typ": "at+jwt", "alg": "ES256", "kid": published["keys"][0]["kid"]}
    claims = dict(verified.claims)
    assert claims.pop("exp") - claims["iat"] == 600
    assert abs(claims.pop("iat") - time.time()) < 60
    assert claims.pop("jti")
    assert claims == {
        "iss": issuer,
        "sub": "alice",
        "aud": RESOURCE,
        "client_id": client.client_id,
        "scope": f"{READ} {WRITE}",
    }


async def test_no_two_tokens_have_one_identifier(client: Client) -> None:
    first = await client.tokens()
    second = (await client.refresh(first["refresh_token"])).json()
    assert opened(first["access_token"])[1]["jti"] != opened(second["access_token"])[1]["jti"]


async def test_the_metadata_says_what_is_served_and_nothing_more(issuer: str, http: httpx2.AsyncClient) -> None:
    metadata = (await http.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
    assert metadata == {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "jwks_uri": f"{issuer}/jwks",
        "scopes_supported": ["openid", READ, WRITE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    assert (await http.get(f"{issuer}/.well-known/openid-configuration")).json() == metadata


async def test_who_asks_for_it_is_told_who_has_signed_in(issuer: str, client: Client) -> None:
    given = await client.tokens(scope=f"openid {READ}", nonce="a-nonce")
    header, claims = opened(given["id_token"])
    assert header["alg"] == "ES256"
    assert claims.pop("exp") > claims.pop("iat")
    assert claims == {"iss": issuer, "sub": "alice", "aud": client.client_id, "nonce": "a-nonce"}
    assert "openid" not in opened(given["access_token"])[1]["scope"]
    again = (await client.refresh(given["refresh_token"])).json()
    assert "id_token" not in again, "the question was answered"
    assert "id_token" not in await client.tokens()


async def test_nobody_is_let_in_without_being_asked(client: Client) -> None:
    async with Browser() as browser:
        answer = await browser.consent(client.url(scope=f"openid {READ}", prompt="none"), CODE, "alice")
    assert parameters(answer.headers["location"])["error"] == "interaction_required"


async def test_the_answer_names_its_issuer_and_brings_back_the_state(issuer: str, client: Client) -> None:
    sent = parameters(await approve(client.url(state='with "quotes" & =signs'), CODE, "alice"))
    assert sent.pop("code")
    assert sent == {"state": 'with "quotes" & =signs', "iss": issuer}


async def test_a_client_without_a_state_is_sent_none(issuer: str, client: Client) -> None:
    sent = parameters(await approve(client.url(state=None), CODE, "alice"))
    assert set(sent) == {"code", "iss"}
    assert sent["iss"] == issuer


async def test_who_denies_sends_the_client_away_with_that(issuer: str, client: Client) -> None:
    sent = parameters(await approve(client.url(), CODE, "alice", decision="deny"))
    assert sent.pop("error_description")
    assert sent == {"error": "access_denied", "state": "a state", "iss": issuer}


async def test_a_person_cannot_grant_more_than_they_may(client: Client) -> None:
    tokens = await client.tokens("bob")
    assert tokens["scope"] == READ
    assert opened(tokens["access_token"])[1]["scope"] == READ


async def test_what_a_form_asks_beyond_the_person_is_not_granted(client: Client) -> None:
    sent = parameters(await approve(client.url(), CODE, "bob", scopes=[READ, WRITE, Scope.APPROVE]))
    assert (await client.redeem(sent["code"])).json()["scope"] == READ


async def test_what_a_form_asks_beyond_the_request_is_not_granted(client: Client) -> None:
    sent = parameters(await approve(client.url(scope=READ), CODE, "alice", scopes=[READ, WRITE]))
    assert (await client.redeem(sent["code"])).json()["scope"] == READ


async def test_a_person_may_grant_less_than_was_asked(client: Client) -> None:
    sent = parameters(await approve(client.url(), CODE, "alice", scopes=[READ]))
    assert (await client.redeem(sent["code"])).json()["scope"] == READ


@pytest.mark.parametrize("scopes", [[], [Scope.APPROVE.value], ["mcp:diag:admin"]])
async def test_allowing_nothing_is_denying(client: Client, scopes: list[str]) -> None:
    sent = parameters(await approve(client.url(), CODE, "alice", scopes=scopes))
    assert sent["error"] == "access_denied"


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(None, READ), (f"{WRITE} offline_access openid", WRITE), (f"{WRITE} {READ} {WRITE}", f"{READ} {WRITE}")],
)
async def test_unknown_scopes_are_left_out_and_none_at_all_is_reading(
    client: Client, asked: str | None, granted: str
) -> None:
    assert (await client.tokens(scope=asked))["scope"] == granted


async def test_key_clients_and_grants_stay_over_a_restart(tmp_path: Path, http: httpx2.AsyncClient) -> None:
    async with running(tmp_path / "issuer") as url:
        client = Client(url, http)
        await client.register()
        first = await client.tokens()
    port = int(url.rpartition(":")[2])
    async with running(tmp_path / "issuer", port=port) as again:
        assert again == url
        second = (await client.refresh(first["refresh_token"])).json()
        assert opened(first["access_token"])[0]["kid"] == opened(second["access_token"])[0]["kid"]


async def test_a_grant_is_never_worth_more_than_its_person(tmp_path: Path, http: httpx2.AsyncClient) -> None:
    async with running(tmp_path / "issuer") as url:
        client = Client(url, http)
        await client.register()
        refresh_token = (await client.tokens())["refresh_token"]
    port = int(url.rpartition(":")[2])
    async with running(tmp_path / "issuer", port=port, people=PEOPLE | {"alice": frozenset({Scope.READ})}):
        answer = (await client.refresh(refresh_token)).json()
        assert answer["scope"] == READ
    async with running(tmp_path / "issuer", port=port, people={"bob": PEOPLE["bob"]}):
        gone = await client.refresh(answer["refresh_token"])
        assert (gone.status_code, gone.json()["error"]) == (400, "invalid_grant")


async def test_a_grant_for_one_server_is_worth_nothing_for_another(tmp_path: Path, http: httpx2.AsyncClient) -> None:
    async with running(tmp_path / "issuer") as url:
        client = Client(url, http)
        await client.register()
        refresh_token = (await client.tokens())["refresh_token"]
    port = int(url.rpartition(":")[2])
    async with running(tmp_path / "issuer", port=port, resource="http://127.0.0.1:9999/mcp"):
        answer = await client.refresh(refresh_token)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def test_what_is_kept_is_for_its_owner_alone(tmp_path: Path, http: httpx2.AsyncClient) -> None:
    folder = tmp_path / "issuer"
    async with running(folder) as url:
        client = Client(url, http)
        await client.register()
        tokens = await client.tokens()
        kept = list(folder.iterdir())
        assert {file.name: oct(file.stat().st_mode & 0o777) for file in [folder, *kept]} == {
            "issuer": "0o700",
            "key.json": "0o600",
            "state.sqlite": "0o600",
        }
        for file in kept:  # and whoever reads it all the same finds no token to use
            content = file.read_bytes()
            assert tokens["refresh_token"].encode() not in content
            assert tokens["access_token"].encode() not in content
            assert client.verifier.encode() not in content

"""What a client finds out about the resource without a token: RFC 9728."""

import httpx2
import pytest
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.shared.auth import ProtectedResourceMetadata

from guideway.dsl.scopes import Scope
from guideway.server.oauth.access import Access, metadata_path
from guideway.server.oauth.metadata import document, metadata_paths
from guideway.server.sections import IssuerSection
from tests.server.oauth.door import ISSUER, Door, Tokens, challenges

pytestmark = pytest.mark.anyio

PATH = "/.well-known/oauth-protected-resource/mcp"


async def test_the_document_says_whose_tokens_open_the_door_and_for_what() -> None:
    door = Door()
    async with door.serving() as http:
        response = await http.get(PATH)
    assert response.status_code == 200
    found = ProtectedResourceMetadata.model_validate(response.json())
    assert response.json()["resource"] == door.url
    assert response.json()["authorization_servers"] == [ISSUER.issuer], "character by character: RFC 8414, section 3.3"
    assert found.scopes_supported == ["mcp:diag:read", "mcp:diag:write"]
    assert found.bearer_methods_supported == ["header"]
    assert found.dpop_bound_access_tokens_required is False
    assert response.headers["Cache-Control"] == "public, max-age=300"


async def test_it_is_where_the_challenge_says_and_where_clients_look_first() -> None:
    door = Door()
    async with door.serving() as http:
        told = challenges(await http.get("/mcp"))[0][1]["resource_metadata"]
        assert told == build_protected_resource_metadata_discovery_urls(None, door.url)[0]
        assert (await http.get(told)).status_code == 200


@pytest.mark.parametrize(
    ("resource", "at"),
    [
        ("https://ops.example/mcp", "https://ops.example/.well-known/oauth-protected-resource/mcp"),
        ("https://ops.example", "https://ops.example/.well-known/oauth-protected-resource"),
        ("https://ops.example/", "https://ops.example/.well-known/oauth-protected-resource"),
        ("https://ops.example:8443/a/b/", "https://ops.example:8443/.well-known/oauth-protected-resource/a/b/"),
        ("http://[::1]:8765/mcp", "http://[::1]:8765/.well-known/oauth-protected-resource/mcp"),
    ],
)
def test_its_url_is_the_resources_with_the_well_known_path_put_in(resource: str, at: str) -> None:
    assert Access(Tokens(), resource, (ISSUER,)).metadata_url == at


async def test_behind_a_proxy_it_is_at_the_path_that_clients_know_too() -> None:
    door = Door()
    async with door.serving(url="https://ops.example/diag/mcp") as http:
        for path in (metadata_path("/diag/mcp"), PATH):
            response = await http.get(path, headers={"Host": "ops.example"})
            assert response.json()["resource"] == "https://ops.example/diag/mcp"
        challenge = challenges(await http.get("/mcp"))[0][1]
    assert challenge["resource_metadata"] == "https://ops.example/.well-known/oauth-protected-resource/diag/mcp"


async def test_any_web_page_may_read_it_and_nothing_else() -> None:
    page = {"Origin": "https://inspector.example"}
    asks = page | {
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "mcp-protocol-version",
    }
    async with Door().serving() as http:
        response = await http.get(PATH, headers=page)
        preflight = await http.options(PATH, headers=asks)
        endpoint = await http.options("/mcp", headers=asks)
        posted = await http.post(PATH, headers=page)
    assert response.status_code == preflight.status_code == 200
    assert {answer.headers["Access-Control-Allow-Origin"] for answer in (response, preflight)} == {"*"}
    assert "mcp-protocol-version" in preflight.headers["Access-Control-Allow-Headers"]
    assert endpoint.status_code == 403
    assert posted.status_code == 405


async def test_it_is_the_same_for_every_host_and_token() -> None:
    async with Door().serving() as http:
        plain = await http.get(PATH)
        for headers in ({"Host": "evil.example"}, {"Authorization": "Bearer forged"}, {"Origin": "null"}):
            assert (await http.get(PATH, headers=headers)).content == plain.content


def test_of_several_issuers_each_has_its_words_and_proofs_are_required_where_all_do() -> None:
    words = IssuerSection(issuer="https://b.example", scopes={Scope.READ: "diag.read"}, dpop="required")
    several = document(Access(Tokens(), "https://ops.example/mcp", (ISSUER, words)))
    assert several["authorization_servers"] == ["https://login.example.com", "https://b.example"]
    assert several["scopes_supported"] == ["mcp:diag:read", "mcp:diag:write", "diag.read"]
    assert several["dpop_bound_access_tokens_required"] is False
    alone = document(Access(Tokens(), "https://ops.example/mcp", (words,)))
    assert alone["dpop_bound_access_tokens_required"] is True


async def test_without_issuers_there_is_none() -> None:
    door = Door()
    async with door.world.serving() as url, httpx2.AsyncClient() as http:
        assert (await http.get(httpx2.URL(url).join(PATH))).status_code == 404


def test_it_is_served_at_one_place_where_the_paths_agree() -> None:
    assert metadata_paths(Access(Tokens(), "https://ops.example/mcp", (ISSUER,))) == {PATH}

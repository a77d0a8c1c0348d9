"""Dynamic registration: who can be a client, what is taken of what it says, and how little room it gets."""

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.server.development_issuer.client import Client as KeptClient
from guideway.server.development_issuer.client import ClientMetadata, MetadataRefused, read_metadata
from tests.server.development_issuer.world import REDIRECT, Client

pytestmark = pytest.mark.anyio


async def test_a_client_is_told_what_it_is(client: Client) -> None:
    answer = await client.register(client_name="My agent", logo_uri="https://x.example/", contacts=["a@b.example"])
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    told = answer.json()
    assert told.pop("client_id_issued_at") > 0
    assert told.pop("client_id") == client.client_id
    assert told == {
        "client_name": "My agent",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "mcp:diag:read mcp:diag:write",
    }


async def test_what_is_not_served_is_replaced_and_no_secret_is_given(client: Client) -> None:
    answer = await client.register(
        token_endpoint_auth_method="client_secret_basic",  # noqa: S106  # a method's name
        grant_types=["authorization_code", "password", "client_credentials"],
        response_types=["code", "token"],
        client_id="chosen",
        client_secret="chosen",  # noqa: S106  # which must not be taken on
    )
    told = answer.json()
    assert told["token_endpoint_auth_method"] == "none"  # noqa: S105
    assert told["grant_types"] == ["authorization_code"]
    assert told["response_types"] == ["code"]
    assert told["client_id"] != "chosen"
    assert "client_secret" not in told


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://x.example/1",
        "about:blank",
        "ssh://x.example/",
        "search-ms:query",
        "http://client.example/cb",
        "http://192.168.1.10/cb",
        "http://localhost.evil.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://[::ffff:10.0.0.1]/cb",
        "https://user@client.example/cb",
        "https://client.example/cb#fragment",
        "https://client.example/cb#",
        "https://client.example/c b",
        "https://client.example/c\\b",
        "https://client.example/cb\n",
        "https://cli\u00ebnt.example/cb",
        "https://a;frame-ancestors */cb",
        "https://a;x/cb",
        "https://a,b/cb",
        "https:///cb",
        "https:cb",
        "//client.example/cb",
        "/cb",
        "",
        "https://client.example:99999/cb",
        "https://client.example/cb?code=mine",
        "https://client.example/cb?x=1&state=",
        "https://client.example/cb?iss",
        "http://127.0.0.1/cb?error=access_denied",
        "com.example.app:/cb?c%6fde=mine",
        "https://client.example/" + "a" * 2048,
    ],
)
async def test_a_code_can_be_sent_nowhere_that_could_lead_it_astray(client: Client, uri: str) -> None:
    answer = await client.register(redirect_uris=[REDIRECT, uri])
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "uri",
    [
        "https://client.example/cb",
        "https://client.example:8443/cb?x=1",
        "http://127.0.0.1/cb",
        "http://localhost:1234/cb",
        "http://[::1]:1234/cb",
        "com.example.app:/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
async def test_web_loopback_and_private_use_addresses_are_taken(client: Client, uri: str) -> None:
    assert (await client.register(redirect_uris=[uri])).status_code == 201


@pytest.mark.parametrize(
    "metadata",
    [
        {"redirect_uris": []},
        {"redirect_uris": None},
        {"redirect_uris": REDIRECT},
        {"redirect_uris": [REDIRECT] * 11},
        {"redirect_uris": [[REDIRECT]]},
        {"redirect_uris": [{"uri": REDIRECT}]},
        {"redirect_uris": [7]},
    ],
)
async def test_redirect_uris_are_a_few_strings(client: Client, metadata: dict[str, Any]) -> None:
    answer = await client.register(**metadata)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "metadata",
    [
        {"client_name": "x" * 201},
        {"client_name": ["a", "b"]},
        {"grant_types": "authorization_code"},
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["authorization_code", {"a": 1}]},
        {"response_types": ["token"]},
    ],
)
async def test_metadata_is_of_its_shape_or_refused(client: Client, metadata: dict[str, Any]) -> None:
    answer = await client.register(**metadata)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff",
        b"[" * 10_000,
        b'{"client_name": "' + b"a" * 20_000 + b'"}',
        b'{"redirect_uris": ["http://127.0.0.1/"], "client_name": "\\ud800"}',
    ],
)
async def test_a_body_that_is_no_metadata_is_refused(issuer: str, http: httpx2.AsyncClient, body: bytes) -> None:
    answer = await http.post(f"{issuer}/register", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri")


async def test_a_form_of_a_page_elsewhere_registers_nobody(issuer: str, http: httpx2.AsyncClient) -> None:
    """A page that somebody looks at posts to this machine, which browsers allow for plain text."""
    body = b'{"redirect_uris": ["https://evil.example/"]}'
    plain = await http.post(f"{issuer}/register", content=body, headers={"Content-Type": "text/plain"})
    assert plain.status_code == 400
    headers = {"Content-Type": "application/json", "Origin": "https://evil.example"}
    assert (await http.post(f"{issuer}/register", content=body, headers=headers)).status_code == 403
    headers["Origin"] = "null"
    assert (await http.post(f"{issuer}/register", content=body, headers=headers)).status_code == 403


KEYS = st.sampled_from(["redirect_uris", "client_name", "grant_types", "response_types"]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)


@given(VALUES)
def test_whatever_is_sent_for_an_address_is_refused_in_plain_words(value: object) -> None:
    with pytest.raises(MetadataRefused) as caught:
        read_metadata({"redirect_uris": [value]})
    words = str(caught.value)
    assert words.isascii()
    assert words.isprintable()
    assert not {'"', "\\"} & set(words)


@given(st.text(), st.sampled_from([REDIRECT, "https://client.example/cb", "com.example.app:/cb"]))
def test_no_address_is_taken_for_another(asked: str, registered: str) -> None:
    client = KeptClient("c", ClientMetadata(redirect_uris=[registered]))
    assert client.check_redirect_uri(registered)
    assert not client.check_redirect_uri(registered + asked) or not asked
    assert not client.check_redirect_uri(asked + registered) or not asked
    assert not client.check_redirect_uri(asked)

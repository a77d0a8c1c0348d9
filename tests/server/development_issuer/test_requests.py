"""Authorization requests: what is asked for before anybody is asked, and where an error may and may not be sent."""

import re

import httpx2
import pytest

from tests.server.development_issuer.browser import Browser, approve, parameters
from tests.server.development_issuer.world import CODE, READ, REDIRECT, RESOURCE, Client

pytestmark = pytest.mark.anyio


async def answer_to(url: str) -> httpx2.Response:
    """Return what somebody who has signed in gets for a request."""
    async with Browser() as browser:
        return await browser.consent(url, CODE, "alice")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"code_challenge": "c" * 42}, "invalid_request"),
        ({"code_challenge": "c" * 44}, "invalid_request"),
        ({"code_challenge": "c" * 42 + "!"}, "invalid_request"),
        ({"resource": None}, "invalid_target"),
        ({"resource": "http://127.0.0.1:8765/mcp/"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:8765"}, "invalid_target"),
        ({"resource": "https://guideway.example.com/mcp"}, "invalid_target"),
        ({"scope": "mcp:diag:admin"}, "invalid_scope"),
        ({"scope": "MCP:DIAG:READ"}, "invalid_scope"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "eyJhbGciOiJub25lIn0.e30."}, "request_not_supported"),
        ({"request_uri": "https://client.example/request"}, "request_not_supported"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
    ],
)
async def test_a_known_client_is_told_what_is_wrong_and_by_whom(
    issuer: str, client: Client, changed: dict[str, str | None], error: str
) -> None:
    answer = await answer_to(client.url(**changed))
    assert answer.status_code == 303, answer.text
    location = answer.headers["location"]
    assert location.startswith(f"{REDIRECT}?")
    told = parameters(location)
    told.pop("error_description", None)
    assert told == {"error": error, "state": "a state", "iss": issuer}


EVIL = "https://evil.example/steal"


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": None},
        {"client_id": "nobody"},
        {"client_id": "nobody", "redirect_uri": EVIL},
        {"redirect_uri": None},
        {"redirect_uri": EVIL},
        {"redirect_uri": f"{REDIRECT}/../steal"},
        {"redirect_uri": f"{REDIRECT}?more=1"},
        {"redirect_uri": f"{REDIRECT}#fragment"},
        {"redirect_uri": f"{REDIRECT}/"},
        {"redirect_uri": "http://127.0.0.1:3000/CALLBACK"},
        {"redirect_uri": "http://localhost:3000/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example:3000/callback"},
        {"redirect_uri": "http://127.0.0.1:3000@evil.example/callback"},
        {"redirect_uri": "http://evil.example:3000/callback"},
        {"redirect_uri": "http://127.0.0.1:notaport/callback"},
        {"redirect_uri": "https://127.0.0.1:3000/callback"},
        {"redirect_uri": "//127.0.0.1:3000/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": "http://127.0.0.1:3000/callback\r\nX-Header: 1"},
        {"redirect_uri": 'http://127.0.0.1:3000/callback"'},
        {"redirect_uri": "http://127.0.0.1:3000/callback\\"},
        {"redirect_uri": "http://127.0.0.1:3000/c\u00e4llback"},
        {"redirect_uri": EVIL, "response_type": "token"},
        {"redirect_uri": EVIL, "code_challenge": None},
        {"redirect_uri": EVIL, "scope": "mcp:diag:admin"},
        {"redirect_uri": EVIL, "resource": None},
    ],
)
async def test_nobody_is_sent_where_no_client_has_said_that_it_is(
    client: Client, changed: dict[str, str | None]
) -> None:
    """An open redirector: a link to the issuer that sends whoever follows it to a page of the attacker's."""
    answer = await answer_to(client.url(**changed))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "cannot go on" in answer.text


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "code_challenge"])
async def test_a_parameter_that_stands_twice_is_refused_on_a_page(client: Client, name: str) -> None:
    """Two readers of one request each take another of the two."""
    answer = await answer_to(f"{client.url()}&{name}=x")
    assert answer.status_code == 400
    assert "stands twice" in answer.text


async def test_the_one_resource_may_stand_twice_and_no_other_beside_it(client: Client) -> None:
    assert (await answer_to(f"{client.url()}&resource={RESOURCE}")).status_code == 200
    answer = await answer_to(f"{client.url()}&resource=https://other.example/mcp")
    assert parameters(answer.headers["location"])["error"] == "invalid_target"


@pytest.mark.parametrize("port", ["", ":1", ":49152", ":65535"])
async def test_a_loopback_client_may_come_back_at_any_port(client: Client, port: str) -> None:
    there = f"http://127.0.0.1{port}/callback"
    location = await approve(client.url(redirect_uri=there), CODE, "alice")
    assert location.startswith(f"{there}?code=")
    tokens = await client.redeem(parameters(location)["code"], redirect_uri=there)
    assert tokens.status_code == 200


async def test_a_web_client_comes_back_at_its_port_alone(client: Client) -> None:
    await client.register(redirect_uris=["https://client.example/cb"])
    assert (await answer_to(client.url(redirect_uri="https://client.example/cb"))).status_code == 200
    assert (await answer_to(client.url(redirect_uri="https://client.example:8443/cb"))).status_code == 400


async def test_a_query_of_the_redirect_uri_is_kept(client: Client) -> None:
    there = "http://127.0.0.1:3000/callback?flow=1"
    await client.register(redirect_uris=[there])
    location = await approve(client.url(redirect_uri=there), CODE, "alice")
    assert "?flow=1&code=" in location


async def test_nothing_of_a_request_is_looked_at_before_somebody_signed_in(issuer: str) -> None:
    """A page elsewhere sends a browser here to learn which clients there are, or to have an address fetched."""
    async with Browser() as browser:
        pages = [
            await browser.open(f"{issuer}/authorize?{query}")
            for query in ("", "client_id=nobody", "client_id=https%3A%2F%2F10.0.0.1%2Fdocument", "x=%ff&x=1")
        ]
    assert {page.status_code for page in pages} == {200}
    assert "Sign-in code" in pages[0].text
    assert len({re.sub('action="[^"]*"', "", page.text) for page in pages}) == 1


async def test_a_scope_that_was_registered_is_no_ceiling(client: Client) -> None:
    """Clients register with the scope of their first challenge, and must be able to step up later."""
    answer = await client.register(scope=READ)
    assert answer.json()["scope"] == "mcp:diag:read mcp:diag:write"
    assert (await client.tokens())["scope"] == "mcp:diag:read mcp:diag:write"

"""Tokens that are bound to a key, through the real door: each request proves the key, the token alone opens nothing."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from guideway.server.oauth.dpop import ALGORITHMS
from guideway.server.tool import TOOL_NAME
from tests.attacks.oauth.forge import ec_key, proof
from tests.server.oauth.issuer import Issuer
from tests.server.oauth.serving import KEY, Proving, bound, serving, token
from tests.server.world import Era, World

pytestmark = pytest.mark.anyio

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
PARAMS = {"name": TOOL_NAME, "arguments": {"program": 'RESTART "database"'}, "_meta": META}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
AS_CLIENTS_DO = [
    ("Accept", "application/json, text/event-stream"),
    ("Content-Type", "application/json"),
    ("MCP-Protocol-Version", "2026-07-28"),
    ("Mcp-Method", "tools/call"),
    ("Mcp-Name", TOOL_NAME),
]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


async def send(url: str, *headers: tuple[str, str], method: str = "GET") -> httpx2.Response:
    """Send a request: a POST restarts the database where it is let in."""
    about, body = (AS_CLIENTS_DO, CALL) if method == "POST" else ([], b"")
    async with httpx2.AsyncClient() as http:
        return await http.request(method, url, headers=[*about, *headers], content=body)


def assert_refused(answer: httpx2.Response, error: str, scheme: str = "DPoP") -> None:
    assert answer.status_code == 401
    assert answer.json()["error"]["data"]["error"] == error
    [challenge] = [each for each in answer.headers.get_list("WWW-Authenticate") if each.startswith(scheme)]
    assert f'error="{error}"' in challenge
    assert (f'algs="{" ".join(ALGORITHMS)}"' in challenge) == (scheme == "DPoP")


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_official_client_works_with_a_proof_on_each_request(world: World, issuer: Issuer, era: Era) -> None:
    async with serving(world, issuer) as url, httpx2.AsyncClient(auth=Proving(bound(issuer))) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            assert (await client.list_tools()).tools
            result = await client.call_tool(TOOL_NAME, {"program": 'RESTART "database"'})
        grammar = await http.get(urljoin(url, "/grammar"))
    assert result.structured_content is not None
    assert result.structured_content["status"] == "completed"
    assert grammar.status_code == 200


async def test_a_bound_token_is_no_bearer_token(world: World, issuer: Issuer) -> None:
    """Somebody read the token: without its key it is worth nothing, not even beside a proof by the right one."""
    async with serving(world, issuer) as url:
        stolen = bound(issuer)
        good = proof(KEY, token=stolen, method="POST", url=url)
        for more in ([], [("DPoP", good)]):
            answer = await send(url, ("Authorization", f"Bearer {stolen}"), *more, method="POST")
            assert_refused(answer, "invalid_token")
    assert not world.database.calls


@pytest.mark.parametrize("scheme", ["DPoP", "dpop", "DPOP"])
async def test_a_token_without_a_key_is_none_of_that_scheme(world: World, issuer: Issuer, scheme: str) -> None:
    async with serving(world, issuer) as url:
        bearer = token(issuer)
        good = proof(KEY, token=bearer, method="POST", url=url)
        answer = await send(url, ("Authorization", f"{scheme} {bearer}"), ("DPoP", good), method="POST")
        assert_refused(answer, "invalid_token")
        assert (await send(urljoin(url, "/grammar"), ("Authorization", f"Bearer {bearer}"))).status_code == 200
    assert not world.database.calls


async def test_where_every_token_must_be_bound_others_are_refused(world: World, issuer: Issuer) -> None:
    async with serving(world, issuer, dpop="required") as url:
        nothing = await send(url, method="POST")
        assert nothing.headers["WWW-Authenticate"].startswith("DPoP ")
        for scheme in ("Bearer", "DPoP"):
            answer = await send(url, ("Authorization", f"{scheme} {token(issuer)}"), method="POST")
            assert_refused(answer, "invalid_token")
        shown = bound(issuer)
        good = proof(KEY, token=shown, method="GET", url=urljoin(url, "/grammar"))
        answer = await send(urljoin(url, "/grammar"), ("Authorization", f"DPoP {shown}"), ("DPoP", good))
        assert answer.status_code == 200
    assert not world.database.calls


async def test_a_bound_token_whose_proof_is_not_good_is_refused(
    world: World, issuer: Issuer, subtests: pytest.Subtests
) -> None:
    async with serving(world, issuer) as url:
        shown, other = bound(issuer), bound(issuer)

        def made(**change: Any) -> tuple[str, str]:
            said: dict[str, Any] = {"key": KEY, "token": shown, "method": "POST", "url": url}
            return "DPoP", proof(**said | change)

        for name, proofs in [
            ("none", []),
            ("empty", [("DPoP", "")]),
            ("two", [made(), made()]),
            ("the same twice", [made(jti="1")] * 2),
            ("for another method", [made(method="GET")]),
            ("for another path", [made(url=urljoin(url, "/grammar"))]),
            ("for a host that resolves to this one", [made(url=url.replace("127.0.0.1", "localhost"))]),
            ("for another token of the same caller", [made(token=other)]),
            ("by another key", [made(key=ec_key("mallory"))]),
            ("for the token as a Bearer token", [("X-DPoP", made()[1])]),
        ]:
            with subtests.test(name):
                answer = await send(url, ("Authorization", f"DPoP {shown}"), *proofs, method="POST")
                assert_refused(answer, "invalid_dpop_proof")
                assert len(answer.headers.get_list("WWW-Authenticate")) == 1
                said = answer.text + str(answer.headers)
                assert shown not in said
                assert not any(value in said for _, value in proofs if value)
    assert not world.database.calls


async def test_a_proof_opens_one_request(world: World, issuer: Issuer) -> None:
    """A request is read on its way and sent again, at once: the restart happens once."""
    async with serving(world, issuer) as url:
        shown = bound(issuer)
        headers = ("Authorization", f"DPoP {shown}"), ("DPoP", proof(KEY, token=shown, method="POST", url=url))
        assert (await send(url, *headers, method="POST")).status_code == 200
        done = list(world.database.calls)
        assert "restart" in done
        assert_refused(await send(url, *headers, method="POST"), "invalid_dpop_proof")
        assert world.database.calls == done


async def test_a_proof_is_for_the_configured_url_whatever_a_request_says(world: World, issuer: Issuer) -> None:
    """Behind a proxy clients sign the public URL. Host and forwarded headers come from whoever sends the request."""
    public = "https://ops.example.com/team/mcp"
    async with serving(world, issuer, url=public) as url:
        shown = bound(issuer)
        for target, headers, status in [
            ("https://ops.example.com/team/grammar", {}, 200),
            ("https://ops.example.com/team/grammar", {"Host": "ops.example.com"}, 200),
            ("https://ops.example.com/grammar", {}, 401),
            (urljoin(url, "/grammar"), {}, 401),
            (urljoin(url, "/grammar"), {"X-Forwarded-Host": httpx2.URL(url).netloc.decode()}, 401),
            ("http://ops.example.com/team/grammar", {"Host": "ops.example.com", "X-Forwarded-Proto": "http"}, 401),
            ("https://ops.example.com:8443/team/grammar", {"X-Forwarded-Port": "8443"}, 401),
        ]:
            signed = proof(KEY, token=shown, method="GET", url=target)
            shows = [("Authorization", f"DPoP {shown}"), ("DPoP", signed)]
            answer = await send(urljoin(url, "/grammar"), *shows, *headers.items())
            assert answer.status_code == status, target


async def test_nothing_of_a_proof_is_logged(world: World, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "guideway")
    async with serving(world, issuer) as url:
        shown = bound(issuer)
        bad = proof(KEY, token=shown, method="GET", url=url, jti="a-secret-of-mine")
        answer = await send(url, ("Authorization", f"DPoP {shown}"), ("DPoP", bad), method="POST")
        assert_refused(answer, "invalid_dpop_proof")
    assert "refused a proof from 127.0.0.1: the proof is for another method" in caplog.text
    assert not any(part in caplog.text for part in (*bad.split("."), *shown.split("."), "a-secret-of-mine"))

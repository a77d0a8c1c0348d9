"""Who is let in over HTTP, and what everybody else is told."""

import json
import logging
import time
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from guideway.dsl.scopes import Scope
from guideway.server.oauth.gate import MOST_TOKEN_BYTES
from guideway.server.oauth.verified import IssuerUnavailable
from guideway.server.sections import IssuerSection
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import READ, Door, Shown, a_call, bearer, challenges, facts, message
from tests.server.test_http import DISCOVER, INITIALIZE
from tests.server.world import BOTH, Era

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
PATHS = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/grammar")]


@pytest.fixture
def door() -> Door:
    """Return a door that knows a reader's token and an operator's."""
    door = Door()
    door.tokens.add("reader", READ)
    door.tokens.add("operator", BOTH)
    return door


def is_challenged(response: httpx2.Response, status: int, error: str | None, scope: str = "mcp:diag:read") -> None:
    """Hold an answer to be a challenge, with the same in its header and its body."""
    assert response.status_code == status
    [(scheme, parameters)] = challenges(response)
    assert scheme == "Bearer"
    assert parameters.get("error") == error
    assert parameters["scope"] == scope
    assert parameters["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")
    body = facts(response)
    assert {name: body[name] for name in parameters.keys() & body.keys()}.items() <= parameters.items()
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_every_request_needs_a_token(door: Door, method: str, path: str) -> None:
    async with door.serving() as http:
        response = await http.request(method, path)
    is_challenged(response, 401, None)
    assert "error" not in facts(response), "RFC 6750, section 3.1: nothing was wrong with a token that was not sent"


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_a_token_that_is_not_believed_is_challenged(door: Door, method: str, path: str) -> None:
    async with door.serving() as http:
        response = await http.request(method, path, headers=bearer("forged"))
    is_challenged(response, 401, "invalid_token")
    assert challenges(response)[0][1]["error_description"] == "the token is of no trusted issuer"


@pytest.mark.parametrize("scopes", [frozenset[Scope](), frozenset({Scope.APPROVE})], ids=["none", "approve"])
@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_a_token_that_lets_no_program_run_is_challenged_on_every_request(
    door: Door, method: str, path: str, scopes: frozenset[Scope]
) -> None:
    door.tokens.add("nothing", scopes)
    async with door.serving() as http:
        response = await http.request(method, path, headers=bearer("nothing"))
    is_challenged(response, 403, "insufficient_scope")
    body = facts(response)
    assert body["required_scopes"] == body["missing_scopes"] == ["mcp:diag:read"]
    assert (
        body["error_description"] == response.json()["error"]["message"] == "operation requires scope 'mcp:diag:read'"
    )


async def test_read_and_write_do_not_imply_each_other_and_either_opens_the_door(door: Door) -> None:
    door.tokens.add("writer", {Scope.WRITE})
    async with door.serving() as http:
        for token in ("reader", "writer"):
            assert (await http.get("/grammar", headers=bearer(token))).status_code == 200


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_while_an_issuer_is_down_nobody_new_is_let_in(door: Door, method: str, path: str) -> None:
    door.tokens.fail("unknown", IssuerUnavailable("the issuer does not answer", 7))
    async with door.serving() as http:
        response = await http.request(method, path, headers=bearer("unknown"))
        assert (await http.get("/grammar", headers=bearer("reader"))).status_code == 200
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "7"
    error = response.json()["error"]
    assert (error["code"], error["message"]) == (503, "the issuer does not answer")
    assert error["data"]["error"] == "temporarily_unavailable"


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_an_error_of_the_program_itself_lets_nobody_in_and_tells_no_token(
    door: Door, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    door.tokens.fail("canary", ZeroDivisionError("canary"))
    async with door.serving() as http:
        response = await http.request(method, path, headers=bearer("canary"))
    assert response.status_code == 500
    assert "ZeroDivisionError" in caplog.text
    assert "in verify" in caplog.text, "where it happened is told"
    assert "canary" not in caplog.text + response.text


@pytest.mark.parametrize(
    ("header", "status", "why"),
    [
        ("Bearer operator", 200, None),
        ("bearer operator", 200, None),
        ("BEARER   operator", 200, None),
        ("operator", 401, None),
        ("Basic operator", 401, None),
        ("Bearerx operator", 401, None),
        ("Token operator", 401, None),
        ("", 401, None),
        ("Bearer", 401, "the token is malformed"),
        ("Bearer =", 401, "the token is malformed"),
        ("Bearer operator operator", 401, "the token is malformed"),
        ("Bearer operator, Bearer operator", 401, "the token is malformed"),
        ("Bearer,operator", 401, "the token is malformed"),
        ('Bearer "operator"', 401, "the token is malformed"),
        ("Bearer oper\tator", 401, "the token is malformed"),
        ("Bearer oper\xa0ator", 401, "the token is malformed"),
        (f"Bearer {'x' * MOST_TOKEN_BYTES}", 401, "the token is too long"),
        ("Bearer Operator", 401, "the token is of no trusted issuer"),
        ("Bearer operator=", 401, "the token is of no trusted issuer"),
    ],
)
async def test_a_token_is_shown_in_one_way(door: Door, header: str, status: int, why: str | None) -> None:
    async with door.serving() as http:
        response = await http.get("/grammar", headers=[(b"Authorization", header.encode("latin-1"))])
    assert response.status_code == status
    assert response.headers["Content-Type"].startswith("text/plain" if status == 200 else "application/json")
    if status != 200:
        is_challenged(response, 401, "invalid_token" if why else None)
        assert challenges(response)[0][1].get("error_description") == why


@pytest.mark.parametrize("values", [("Bearer operator", "Bearer operator"), ("Basic x", "Bearer operator"), ("", "")])
async def test_two_authorization_headers_are_one_too_many(door: Door, values: tuple[str, str]) -> None:
    async with door.serving() as http:
        response = await http.get("/grammar", headers=[("Authorization", value) for value in values])
    assert response.status_code == 400
    assert challenges(response)[0][1]["error"] == facts(response)["error"] == "invalid_request"


@pytest.mark.parametrize("query", ["access_token=operator", "Access_Token=", "a=b&%61ccess%5Ftoken=operator"])
@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_a_token_in_the_url_is_refused_and_never_logged(
    door: Door, method: str, path: str, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with door.serving() as http:
            alone = await http.request(method, f"{path}?{query}")
            beside_the_header = await http.request(method, f"{path}?{query}", headers=bearer("operator"))
    # The test's own client notes what it asks for; the server must not.
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx2", "httpcore2"))]
    for response in (alone, beside_the_header):
        assert response.status_code == 400
        assert facts(response)["error"] == "invalid_request"
        assert "operator" not in response.text + "".join(logged)


async def test_a_token_elsewhere_is_no_token(door: Door) -> None:
    async with door.serving() as http:
        form = await http.post("/mcp", data={"access_token": "operator"})
        cookie = await http.get("/grammar", headers={"Cookie": "access_token=operator; Authorization=Bearer operator"})
        header = await http.get("/grammar", headers={"X-Authorization": "Bearer operator"})
    for response in (form, cookie, header):
        is_challenged(response, 401, None)


async def test_host_and_origin_are_looked_at_before_the_token(door: Door) -> None:
    """A page that gets here through a browser learns nothing, not even that a token is asked for."""
    async with door.serving() as http:
        for path in ("/mcp", "/grammar"):
            for token in ({}, bearer("forged"), bearer("operator")):
                foreign = await http.get(path, headers={"Host": "evil.example", **token})
                page = await http.get(path, headers={"Origin": "https://evil.example", **token})
                assert (foreign.status_code, page.status_code) == (421, 403)
                assert "WWW-Authenticate" not in foreign.headers.keys() | page.headers.keys()


async def test_the_host_of_the_url_that_clients_know_is_let_in_beside_the_address(door: Door) -> None:
    async with door.serving(url="https://Ops.example/mcp") as http:
        here = httpx2.URL(door.url).netloc.decode()
        for headers, status in [
            ({"Host": "ops.example"}, 200),
            ({"Host": "ops.example:443"}, 200),
            ({"Host": here}, 200),
            ({"Host": "ops.example", "Origin": "https://ops.example"}, 200),
            ({"Host": "ops.example", "Origin": "http://ops.example"}, 403),
            ({"Host": "ops.example:8443"}, 421),
            ({"Host": "ops.example.evil.example"}, 421),
        ]:
            response = await http.get("/grammar", headers=headers | bearer("operator"))
            assert response.status_code == status, headers


async def test_nothing_else_is_there(door: Door) -> None:
    async with door.serving() as http:
        for path in ("/", "/sse", "/mcp/x", "//mcp", "/.well-known/oauth-authorization-server", "/grammar/lark"):
            for token in ({}, bearer("operator")):
                assert (await http.get(path, headers=token)).status_code == 404


@pytest.mark.parametrize("opening", [INITIALIZE, DISCOVER], ids=["legacy", "2026-07-28"])
async def test_the_protocol_is_spoken_with_a_token_alone(door: Door, opening: dict[str, Any]) -> None:
    modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"} if opening is DISCOVER else {}
    headers = {"Accept": "application/json, text/event-stream"} | modern
    async with door.serving() as http:
        assert (await http.post("/mcp", json=opening, headers=headers)).status_code == 401
        assert (await http.post("/mcp", json=opening, headers=headers | bearer("reader"))).status_code == 200


@eras
async def test_the_token_of_each_request_counts_also_in_a_session_of_an_older_one(door: Door, era: Era) -> None:
    shown = Shown("reader")
    async with door.serving(), door.connected(shown, era) as client:
        assert "RESTART" not in ((await client.list_tools()).tools[0].description or "")
        shown.shows = "operator"
        assert "RESTART" in ((await client.list_tools()).tools[0].description or "")
        result = await client.call_tool(TOOL_NAME, {"program": 'RESTART "database"'})
        assert result.structured_content["status"] == "completed"
        shown.shows = "reader"
        assert "RESTART" not in ((await client.list_tools()).tools[0].description or "")


@eras
async def test_a_token_that_expires_or_is_withdrawn_in_a_session_ends_what_it_could(door: Door, era: Era) -> None:
    shown = Shown("reader")
    async with door.serving(), door.connected(shown, era) as client:
        await client.list_tools()
        door.tokens.add("reader", BOTH, expires_at=time.time() - 1)
        with pytest.raises(MCPError):
            await client.list_tools()
        assert [response.status_code for response in shown.answers] == [401]
        door.tokens.add("fresh", READ)
        shown.shows = "fresh"
        assert (await client.list_tools()).tools


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("person", {"subject": "mallory"}),
        ("issuer", {"issuer": IssuerSection(issuer="https://other.example")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_session_belongs_to_the_caller_who_opened_it(door: Door, name: str, other: dict[str, Any]) -> None:
    del name
    door.tokens.add("other", BOTH, **other)
    accept = {"Accept": "application/json, text/event-stream"}
    async with door.serving() as http:
        opened = await http.post("/mcp", json=INITIALIZE, headers=accept | bearer("reader"))
        session = accept | {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        stolen = [
            await http.post("/mcp", json=listing, headers=session | bearer("other")),
            await http.get("/mcp", headers=session | bearer("other")),
            await http.delete("/mcp", headers=session | bearer("other")),
        ]
        unknown = await http.get("/mcp", headers=session | {"Mcp-Session-Id": "0" * 32} | bearer("other"))
        own = await http.post("/mcp", json=listing, headers=session | bearer("reader"))
    assert [response.status_code for response in stolen] == [404] * 3
    assert {response.text for response in stolen} == {unknown.text}, "that it exists is not told"
    assert own.status_code == 200


async def test_a_stream_that_is_kept_open_ends_when_its_token_does(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream and the session outlive it: the client asks again with the token that it has then."""
    accept = {"Accept": "application/json, text/event-stream"}
    async with door.serving() as http:
        opened = await http.post("/mcp", json=INITIALIZE, headers=accept | bearer("reader"))
        session = accept | {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        door.tokens.add("short", READ, expires_at=time.time() + 0.3)
        with anyio.fail_after(20):
            async with http.stream("GET", "/mcp", headers=session | bearer("short")) as stream:
                assert stream.status_code == 200
                assert [chunk async for chunk in stream.aiter_bytes()] == []
            door.tokens.add("fresh", READ, expires_at=time.time() + 60)
            async with http.stream("GET", "/mcp", headers=session | bearer("fresh")) as again:
                assert again.status_code == 200
    assert "ERROR" not in caplog.text


async def test_what_the_sdk_sees_of_a_token_is_nowhere_on_the_wire(door: Door) -> None:
    body, headers = a_call('PING "api.internal"')
    async with door.serving() as http:
        called = await http.post("/mcp", json=body, headers=headers | bearer("operator"))
        listed, headers = message("tools/list")
        tools = await http.post("/mcp", json=listed, headers=headers | bearer("operator"))
    assert called.json()["result"]["structuredContent"]["status"] == "completed"
    for response in (called, tools):
        assert "operator" not in response.text + json.dumps(dict(response.headers))

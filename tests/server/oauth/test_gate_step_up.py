"""A call whose program needs more scopes than its token has is challenged before it reaches the protocol."""

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.dsl.errors import Code, Refusal
from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import State
from guideway.server.sections import IssuerSection
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import READ, WRITE, Door, Shown, a_call, bearer, challenges, facts, message
from tests.server.test_http import INITIALIZE
from tests.server.world import BOTH, SAMPLE, Era, World
from tests.strategies import mutations, scripts, token_soup

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
WORLD = World()


@pytest.fixture
def door() -> Door:
    """Return a door that knows tokens with read, write, and both."""
    door = Door()
    door.tokens.add("reader", READ)
    door.tokens.add("writer", WRITE)
    door.tokens.add("operator", BOTH)
    return door


async def call(http: httpx2.AsyncClient, token: str, program: str) -> httpx2.Response:
    """Call the tool with a program, as a client of 2026-07-28 does."""
    body, headers = a_call(program)
    return await http.post("/mcp", json=body, headers=headers | bearer(token))


@pytest.mark.parametrize(
    ("token", "program", "required", "missing"),
    [
        ("reader", 'RESTART "database"', ["mcp:diag:write"], "mcp:diag:write"),
        ("reader", SAMPLE, ["mcp:diag:read", "mcp:diag:write"], "mcp:diag:write"),
        ("reader", 'TRY PING "api.internal" CATCH RESTART "x"', ["mcp:diag:read", "mcp:diag:write"], "mcp:diag:write"),
        ("writer", 'PING "api.internal"', ["mcp:diag:read"], "mcp:diag:read"),
        ("reader", 'RESTART "nowhere"', ["mcp:diag:write"], "mcp:diag:write"),
    ],
)
async def test_the_challenge_names_what_is_needed_with_what_is_held(
    door: Door, token: str, program: str, required: list[str], missing: str
) -> None:
    async with door.serving() as http:
        response = await call(http, token, program)
    assert response.status_code == 403
    [(scheme, parameters)] = challenges(response)
    assert scheme == "Bearer"
    description = f"operation requires scope '{missing}'"
    assert parameters == {
        "error": "insufficient_scope",
        "error_description": description,
        "scope": "mcp:diag:read mcp:diag:write",
        "resource_metadata": door.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"),
    }
    assert facts(response) == {
        "error": "insufficient_scope",
        "error_description": description,
        "scope": "mcp:diag:read mcp:diag:write",
        "required_scopes": required,
        "missing_scopes": [missing],
    }
    assert door.world.database.calls == []


@eras
@pytest.mark.parametrize(
    ("program", "status"),
    [
        ('PING "api.internal"', "completed"),
        ('RESTART "database"  PNIG', "refused"),
        ('RESTART "', "refused"),
        ("", "refused"),
        ("#" * 70_000, "refused"),
        ('RESTART "database"' * 1_100, "refused"),
        ('PING "nowhere"', "refused"),
    ],
    ids=["allowed", "syntax", "open string", "empty", "large", "many", "unknown name"],
)
async def test_what_needs_no_more_scopes_is_answered_by_the_tool(
    door: Door, era: Era, program: str, status: str
) -> None:
    """Size and syntax come before scopes in the order of the language, so a program that is wrong is told so."""
    shown = Shown("reader")
    async with door.serving(), door.connected(shown, era) as client:
        result = await client.call_tool(TOOL_NAME, {"program": program})
    assert result.structured_content["status"] == status
    assert result.structured_content["refusal"] is None or (
        result.structured_content["refusal"]["code"] != "insufficient_scope"
    )
    assert shown.answers == []


@eras
async def test_a_stepped_up_token_goes_through_in_the_same_session(door: Door, era: Era) -> None:
    """The client steps up as the SDK's OAuth client does: by itself, on the 403, with the same request again."""

    class SteppingUp(Shown):
        def auth_flow(self, request: httpx2.Request) -> Any:
            for _ in range(2):
                request.headers["Authorization"] = f"Bearer {self.shows}"
                response = yield request
                if response.status_code != 403:
                    return
                self.answers.append(response)
                self.shows = "operator"

    shown = SteppingUp("reader")
    async with door.serving(), door.connected(shown, era) as client:
        result = await client.call_tool(TOOL_NAME, {"program": SAMPLE})
        after = (await client.list_tools()).tools
    assert result.structured_content["status"] == "completed"
    assert [response.status_code for response in shown.answers] == [403]
    assert "RESTART" in (after[0].description or "")
    assert door.world.database.state is State.RUNNING


async def test_scopes_are_named_in_the_words_of_the_tokens_own_issuer(door: Door) -> None:
    words = {Scope.READ: "diag.read", Scope.WRITE: "diag.write"}
    issuer = IssuerSection(issuer="https://other.example", scopes=words)
    door = Door(None, IssuerSection(issuer="https://login.example.com"), issuer)
    door.tokens.add("theirs", READ, issuer=issuer)
    async with door.serving() as http:
        response = await call(http, "theirs", SAMPLE)
        nobody = await http.get("/grammar")
    assert challenges(response)[0][1]["scope"] == facts(response)["scope"] == "diag.read diag.write"
    assert facts(response)["missing_scopes"] == ["mcp:diag:write"], "these are the product's own names"
    assert challenges(nobody)[0][1]["scope"] == "mcp:diag:read", "without a token, the first issuer's"


SENT: dict[str, Any] = {
    "method": "tools/call",
    "id": 1,
    "jsonrpc": "2.0",
    "params": {"name": TOOL_NAME, "arguments": {"program": 'RESTART "database"'}},
}


def changed(**changes: Any) -> dict[str, Any]:
    """Return the call of a restart with some of it changed."""
    return SENT | changes


@pytest.mark.parametrize(
    "body",
    [
        changed(method="tools/list"),
        changed(params={"name": "other", "arguments": SENT["params"]["arguments"]}),
        changed(params={"name": TOOL_NAME, "arguments": {"program": 'RESTART "database"', "more": 1}}),
        changed(params={"name": TOOL_NAME, "arguments": {"program": ['RESTART "database"']}}),
        changed(params={"name": TOOL_NAME, "arguments": 'RESTART "database"'}),
        changed(params={"name": [TOOL_NAME]}),
        changed(params=[TOOL_NAME]),
        {name: value for name, value in SENT.items() if name != "id"},
        [SENT],
        "tools/call",
        None,
    ],
    ids=lambda body: json.dumps(body)[:60],
)
@eras
async def test_what_is_no_call_of_a_program_is_the_sdks_to_answer(door: Door, era: Era, body: Any) -> None:
    """The same bytes are answered alike with a token that has every scope, whose body nobody looks into."""
    async with door.serving() as http:
        headers = ACCEPT | await opened(http, era)
        answers = [await http.post("/mcp", json=body, headers=headers | bearer(who)) for who in ("reader", "operator")]
    assert answers[0].status_code == answers[1].status_code != 403
    assert door.world.database.calls == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"1" * 5_000,
        b" " * 5_000_000,
    ],
    ids=["empty", "cut", "no UTF-8", "nested", "nested objects", "large number", "huge"],
)
@eras
async def test_a_body_that_cannot_be_read_is_the_sdks_to_answer(door: Door, era: Era, body: bytes) -> None:
    async with door.serving() as http:
        headers = ACCEPT | await opened(http, era)
        answers = [
            await http.post("/mcp", content=body, headers=headers | bearer(who)) for who in ("reader", "operator")
        ]
    expected = 413 if body.startswith(b" ") else 400
    assert [answer.status_code for answer in answers] == [expected, expected]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
@eras
async def test_a_body_is_read_in_whatever_encoding_the_sdk_reads(door: Door, era: Era, encoding: str) -> None:
    """A call that the gate could not read and the SDK could would come back as a result, without a challenge."""
    body, _ = a_call('RESTART "database"')
    content = json.dumps(body).encode(encoding)
    async with door.serving() as http:
        headers = ACCEPT | await opened(http, era)
        reader = await http.post("/mcp", content=content, headers=headers | bearer("reader"))
        assert door.world.database.calls == []
        operator = await http.post("/mcp", content=content, headers=headers | bearer("operator"))
    assert (reader.status_code, operator.status_code) in ((403, 200), (400, 400))


@eras
async def test_of_two_keys_of_one_name_the_gate_and_the_tool_take_the_same(door: Door, era: Era) -> None:
    """Whichever it is: what the reader's token is let in with must not be what then restarts."""
    ping, restart = ({"program": program} for program in ('PING "api.internal"', 'RESTART "database"'))
    async with door.serving() as http:
        headers = ACCEPT | await opened(http, era)
        for first, last in ((ping, restart), (restart, ping)):
            plain, _ = message("tools/call", name=TOOL_NAME, arguments=last)
            twice = json.dumps(plain).replace('"arguments"', f'"arguments": {json.dumps(first)}, "arguments"')
            response = await http.post("/mcp", content=twice, headers=headers | bearer("reader"))
            assert response.status_code == (403 if last is restart else 200)
            assert door.world.database.calls == []


async def opened(http: httpx2.AsyncClient, era: Era) -> dict[str, str]:
    """Return the headers of a request of an era; in the legacy one, of a session that is open to both tokens."""
    if era != "legacy":
        return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": TOOL_NAME}
    response = await http.post("/mcp", json=INITIALIZE, headers=ACCEPT | bearer("reader"))
    return {"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}


async def test_a_body_is_read_as_it_comes_and_passed_on_unchanged(door: Door) -> None:
    body, headers = a_call(f'PING "api.internal" # {"x" * 60_000}')
    content = json.dumps(body).encode()

    async def in_pieces() -> Any:
        for start in range(0, len(content), 7_000):
            yield content[start : start + 7_000]

    async with door.serving() as http:
        response = await http.post(
            "/mcp", content=in_pieces(), headers=headers | bearer("reader") | {"Content-Type": "application/json"}
        )
    assert response.json()["result"]["structuredContent"]["status"] == "completed"


async def test_other_tools_and_other_tokens_cost_no_look_into_the_program(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []

    def look(params: object) -> frozenset[Scope]:
        looked.append(params)
        return frozenset()

    monkeypatch.setattr(door.world.server, "required_scopes", look)
    async with door.serving() as http:
        await call(http, "operator", SAMPLE)
        assert looked == []
        await call(http, "reader", SAMPLE)
        assert len(looked) == 1


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(scripts().map(lambda script: script.text), token_soup(), mutations()),
    scopes=st.sampled_from([READ, WRITE, BOTH]),
)
def test_a_challenge_comes_where_the_pipeline_would_miss_a_scope_and_nowhere_else(
    text: str, scopes: frozenset[Scope]
) -> None:
    required = WORLD.server.required_scopes({"name": TOOL_NAME, "arguments": {"program": text}})
    refused = refusal(text, scopes)
    if refused is None or refused.code is not Code.INSUFFICIENT_SCOPE:
        assert required <= scopes
    else:
        assert required == refused.required_scopes
        assert required - scopes == refused.missing_scopes != frozenset()


def refusal(text: str, scopes: frozenset[Scope]) -> Refusal | None:
    """Return why the pipeline does not admit a program, None where it does."""
    try:
        WORLD.pipeline.admit(text, Principal("alice", scopes))
    except Refusal as refused:
        return refused
    return None


async def test_over_stdio_a_result_says_what_is_missing() -> None:
    """There is no HTTP answer to read there: the facts of the challenge are in the result's text and data."""
    async with World(READ).connected("stdio", "2026-07-28") as client:
        result = await client.call_tool(TOOL_NAME, {"program": SAMPLE})
    assert result.is_error
    refusal = result.structured_content["refusal"]
    assert refusal["required_scopes"] == ["mcp:diag:read", "mcp:diag:write"]
    assert refusal["missing_scopes"] == ["mcp:diag:write"]
    assert "operation requires scope 'mcp:diag:write'" in result.content[0].text  # type: ignore[union-attr]

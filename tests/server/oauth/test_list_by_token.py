"""What each token is shown: its own copy of the grammar, at once, and never another caller's."""

import itertools
import json
from typing import Any

import anyio
import httpx2
import pytest

from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.describe import GRAMMAR_KEY
from guideway.server.publish import nameable
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import READ, WRITE, Door, Shown, a_call, bearer, message
from tests.server.world import BOTH, Era, World

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@eras
@pytest.mark.parametrize("scopes", [READ, WRITE, BOTH], ids=["read", "write", "both"])
async def test_a_token_is_shown_the_grammar_of_its_scopes(era: Era, scopes: frozenset[Scope]) -> None:
    door = Door()
    token = door.tokens.add("a", scopes)
    async with door.serving() as http:
        async with door.connected(token, era) as client:
            listed = await client.list_tools()
            resources = await client.list_resources()
        grammar = await http.get("/grammar", headers=bearer(token))
    assert (listed.ttl_ms, listed.cache_scope) == (0, "private")
    [tool] = listed.tools
    copy = copy_for(scopes, names=nameable(door.world.pipeline.inventory))
    assert tool.meta is not None
    assert tool.meta[GRAMMAR_KEY]["definition"] == grammar.text == copy.text
    assert tool.meta[GRAMMAR_KEY]["scopes"] == sorted(scopes)
    told = tool.model_dump_json(exclude={"output_schema"}) + resources.model_dump_json() + grammar.text
    assert ("RESTART" in told) == (Scope.WRITE in scopes)
    assert ("PING" in told) == (Scope.READ in scopes)


@eras
async def test_a_token_that_lost_a_scope_is_shown_the_shorter_grammar_at_once(era: Era) -> None:
    door = Door()
    door.tokens.add("operator", BOTH)
    shown = Shown("operator")
    async with door.serving(), door.connected(shown, era) as client:
        assert "RESTART" in (await client.list_tools()).tools[0].model_dump_json(exclude={"output_schema"})
        door.tokens.add("operator", READ)
        assert "RESTART" not in (await client.list_tools()).tools[0].model_dump_json(exclude={"output_schema"})


@eras
async def test_callers_at_the_same_time_never_see_each_others(era: Era) -> None:
    """Fifty of two kinds at once, each in a session of their own."""
    door = Door()
    for number in range(50):
        door.tokens.add(f"t{number}", READ if number % 2 else BOTH, subject=f"person{number}")
    seen: dict[int, bool] = {}

    async def ask(number: int) -> None:
        shown = Shown(f"t{number}")
        async with door.connected(shown, era) as client:
            [tool] = (await client.list_tools()).tools
            seen[number] = "RESTART" in (tool.description or "")
            refused = await client.call_tool(TOOL_NAME, {"program": "RESTRAT"})
        suggested = refused.structured_content["refusal"]["diagnostics"][0]["help"]
        assert ("`RESTART`" in (suggested or "")) == seen[number], "what is suggested is of their own language"
        assert shown.answers == []

    async with door.serving():
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(ask, number)
    assert seen == {number: number % 2 == 0 for number in range(50)}


async def test_requests_on_one_connection_are_each_their_own_callers() -> None:
    door = Door()
    door.tokens.add("reader", READ)
    door.tokens.add("operator", BOTH, subject="bob")
    listing, headers = message("tools/list")
    async with door.serving() as http:
        for token, expected in itertools.islice(itertools.cycle([("reader", False), ("operator", True)]), 20):
            response = await http.post("/mcp", json=listing, headers=headers | bearer(token))
            assert ("RESTART" in response.json()["result"]["tools"][0]["description"]) == expected


def of_a_tenant(name: str) -> Inventory:
    """Return what a tenant can name: the shared host, and a service of its own."""
    return Inventory(
        [Host("shared", MemoryProbe())],
        [Service(each, MemoryDriver(), risk=HARMLESS) for each in (f"database-{name}", "queue")],
    )


@pytest.fixture
def tenants() -> Door:
    """Return a door with two tenants, who have names that are nearly the same, and tokens of each and of none."""
    world = World()
    shared = Inventory([Host("shared", MemoryProbe())], [Service("queue", MemoryDriver(), risk=HARMLESS)])
    world.pipeline = Pipeline(shared, tenants={name: of_a_tenant(name) for name in ("acme", "acma")})
    door = Door(world)
    for name in ("acme", "acma"):
        door.tokens.add(name, BOTH, tenant=name)
    door.tokens.add("nobody", BOTH)
    door.tokens.add("stranger", BOTH, tenant="no-such-tenant")
    return door


@eras
@pytest.mark.parametrize("token", ["acme", "acma", "nobody"])
async def test_a_tenant_sees_its_own_names_and_no_others(tenants: Door, era: Era, token: str) -> None:
    others = {"acme", "acma"} - {token}
    async with tenants.serving() as http, tenants.connected(token, era) as client:
        texts = [(await client.list_tools()).model_dump_json(), (await client.list_resources()).model_dump_json()]
        asked = [f"/grammar?dialect={dialect}" for dialect in ("lark", "gbnf", "svg")]
        texts += [(await http.get(each, headers=bearer(token))).text for each in asked]
        contents = await client.read_resource("guideway://grammar/gbnf")
        texts.append(contents.model_dump_json())
        # Names of others, and names that are near to them: nothing of theirs is confirmed or suggested.
        for name in ("database-acme", "database-acma", "database-acm", "database"):
            result = await client.call_tool(TOOL_NAME, {"program": f'RESTART "{name}"'})
            own = name == f"database-{token}"
            assert (result.structured_content["status"] == "refused") != own
            refusal = json.dumps(result.structured_content["refusal"])
            # What is told says nothing that the caller's own program and inventory did not.
            texts.append(refusal.replace(f"`{name}`", ""))
    assert all("shared" in text for text in (texts[0], texts[2]))
    for other in others:
        assert f"database-{other}" not in "".join(texts)


async def test_a_tenant_that_is_not_known_sees_nothing(tenants: Door) -> None:
    listing, headers = message("tools/list")
    async with tenants.serving() as http:
        response = await http.post("/mcp", json=listing, headers=headers | bearer("stranger"))
        grammar = await http.get("/grammar", headers=bearer("stranger"))
    assert response.json()["result"]["tools"] == []
    assert grammar.status_code == 404
    assert "shared" not in response.text + grammar.text


async def test_two_who_ask_the_same_are_answered_for_themselves(tenants: Door) -> None:
    """Copies are kept between requests: by what the caller may name, never by what was asked for alone."""
    etags: dict[str, str] = {}
    async with tenants.serving() as http:
        for token in ("acme", "acma", "nobody", "acme"):
            response = await http.get("/grammar", headers=bearer(token))
            assert etags.setdefault(token, response.headers["ETag"]) == response.headers["ETag"]
            again = await http.get("/grammar", headers=bearer(token) | {"If-None-Match": etags["acme"]})
            assert again.status_code == (304 if token == "acme" else 200)  # noqa: S105  # a test's own
    assert len(set(etags.values())) == 3


async def test_a_tenants_call_runs_on_its_own_services(tenants: Door) -> None:
    answers: dict[str, httpx2.Response] = {}
    async with tenants.serving() as http:
        for token in ("acme", "acma", "nobody"):
            body, headers = a_call('RESTART "database-acme"')
            answers[token] = await http.post("/mcp", json=body, headers=headers | bearer(token))
    statuses: dict[str, Any] = {
        token: answer.json()["result"]["structuredContent"]["status"] for token, answer in answers.items()
    }
    assert statuses == {"acme": "completed", "acma": "refused", "nobody": "refused"}

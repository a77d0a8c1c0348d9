"""``GET /grammar``, below any client of the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import DIALECTS, Layout, Wrap, copy_for
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.server.publish import nameable
from tests.server.world import BOTH, World

pytestmark = pytest.mark.anyio

READ = frozenset({Scope.READ})


@asynccontextmanager
async def reached(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve a world, and give a client of plain HTTP."""
    async with world.serving() as url, httpx2.AsyncClient(base_url=httpx2.URL(url).join("/")) as http:
        yield http


@pytest.mark.parametrize("scopes", [READ, BOTH], ids=["read", "both"])
async def test_each_caller_gets_their_own_copy(scopes: frozenset[Scope]) -> None:
    world = World(scopes)
    names = nameable(world.pipeline.inventory)
    async with reached(world) as http:
        bare = await http.get("/grammar")
        wrapped = await http.get("/grammar?dialect=gbnf&layout=lines&wrap=json")
    assert bare.text == copy_for(scopes, names=names).text
    assert wrapped.text == copy_for(scopes, "gbnf", names=names, layout=Layout.LINES, wrap=Wrap.JSON).text
    assert ("RESTART" in wrapped.text) == (Scope.WRITE in scopes)
    for response in (bare, wrapped):
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["Cache-Control"] == "private, no-cache"


async def test_a_client_that_has_the_copy_is_told_so(world: World, subtests: pytest.Subtests) -> None:
    digest = copy_for(BOTH, names=nameable(world.pipeline.inventory)).sha256
    async with reached(world) as http:
        assert (await http.get("/grammar")).headers["ETag"] == f'"{digest}"'
        for tags, status in [
            (f'"{digest}"', 304),
            (f'W/"{digest}"', 304),
            (f'"other", "{digest}"', 304),
            ("*", 304),
            ('"other"', 200),
            (digest, 200),
            ("", 200),
        ]:
            with subtests.test(tags):
                response = await http.get("/grammar", headers={"If-None-Match": tags})
                assert response.status_code == status
                assert response.headers["ETag"] == f'"{digest}"'
                assert bool(response.content) == (status == 200)
        several = [("If-None-Match", '"other"'), ("If-None-Match", f'"{digest}"')]  # RFC 9110, section 5.3: one list
        assert (await http.get("/grammar", headers=several)).status_code == 304
        world.principal = Principal("tester", READ)
        response = await http.get("/grammar", headers={"If-None-Match": f'"{digest}"'})
        assert response.status_code == 200, "the caller has another copy now"


async def test_head_says_the_same_without_the_text(world: World) -> None:
    async with reached(world) as http:
        head, get = await http.head("/grammar?dialect=gbnf"), await http.get("/grammar?dialect=gbnf")
    assert head.status_code == 200
    assert head.content == b""
    for name in ("ETag", "Content-Type", "Content-Length", "Cache-Control"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("dialect=lrk", "`dialect` cannot be `lrk`; it can be: lark,"),
        ("dialect=", "`dialect` cannot be ``"),
        ("layout=tall", "`layout` cannot be `tall`; it can be: one-line, lines"),
        ("colour=red", "there is no parameter `colour`; there are: dialect, layout, wrap"),
        ("dialect=lark&dialect=gbnf", "`dialect` stands there twice"),
        ("dialect=%ff%00%0d%0aX:1", "`dialect` cannot be"),
    ],
)
async def test_what_cannot_be_asked_for_is_answered_with_what_can(world: World, query: str, said: str) -> None:
    async with reached(world) as http:
        response = await http.get(f"/grammar?{query}")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "invalid_parameter"
    assert said in error["message"]
    assert error["allowed"]["dialect"] == list(DIALECTS)
    assert "ETag" not in response.headers


@pytest.mark.parametrize("scopes", [frozenset(), frozenset({Scope.APPROVE})], ids=["none", "approve"])
async def test_nobody_without_a_scope_gets_one(scopes: frozenset[Scope]) -> None:
    async with reached(World(scopes)) as http:
        response = await http.get("/grammar", headers={"If-None-Match": "*"})
    assert response.status_code == 403
    assert response.json()["error"] == {
        "code": "insufficient_scope",
        "message": "there is no grammar without a scope: it takes `mcp:diag:read` or `mcp:diag:write`",
        "required_scopes": sorted(PROGRAM_SCOPES),
    }


async def test_nobody_with_nothing_to_name_gets_one(world: World) -> None:
    world.pipeline.inventory = Inventory()
    async with reached(world) as http:
        response = await http.get("/grammar")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "nothing_to_name")  # more scopes would not help
    assert "nothing to name" in error["message"]
    assert "required_scopes" not in error


async def test_only_get_and_head_are_served(world: World, subtests: pytest.Subtests) -> None:
    async with reached(world) as http:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            with subtests.test(method):
                assert (await http.request(method, "/grammar")).status_code == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "guideway.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_host_and_origin_are_checked(world: World, headers: dict[str, str], status: int) -> None:
    async with reached(world) as http:
        response = await http.get("/grammar", headers=headers)
    assert response.status_code == status
    assert "PING" not in response.text

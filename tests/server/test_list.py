"""What each caller is told about the tool."""

import hashlib

import jsonschema
import mcp_types as types
import pytest

import guideway
from guideway.dsl import analyze, parse
from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.risk import MODEL_VERSION
from guideway.interpreter.service import Service
from guideway.server.describe import GRAMMAR_KEY, MOST_INLINE, examples
from guideway.server.publish import nameable
from guideway.server.tool import RISK_KEY, TOOL_NAME
from tests.server.world import BOTH, Era, Transport, World

pytestmark = pytest.mark.anyio

READ, WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


def digest(number: int) -> str:
    """Return a text without any pattern."""
    return hashlib.sha256(str(number).encode()).hexdigest()


async def listed(world: World, era: Era = "2026-07-28", transport: Transport = "http") -> list[types.Tool]:
    """Return the tools that the world's caller sees."""
    async with world.connected(transport, era) as client:
        return (await client.list_tools()).tools


@eras
@pytest.mark.parametrize(
    ("scopes", "transport"),
    [(READ, "http"), (WRITE, "http"), (BOTH, "http"), (BOTH, "stdio")],
    ids=["read", "write", "both", "both-stdio"],
)
async def test_a_caller_sees_one_tool_with_its_own_grammar(
    scopes: frozenset[Scope], transport: Transport, era: Era
) -> None:
    [tool] = await listed(World(scopes), era, transport)
    assert tool.name == TOOL_NAME
    assert tool.meta is not None
    world = World(scopes)
    names = nameable(world.pipeline.inventory)
    copy, gbnf = copy_for(scopes, names=names), copy_for(scopes, "gbnf", names=names)
    kinds = {Scope.READ: {"HOST", "SERVICE"}, Scope.WRITE: {"RESTARTABLE"}}
    assert tool.meta[GRAMMAR_KEY] == {
        "type": "grammar",
        "syntax": "lark",
        "definition": copy.text,
        "sha256": copy.sha256,
        "uri": "guideway://grammar/lark",
        "gbnf": gbnf.text,
        "gbnf_sha256": gbnf.sha256,
        "gbnf_uri": "guideway://grammar/gbnf",
        "longest_bytes": gbnf.longest_bytes,
        "way_out_bytes": gbnf.way_out_bytes,
        "scopes": sorted(scopes),
        "names": dict.fromkeys(set().union(*(kinds[scope] for scope in scopes)), "list"),
        "notes": [],
    }
    assert ("ledger" in gbnf.text) == (Scope.READ in scopes), "it may not be restarted"
    description = tool.description or ""
    rules = [line for line in copy.text.splitlines() if line[:1].islower()]
    assert len(rules) >= 4
    assert all(rule in description for rule in rules)
    assert len(description) < len(copy.text)
    for keyword, scope in [("PING", Scope.READ), ("RESTART", Scope.WRITE), ("IF_RUNNING", Scope.READ)]:
        assert (keyword in description) == (scope in scopes), keyword
    assert ('"api.internal"' in description) == (Scope.READ in scopes)
    assert '"database"' in description
    assert ('"ledger"' in description) == (Scope.READ in scopes), "it may not be restarted"


@eras
@pytest.mark.parametrize("scopes", [frozenset(), frozenset({Scope.APPROVE})], ids=["none", "approve"])
async def test_a_caller_whose_scopes_let_no_program_run_sees_no_tool(scopes: frozenset[Scope], era: Era) -> None:
    assert await listed(World(scopes), era) == []


async def test_a_caller_whose_authorization_has_expired_sees_no_tool(world: World) -> None:
    world.principal = Principal("tester", BOTH, expires_at=1.0)
    assert await listed(world) == []


async def test_a_caller_who_steps_up_sees_the_longer_grammar_at_once(world: World) -> None:
    world.principal = Principal("tester", READ)
    async with world.connected("http", "2026-07-28") as client:
        before = await client.list_tools()
        world.principal = Principal("tester", BOTH)
        after = await client.list_tools()
    assert (before.ttl_ms, before.cache_scope) == (0, "private")
    assert "RESTART" not in (before.tools[0].description or "")
    assert "RESTART" in (after.tools[0].description or "")


@pytest.mark.parametrize(("scopes", "changes"), [(READ, False), (WRITE, True), (BOTH, True)])
async def test_annotations_are_true_for_that_caller(scopes: frozenset[Scope], changes: bool) -> None:
    [tool] = await listed(World(scopes))
    assert tool.annotations == types.ToolAnnotations(
        read_only_hint=not changes, destructive_hint=changes, idempotent_hint=not changes, open_world_hint=False
    )


async def test_the_schemas_are_valid_and_closed(world: World) -> None:
    [tool] = await listed(world)
    assert tool.output_schema is not None
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False
    limit = world.pipeline.limits.bytes
    assert tool.input_schema["properties"]["program"].items() >= {"minLength": 1, "maxLength": limit}.items()


@pytest.mark.parametrize("scopes", [READ, WRITE, BOTH], ids=["read", "write", "both"])
async def test_the_examples_run_as_they_stand(scopes: frozenset[Scope]) -> None:
    world = World(scopes)
    [tool] = await listed(world)
    shown = examples(scopes, nameable(world.pipeline.inventory))
    assert len(shown) == 2
    for example in shown:
        assert example in (tool.description or "")
        world.pipeline.admit(example, world.principal)
    richest = analyze(parse(shown[0]))
    assert richest.scopes == scopes


@pytest.mark.parametrize("scopes", [READ, WRITE, BOTH], ids=["read", "write", "both"])
async def test_where_there_is_nothing_to_name_there_is_no_tool(world: World, scopes: frozenset[Scope]) -> None:
    world.principal, world.pipeline.inventory = Principal("tester", scopes), Inventory()
    assert await listed(world) == []


async def test_who_can_restart_nothing_hears_nothing_of_restarts(world: World) -> None:
    world.pipeline.inventory = Inventory(
        [Host("api.internal", MemoryProbe())], [Service("ledger", MemoryDriver(), restartable=False)]
    )
    [tool] = await listed(world)
    told = tool.model_dump_json(exclude={"output_schema"})
    assert "RESTART" not in told
    assert "restarts services" not in told
    assert "GET_STATUS" in told
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint


@pytest.mark.parametrize(
    ("names", "form", "is_inline"),
    [
        ([f"web-{number:05}" for number in range(10_000)], "tree", True),
        ([f"{digest(number):.12}" for number in range(10_000)], "pattern", True),
        ([f"{digest(number) * 3}.internal" for number in range(60)], "list", False),
    ],
    ids=["regular", "without a pattern", "long"],
)
async def test_what_is_told_stays_bounded_and_what_is_left_out_can_be_fetched(
    world: World, names: list[str], form: str, is_inline: bool
) -> None:
    world.pipeline.inventory = Inventory(
        (Host(name, MemoryProbe()) for name in names), (Service(f"x{name}", MemoryDriver()) for name in names)
    )
    async with world.connected("http", "2026-07-28") as client:
        [tool] = (await client.list_tools()).tools
        assert len(tool.description or "") < 6_000
        assert f'"{min(names)}"' in (tool.description or "")
        assert (tool.description or "").count(" more") == 3
        assert tool.meta is not None
        told = tool.meta[GRAMMAR_KEY]
        assert set(told["names"].values()) == {form}
        assert len(told["notes"]) == (3 if form == "pattern" else 0)
        assert ("definition" in told, "gbnf" in told) == (is_inline, is_inline)
        assert len(tool.model_dump_json()) < 2 * MOST_INLINE + 20_000
        for key, uri, sha256 in (("definition", "uri", "sha256"), ("gbnf", "gbnf_uri", "gbnf_sha256")):
            [contents] = (await client.read_resource(told[uri])).contents
            assert isinstance(contents, types.TextResourceContents)
            assert hashlib.sha256(contents.text.encode()).hexdigest() == told[sha256]
            assert told.get(key, contents.text) == contents.text


@eras
async def test_the_server_says_what_it_is(world: World, era: Era) -> None:
    async with world.connected("http", "auto" if era == "2026-07-28" else era) as client:
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("guideway", guideway.__version__)
        assert TOOL_NAME in (client.instructions or "")
        assert client.server_capabilities is not None
        assert client.server_capabilities.prompts is None
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.experimental == {RISK_KEY: {"version": MODEL_VERSION}}

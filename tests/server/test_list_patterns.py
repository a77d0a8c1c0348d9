"""What callers are told where the inventory has patterns: what there is to name, what a star is, and their own copy."""

import mcp_types as types
import pytest

from guideway.dsl.patterns import read_pattern
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.fleet import Fleet, HostPattern, ServicePattern
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.describe import GRAMMAR_KEY, examples
from guideway.server.publish import nameable
from guideway.server.tool import TOOL_NAME
from tests.server.world import BOTH, World

pytestmark = pytest.mark.anyio


def fleet(text: str, *own: Service) -> Inventory:
    def make(name: str, _: tuple[str, ...]) -> Service:
        return Service(name, MemoryDriver(), settle=0.0, risk=HARMLESS)

    return Inventory(
        services=own,
        host_patterns=[HostPattern(read_pattern(f"{text}.prod"), lambda name, _: Host(name, MemoryProbe()))],
        service_patterns=[ServicePattern(read_pattern(text), make, Fleet())],
    )


async def test_the_tool_names_patterns_and_says_what_a_star_is() -> None:
    world = World(BOTH)
    world.pipeline.inventory = fleet("web-*", Service("web-1", MemoryDriver(), restartable=False))
    async with world.connected("http", "2026-07-28") as client:
        [tool] = (await client.list_tools()).tools
        told = (tool.description or "").splitlines()
        star = "(each * stands for 1 to 63 letters, digits, _ or -)"
        assert told[-3:] == [
            f'HOST: "web-*.prod" {star}',
            f'SERVICE: "web-*" | "web-1" {star}',
            f'RESTARTABLE: "web-*", but not "web-1" {star}',
        ]
        assert tool.meta is not None
        found = tool.meta[GRAMMAR_KEY]
        assert found["names"] == dict.fromkeys(("HOST", "SERVICE", "RESTARTABLE"), "patterns")
        assert found["notes"] == []
        [contents] = (await client.read_resource(found["gbnf_uri"])).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == found["gbnf"]
        for example in examples(BOTH, nameable(world.pipeline.inventory)):
            assert example in told
            result = await client.call_tool(TOOL_NAME, {"program": example})
            assert not result.is_error, result
        refused = await client.call_tool(TOOL_NAME, {"program": 'RESTART "web-1"'})
        assert refused.is_error
        assert "but not" in refused.model_dump_json()


async def test_each_tenant_has_the_copy_of_its_own_patterns() -> None:
    """Whose copy it is goes by what they may name, patterns and what these leave out among it."""
    world = World(BOTH)
    world.pipeline.tenants = {
        "a": fleet("web-*"),
        "b": fleet("web-*", Service("web-1", MemoryDriver(), restartable=False)),
        "c": fleet("db-*"),
    }
    texts = []
    for tenant in ("a", "b", "c"):
        world.principal = Principal("tester", BOTH, tenant=tenant)
        async with world.connected("http", "2026-07-28") as client:
            [tool] = (await client.list_tools()).tools
            assert tool.meta is not None
            texts.append(tool.meta[GRAMMAR_KEY]["definition"])
    assert len(set(texts)) == 3
    assert ("db-" in texts[0], "db-" in texts[1], "web-" in texts[2]) == (False, False, False)

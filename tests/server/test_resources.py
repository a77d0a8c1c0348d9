"""The copies as resources of the protocol."""

import hashlib

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from guideway.dsl.scopes import Scope
from guideway.grammar import DIALECTS, Layout, Wrap, copy_for
from guideway.interpreter.principal import Principal
from guideway.server.publish import CHOICES, Wanted, nameable, resource_uri
from guideway.server.resources import TEMPLATE
from tests.server.world import Era, Transport, World

pytestmark = pytest.mark.anyio

READ = frozenset({Scope.READ})
NOT_FOUND = {"legacy": -32002, "2026-07-28": -32602}
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@eras
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_what_is_listed_can_be_read(transport: Transport, era: Era) -> None:
    world = World(READ)
    async with world.connected(transport, era) as client:
        listed = (await client.list_resources()).resources
        assert {"guideway://grammar/lark", "guideway://grammar/gbnf"} <= {resource.uri for resource in listed}
        assert len({resource.name for resource in listed}) == len(listed) <= len(DIALECTS)
        for resource in listed:
            [contents] = (await client.read_resource(resource.uri)).contents
            assert isinstance(contents, types.TextResourceContents)
            assert contents.uri == resource.uri
            assert contents.mime_type == resource.mime_type
            assert len(contents.text.encode()) == resource.size
            assert "RESTART" not in contents.text


@eras
async def test_a_copy_can_be_had_in_each_layout_and_wrap(world: World, era: Era, subtests: pytest.Subtests) -> None:
    names = nameable(world.pipeline.inventory)
    async with world.connected("http", era) as client:
        for layout in Layout:
            for wrap in (Wrap.NONE, Wrap.JSON, Wrap.HERMES):
                uri = resource_uri(Wanted("gbnf", layout, wrap))
                with subtests.test(uri=uri):
                    [contents] = (await client.read_resource(uri)).contents
                    assert isinstance(contents, types.TextResourceContents)
                    copy = copy_for(world.principal.scopes, "gbnf", names=names, layout=layout, wrap=wrap)
                    assert contents.text == copy.text


@eras
@pytest.mark.parametrize(
    "uri",
    [
        "guideway://grammar/lrk",
        "guideway://grammar/",
        "guideway://grammar",
        "guideway://grammar/gbnf/x",
        "guideway://gramma/gbnf",
        "guideway://user@grammar/gbnf",
        "guideway://grammar/gbnf#part",
        "guideway://grammar/gbnf?layout=tall",
        "guideway://grammar/gbnf?dialect=lark",
        "guideway://grammar/gbnf?layout=lines&layout=lines",
        "guideway://grammar/gbnf?colour=red",
        "guideway://grammar/gbnf?wrap",
        "guideway://[",
        "file:///etc/passwd",
        "",
    ],
)
async def test_what_does_not_exist_is_not_found(world: World, uri: str, era: Era) -> None:
    async with world.connected("http", era) as client:
        with pytest.raises(MCPError, match="Resource not found") as raised:
            await client.read_resource(uri)
    assert raised.value.error.code == NOT_FOUND[era]
    assert raised.value.error.data == {"uri": uri}


@eras
@pytest.mark.parametrize("scopes", [frozenset(), frozenset({Scope.APPROVE})], ids=["none", "approve"])
async def test_nobody_without_a_scope_reads_anything(scopes: frozenset[Scope], era: Era) -> None:
    async with World(scopes).connected("http", era) as client:
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        with pytest.raises(MCPError, match="there is no grammar without a scope") as raised:
            await client.read_resource("guideway://grammar/lark")
    assert raised.value.error.code == NOT_FOUND[era]


async def test_a_caller_who_steps_up_reads_the_longer_copy_at_once(world: World) -> None:
    world.principal = Principal("tester", READ)
    async with world.connected("http", "2026-07-28") as client:
        before = await client.read_resource("guideway://grammar/gbnf")
        world.principal = World().principal
        after = await client.read_resource("guideway://grammar/gbnf")
    for result, has in ((before, False), (after, True)):
        assert (result.ttl_ms, result.cache_scope) == (0, "private")
        assert isinstance(result.contents[0], types.TextResourceContents)
        assert ("RESTART" in result.contents[0].text) == has


@eras
async def test_the_template_is_listed_and_completed(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == TEMPLATE
        reference = types.ResourceTemplateReference(uri=TEMPLATE)
        for name, values in CHOICES.items():
            assert f"{{{name}}}" in TEMPLATE or f"{name}," in TEMPLATE or f",{name}" in TEMPLATE
            completion = (await client.complete(reference, {"name": name, "value": ""})).completion
            assert completion.values == list(values)
        some = (await client.complete(reference, {"name": "dialect", "value": "gb"})).completion
        assert some.values == ["gbnf"]
        nothing = (await client.complete(reference, {"name": "colour", "value": ""})).completion
        assert nothing.values == []
        with pytest.raises(MCPError, match="Nothing to complete"):
            await client.complete(types.ResourceTemplateReference(uri="file:///{path}"), {"name": "path", "value": ""})


@eras
async def test_the_digest_of_the_listing_is_that_of_the_resource(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        [tool] = (await client.list_tools()).tools
        [told] = (tool.meta or {}).values()
        [contents] = (await client.read_resource(told["gbnf_uri"])).contents
    assert isinstance(contents, types.TextResourceContents)
    assert hashlib.sha256(contents.text.encode()).hexdigest() == told["gbnf_sha256"]

"""How copies are made and kept: once for everybody who has the same rights, and without holding up anybody else."""

import threading
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.dsl.scopes import Scope
from guideway.grammar import DIALECTS, GrammarCopy, Layout, Wrap, copy_for
from guideway.interpreter.principal import Principal
from guideway.server import publish
from guideway.server.kept import Kept
from guideway.server.publish import CHOICES, NoCopy, Publisher, Wanted, resource_uri, wanted
from guideway.server.resources import asked
from tests.server.world import World

READ = frozenset({Scope.READ})
wanted_copies = st.builds(Wanted, st.sampled_from(DIALECTS), st.sampled_from(Layout), st.sampled_from(Wrap))


class Counted:
    """Makes copies as the grammar does, once it may, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        monkeypatch.setattr(publish, "copy_for", self)

    def __call__(self, scopes: frozenset[Scope], dialect: str, **options: Any) -> GrammarCopy:
        self.made.append(dialect)
        assert self.may_go_on.wait(30)
        return copy_for(scopes, dialect, **options)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.mark.anyio
async def test_a_copy_is_made_once_for_many_who_ask_at_once(world: World, counted: Counted) -> None:
    publisher = world.server.publisher
    found: list[GrammarCopy] = []

    async def ask() -> None:
        found.append(await publisher.copy(publisher.audience(), Wanted("w3c")))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert counted.made == ["w3c"]
    assert len(set(map(id, found))) == 1
    assert len(found) == 20


@pytest.mark.anyio
async def test_that_there_is_none_is_found_out_once(world: World, counted: Counted) -> None:
    for _ in range(3):
        with pytest.raises(NoCopy, match="takes no wrap") as raised:
            await world.server.publisher.copy(world.server.publisher.audience(), Wanted("lark", wrap=Wrap.JSON))
        assert raised.value.why is NoCopy.Why.NOT_IN_DIALECT
    assert counted.made == ["lark"]


@pytest.mark.anyio
async def test_others_are_served_while_a_copy_is_made(world: World, counted: Counted) -> None:
    async with world.connected("http", "2026-07-28") as client:
        await client.list_tools()
        counted.may_go_on.clear()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.read_resource, "guideway://grammar/w3c")
                while "w3c" not in counted.made:
                    await anyio.sleep(0.01)
                assert (await client.list_tools()).tools, "its copies are there already"
                counted.may_go_on.set()


@pytest.mark.anyio
async def test_other_rights_and_another_inventory_are_another_copy(world: World, counted: Counted) -> None:
    publisher = Publisher(world.pipeline, lambda: world.principal)
    both = await publisher.copy(publisher.audience(), Wanted("lark"))
    world.principal = Principal("tester", READ)
    read = await publisher.copy(publisher.audience(), Wanted("lark"))
    world.pipeline.inventory = World().pipeline.inventory
    again = await publisher.copy(publisher.audience(), Wanted("lark"))
    assert both.text != read.text == again.text
    assert len(counted.made) == 3


@given(wanted_copies)
def test_what_a_resource_is_named_is_what_is_found_there(copy: Wanted) -> None:
    assert asked(resource_uri(copy)) == copy


@given(st.lists(st.tuples(st.sampled_from([*CHOICES, "colour"]), st.text(max_size=5)), max_size=4))
def test_a_query_is_understood_or_explained(parameters: list[tuple[str, str]]) -> None:
    allowed = all(value in CHOICES.get(name, ()) for name, value in parameters)
    if allowed and len(dict(parameters)) == len(parameters):
        assert all(getattr(wanted(parameters), name) == value for name, value in parameters)
    else:
        with pytest.raises(ValueError, match=r"there are: |it can be: |stands there twice"):
            wanted(parameters)


@given(st.integers(1, 5), st.lists(st.integers(0, 9)))
def test_the_newest_answers_are_kept_and_no_more(most: int, keys: list[int]) -> None:
    kept = Kept[int, int](most)
    for key in keys:
        kept.keep(key, -key)
    newest = list(dict.fromkeys(keys))
    found = [key for key in range(10) if kept.get(key) is not None]
    assert len(found) == min(most, len(newest))
    assert set(found) <= set(keys)
    assert all(kept.get(key) == -key for key in found)

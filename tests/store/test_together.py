"""Many who look at tickets at once are answered by one look, each with what was there when they asked, or later."""

from collections.abc import Collection, Mapping

import anyio
import anyio.lowlevel
import pytest

from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.together import Together
from tests.store.conftest import Place
from tests.store.questions import NOW, question

pytestmark = pytest.mark.anyio


class Slow:
    """A store that answers when it is told to, and says how often it was asked."""

    def __init__(self) -> None:
        self.content = {"a": 1, "b": 2}
        self.asked: list[list[str]] = []
        self.may_answer = anyio.Event()
        self.error: str | None = None

    async def look(self, keys: Collection[str], now: float) -> Mapping[str, int]:
        assert now == NOW
        self.asked.append(sorted(keys))
        found = dict(self.content)
        await self.may_answer.wait()
        if self.error:
            raise StoreUnavailable(self.error)
        return found


async def until_asked(slow: Slow, times: int) -> None:
    with anyio.fail_after(5):
        while len(slow.asked) < times:
            await anyio.lowlevel.checkpoint()


async def test_who_comes_while_it_looks_is_answered_by_the_next_look() -> None:
    slow, got = Slow(), dict[str, int | None]()
    together = Together(slow.look)

    async def get(name: str, key: str) -> None:
        got[name] = await together.get(key, NOW)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get, "first", "a")
        await until_asked(slow, 1)
        slow.content["a"] = 3
        for number in range(50):
            tasks.start_soon(get, f"late {number}", "a")
        tasks.start_soon(get, "other", "b")
        tasks.start_soon(get, "none", "c")
        await anyio.wait_all_tasks_blocked()
        slow.may_answer.set()
    assert slow.asked == [["a"], ["a", "b", "c"]]
    assert got.pop("first") == 1
    assert (got.pop("other"), got.pop("none")) == (2, None)
    assert set(got.values()) == {3}


async def test_one_who_goes_away_takes_no_answer_from_the_others() -> None:
    slow, got = Slow(), list[int | None]()
    together = Together(slow.look)

    async def get() -> None:
        got.append(await together.get("a", NOW))

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as first:
            async with anyio.create_task_group() as leading:
                leading.start_soon(together.get, "a", NOW)
                await until_asked(slow, 1)
                tasks.start_soon(get)
                tasks.start_soon(get)
                await anyio.wait_all_tasks_blocked()
                first.cancel()
        slow.may_answer.set()
    assert got == [1, 1]


async def test_each_is_told_that_nothing_can_be_said() -> None:
    slow = Slow()
    slow.error = "away"
    slow.may_answer.set()
    together = Together(slow.look)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="away"):
            await together.get("a", NOW)
    slow.error = None
    assert await together.get("a", NOW) == 1


async def test_many_tickets_are_found_at_once(place: Place) -> None:
    store = place.store
    asked = [await store.ask(question(digest=f"{n}" * 64), NOW, lifetime=300, most_open=9) for n in range(8)]
    found: dict[str, bool] = {}

    async def look(ticket_id: str, there: bool) -> None:
        ticket = await store.ticket(ticket_id, NOW)
        found[ticket_id] = (ticket is not None and ticket.id == ticket_id) == there

    async with anyio.create_task_group() as tasks:
        for ticket in asked:
            tasks.start_soon(look, ticket.id, True)
        tasks.start_soon(look, "x" * 24, False)
    assert len(found) == 9
    assert all(found.values())
    await store.close()

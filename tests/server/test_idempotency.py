"""A call with an idempotency key in its `_meta`, by the official client in both eras, through the door with tokens."""

from pathlib import Path
from typing import Any

import pytest

from guideway.server.idempotency import IDEMPOTENCY_KEY, WRONG
from guideway.server.tool import TOOL_NAME
from tests.server.asking.world import Approving, Desk, call, ending, text
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

RESTART = 'RESTART "cache"'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Approving(tmp_path))


def keyed(key: object) -> Any:
    return {IDEMPOTENCY_KEY: key}


def restarts(desk: Desk) -> int:
    return desk.world.cache.calls.count("restart")


@eras
async def test_a_repeated_call_gets_the_first_ones_result(desk: Desk, era: Era) -> None:
    async with desk.open():
        async with desk.client(era) as client:
            first = await call(client, RESTART, meta=keyed("night-1"))
        async with desk.client(era) as client:  # its connection broke
            again = await call(client, RESTART, meta=keyed("night-1"))
            other = await call(client, 'PING "api.internal"', meta=keyed("night-1"))
        async with desk.client(era, shown="mike") as client:
            mikes = await call(client, RESTART, meta=keyed("night-1"))
        assert restarts(desk) == 2
    assert again.structured_content == first.structured_content | {"replayed": True}
    assert "by a call with the same idempotency key; nothing ran now" in text(again)
    assert not again.is_error
    assert "replayed" not in mikes.structured_content
    assert other.is_error
    assert ending(other) == "idempotency_conflict"
    run = first.structured_content["run_id"]
    assert other.structured_content["refusal"]["earlier"] == {"run_id": run, "retry_after": None}


@eras
async def test_without_a_key_it_runs_each_time(desk: Desk, era: Era) -> None:
    async with desk.open(), desk.client(era) as client:
        for _ in range(2):
            assert ending(await call(client, RESTART)) == "completed"
        assert restarts(desk) == 2


@eras
@pytest.mark.parametrize("key", ["", "x" * 201, "né", "a\nb", 7, ["a"]], ids=repr)
async def test_a_key_that_is_none_is_told_and_nothing_runs(desk: Desk, era: Era, key: object) -> None:
    async with desk.open(), desk.client(era) as client:
        result = await client.call_tool(TOOL_NAME, {"program": RESTART}, meta=keyed(key))
        assert result.is_error
        assert text(result) == WRONG
        assert restarts(desk) == 0


@eras
async def test_a_call_that_a_person_must_approve_keeps_its_key(desk: Desk, era: Era) -> None:
    """Asked for, approved and run by one key; sent once more it is told what was done, not that its ticket is used."""
    key = keyed("night-2")
    async with desk.open(), desk.client(era) as client:
        asked = await call(client, 'RESTART "database"', meta=key)
        ticket = asked.structured_content["refusal"]["approval"]["ticket"]
        await desk.decide(ticket)
        first = await call(client, 'RESTART "database"', ticket, meta=key)
        again = await call(client, 'RESTART "database"', ticket, meta=key)
    assert ending(first) == "completed"
    assert again.structured_content == first.structured_content | {"replayed": True}
    assert desk.world.restarts == 1

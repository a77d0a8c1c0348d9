"""A client that asks to be told how its call goes on, and then reads nothing.

The story: an agent opens as many calls as it may and lets each of them hang, so that nobody else's call can wait for a
person any more. A call waits as long as its ticket lives and no longer, whatever its client does.
"""

from pathlib import Path

import anyio
import pytest

from guideway.interpreter.approvals import TicketState
from guideway.server import waiting
from tests.interpreter.gated import gated

pytestmark = pytest.mark.anyio


async def test_a_client_that_takes_nothing_makes_no_wait_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def deaf(words: str) -> None:
        told.append(words)
        await anyio.sleep_forever()

    monkeypatch.setattr(waiting, "TELL_SECONDS", 0.0)
    async with gated(tmp_path) as world:
        ticket = await world.ask('RESTART "hard"')
        with anyio.fail_after(5):
            assert not await waiting.until_decided(world.store, ticket.id, 0.3, deaf)
        assert told
        seen = await world.store.ticket(ticket.id, ticket.created_at)
        assert seen is not None
        assert seen.state is TicketState.PENDING

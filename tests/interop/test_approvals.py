"""Both official TypeScript clients where a restart needs a person: asked, approved over the API, and run once.

The official Python client is held to the same in ``tests/server/asking``.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from guideway.interpreter.approvals import TicketState
from guideway.server import asking, waiting
from tests.interop.npm import PLACE
from tests.server.asking.world import PROGRAM, Approving, Desk, ticket_in

pytestmark = pytest.mark.anyio

#: Each SDK, in each era that it speaks.
CLIENTS = [("2", "legacy"), ("2", "2026-07-28"), ("1", "legacy")]
clients = pytest.mark.parametrize(("sdk", "era"), CLIENTS, ids=[f"typescript-{sdk}-{era}" for sdk, era in CLIENTS])


class Application:
    """A program that is built with an SDK, and speaks lines of JSON with its test."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to = process.stdin
        self._from = BufferedByteReceiveStream(process.stdout)

    async def say(self, **what: Any) -> dict[str, Any]:
        """Tell it a line, and return the next one of its own."""
        await self._to.send(json.dumps(what).encode() + b"\n")
        told: dict[str, Any] = json.loads(await self._from.receive_until(b"\n", 1 << 20))
        return told


@asynccontextmanager
async def application(
    desk: Desk, node_path: str, sdk: str, era: str, modes: Sequence[str] = ("url", "form")
) -> AsyncIterator[Application]:
    """Connect an application, as `mona`."""
    script = PLACE / "approvals" / f"client_{sdk}.mjs"
    with anyio.fail_after(60):
        process = await anyio.open_process(["node", str(script)], env={"PATH": node_path}, stderr=None)
        try:
            running = Application(process)
            assert await running.say(url=desk.door.url, token="mona", era=era, modes=modes) == {}  # noqa: S106
            yield running
        finally:
            with anyio.CancelScope(shield=True):
                process.kill()
                await process.aclose()


def ending(told: dict[str, Any]) -> str:
    """Return how a call ended: its status, or the code of its refusal."""
    report = told["result"]["structuredContent"]
    return str(report["refusal"]["code"] if report["refusal"] else report["status"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a server whose page is known."""
    return Desk(Approving(tmp_path))


@clients
async def test_its_person_is_sent_to_the_page_and_it_runs_once(desk: Desk, node_path: str, sdk: str, era: str) -> None:
    async with desk.open(), application(desk, node_path, sdk, era) as client:
        asked = (await client.say(program=PROGRAM))["asked"]
        assert asked["mode"] == "url"
        assert "database" in asked["message"]
        await desk.decide(ticket_in(asked["url"]))
        told = await client.say(action="accept")
        assert ending(told) == "completed"
        told = await client.say(program=PROGRAM, ticket=ticket_in(asked["url"]))
        assert ending(told) == "approval_used"
    assert desk.world.restarts == 1
    if era == "legacy":
        assert told["completed"] == [asked["elicitationId"]]
    [ticket] = await desk.world.tickets()
    assert ticket.question.client_says == f"typescript-{sdk} 1"


@clients
async def test_a_slow_decision_outlasts_the_clients_patience(
    desk: Desk, node_path: str, sdk: str, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gives a request up after two seconds. With progress, or going round, it waits for longer than that."""
    monkeypatch.setattr(asking, "WAIT_SECONDS", 0.7)
    monkeypatch.setattr(waiting, "TELL_SECONDS", 0.3)
    async with desk.open(), application(desk, node_path, sdk, era) as client, anyio.create_task_group() as tasks:
        asked = (await client.say(program=PROGRAM, progress=True, timeout=2_000))["asked"]

        async def decide() -> None:
            await anyio.sleep(2.5)
            await desk.decide(ticket_in(asked["url"]))

        tasks.start_soon(decide)
        told = await client.say(action="accept")
    assert ending(told) == "completed"
    assert any("waiting for a person's decision" in message for message in told["told"])


@clients
async def test_its_person_declines(desk: Desk, node_path: str, sdk: str, era: str) -> None:
    async with desk.open(), application(desk, node_path, sdk, era) as client:
        await client.say(program=PROGRAM)
        told = await client.say(action="decline")
        assert ending(told) == "approval_required"
        assert "answered with `decline`" in told["result"]["content"][0]["text"]
    [ticket] = await desk.world.tickets()
    assert ticket.state is TicketState.PENDING


@clients
async def test_its_person_answers_in_a_form(tmp_path: Path, node_path: str, sdk: str, era: str) -> None:
    desk = Desk(Approving(tmp_path, own_requests=True), forms=["laptop"], page=False)
    async with desk.open(), application(desk, node_path, sdk, era, ["form"]) as client:
        asked = (await client.say(program=PROGRAM))["asked"]
        assert 'RESTART "database"' in asked["message"]
        told = await client.say(action="accept", content={"approve": True, "reason": "mine"})
        assert ending(told) == "completed"
    assert desk.world.restarts == 1


@clients
async def test_one_that_cannot_ask_names_the_ticket_in_its_next_call(
    desk: Desk, node_path: str, sdk: str, era: str
) -> None:
    async with desk.open(), application(desk, node_path, sdk, era, []) as client:
        told = await client.say(program=PROGRAM)
        ticket = told["result"]["structuredContent"]["refusal"]["approval"]["ticket"]
        assert f'"_confirmation_token": "{ticket}"' in told["result"]["content"][0]["text"]
        await desk.decide(ticket)
        assert ending(await client.say(program=PROGRAM, ticket=ticket)) == "completed"
    assert desk.world.restarts == 1

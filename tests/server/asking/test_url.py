"""The official client, asked to have its person open the page: the restart runs once, after a yes, in both eras."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from guideway.interpreter.approvals import TicketState
from guideway.server import asking, waiting
from guideway.server.app import http_app
from guideway.server.oauth.access import Access, PageClient
from tests.server.asking.world import PROGRAM, REVISION, Approving, Desk, call, ending, text, ticket_in
from tests.server.oauth.door import ISSUER
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a server whose page is known."""
    return Desk(Approving(tmp_path))


class Person:
    """Whoever sits at the client: opens the page, and may decide there, before or after saying so."""

    def __init__(self, desk: Desk, action: Any = "accept", decides: Callable[[str], Any] | None = None) -> None:
        self.desk = desk
        self.action = action
        self.decides = decides
        self.asked: list[types.ElicitRequestURLParams] = []

    async def answer(self, context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG002
        assert isinstance(params, types.ElicitRequestURLParams)
        self.asked.append(params)
        if self.decides is not None:
            await self.decides(ticket_in(params.url))
        return types.ElicitResult(action=self.action)


@eras
async def test_a_yes_on_the_page_lets_it_run_once(desk: Desk, era: Era) -> None:
    person = Person(desk)
    person.decides = desk.decide
    async with desk.open(), desk.client(era, person.answer) as client:
        assert client.protocol_version == REVISION[era]
        result = await call(client)
    assert ending(result) == "completed"
    assert desk.world.restarts == 1
    [asked] = person.asked
    assert "database" in asked.message
    [ticket] = await desk.world.tickets()
    assert (ticket.state, ticket.run_id) == (TicketState.USED, result.structured_content["run_id"])
    assert ticket.question.client_says == "mcp 0.1.0"
    assert ticket.decided_by is not None
    assert ticket.decided_by.subject == "ada"


@eras
async def test_it_waits_for_a_decision_that_comes_later(desk: Desk, era: Era) -> None:
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        told.append(message)

    async def decide_later() -> None:
        while not (tickets := await desk.world.tickets(TicketState.PENDING)):
            await anyio.sleep(0.01)
        await anyio.sleep(0.3)
        await desk.decide(tickets[0].id)

    person = Person(desk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "TELL_SECONDS", 0.1)
        async with desk.open(), desk.client(era, person.answer) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(decide_later)
            result = await call(client, progress_callback=on_progress)
    assert ending(result) == "completed"
    assert len(person.asked) == desk.world.restarts == 1
    assert "waiting for a person's decision" in str(told[0])
    assert 'ok        RESTART "database"' in str(told[-1])


@eras
async def test_a_no_is_told_with_the_persons_words(desk: Desk, era: Era) -> None:
    async def refuse(ticket: str) -> None:
        await desk.decide(ticket, "deny", "not in the middle of payday")

    person = Person(desk, decides=refuse)
    async with desk.open(), desk.client(era, person.answer) as client:
        result = await call(client)
    assert result.is_error
    assert ending(result) == "approval_denied"
    assert "not in the middle of payday" in text(result)
    assert desk.world.restarts == 0


@eras
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_whoever_does_not_open_the_page_decides_nothing(desk: Desk, era: Era, action: str) -> None:
    person = Person(desk, action)
    async with desk.open(), desk.client(era, person.answer) as client:
        result = await call(client)
        [ticket] = await desk.world.tickets()
        assert result.is_error
        assert ending(result) == "approval_required"
        assert f"answered with `{action}`" in text(result)
        why = "a person must approve this first (`database`: impact high, reversibility hard)"
        assert result.structured_content["refusal"]["message"] == why
        assert f"refused: {why}; nothing ran" in text(result)
        assert ticket.state is TicketState.PENDING
        await desk.decide(ticket.id)
        assert ending(await call(client, token=ticket.id)) == "completed"
    assert desk.world.restarts == 1


@eras
async def test_nobody_decides_in_time(tmp_path: Path, era: Era) -> None:
    desk = Desk(Approving(tmp_path, lifetime=0.4))
    person = Person(desk)
    async with desk.open(), desk.client(era, person.answer) as client:
        result = await call(client)
    assert ending(result) == "approval_expired"
    assert len(person.asked) == 1


@eras
async def test_a_client_that_would_give_up_is_answered_before_that(
    desk: Desk, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent round with the state alone as often as official clients go round, and asks its person once."""
    monkeypatch.setattr(asking, "WAIT_SECONDS", 0.1)
    person = Person(desk)
    async with desk.open(), desk.client(era, person.answer) as client:
        with anyio.fail_after(20):
            result = await call(client)
        assert ending(result) == "approval_required"
        assert len(person.asked) == 1
        [ticket] = await desk.world.tickets()
        assert ticket.id in text(result)
        await desk.decide(ticket.id)
        assert ending(await call(client)) == "completed"  # the same program: the ticket need not be named
    assert desk.world.restarts == 1


@eras
async def test_a_program_of_any_length_asks_one_person_once(desk: Desk, era: Era) -> None:
    person = Person(desk)
    person.decides = desk.decide
    long = 'PING "api.internal" RESTART "database" TRY { RESTART "database" } CATCH { RESTART "database" }' * 25
    async with desk.open(), desk.client(era, person.answer) as client:
        result = await call(client, long)
    assert ending(result) == "completed"
    assert desk.world.restarts == 50
    assert len(person.asked) == 1
    assert len(await desk.world.tickets()) == 1


@eras
async def test_a_harmless_restart_asks_nobody(desk: Desk, era: Era) -> None:
    person = Person(desk)
    async with desk.open(), desk.client(era, person.answer) as client:
        assert ending(await call(client, 'RESTART "cache"')) == "completed"
    assert person.asked == []


@eras
async def test_a_server_that_stops_ends_the_waiting_and_loses_no_ticket(desk: Desk, era: Era) -> None:
    ended: list[types.CallToolResult] = []

    async def stop() -> None:
        while not person.asked:
            await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        desk.world.server.end_waits()

    person = Person(desk)
    async with desk.open(), desk.client(era, person.answer) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with anyio.fail_after(10):
            ended.append(await call(client))
    assert ending(ended[0]) == "approval_required"
    [ticket] = await desk.world.tickets()
    assert ticket.state is TicketState.PENDING


@eras
async def test_a_client_that_goes_away_ends_the_waiting(desk: Desk, era: Era) -> None:
    person = Person(desk)
    async with desk.open(), desk.client(era, person.answer) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, client)
            with anyio.fail_after(10):
                while not person.asked:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        waits = desk.world.server._asking.waits._scopes  # what is left is seen nowhere else
        with anyio.fail_after(5):
            while waits:
                await anyio.sleep(0.01)
        [ticket] = await desk.world.tickets()
        await desk.decide(ticket.id)
        assert ending(await call(client, PROGRAM, ticket.id)) == "completed"


async def test_an_older_client_is_told_that_its_question_is_answered(desk: Desk) -> None:
    heard: list[str] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            heard.append(message.params.elicitation_id)

    person = Person(desk)
    person.decides = desk.decide
    async with desk.open(), desk.client("legacy", person.answer, message_handler=on_message) as client:
        await call(client)
        with anyio.fail_after(5):
            while not heard:
                await anyio.sleep(0.01)
    assert heard == [person.asked[0].elicitation_id]


@pytest.mark.parametrize(
    ("resource", "page"),
    [
        ("https://guideway.example.com/mcp", "https://guideway.example.com/approvals"),
        ("https://example.com/tools/guideway/mcp", "https://example.com/tools/guideway/approvals"),
    ],
)
async def test_people_are_sent_to_the_page_beside_the_endpoint(desk: Desk, resource: str, page: str) -> None:
    """Under whatever address clients know it; and to none where nobody could sign in there."""
    server = desk.world.server
    for client, address in ((None, None), (PageClient(ISSUER, "guideway-page"), page)):
        access = Access(desk.door.tokens, resource, (ISSUER,), client)
        http_app(server, host="127.0.0.1", port=1, url=resource, access=access)
        assert server._asking.page == address

"""A client that cannot ask its person: a result that says what to do, and the ticket in the next call."""

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from guideway.interpreter.approvals import TicketState
from guideway.server import asking
from guideway.server.schema import CONFIRMATION
from guideway.server.tool import TOOL_NAME
from tests.server.asking.world import PROGRAM, Approving, Desk, call, ending, text, ticket_in
from tests.server.oauth.door import READ, bearer, message
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a server whose page is known."""
    return Desk(Approving(tmp_path))


@eras
async def test_it_is_told_who_decides_where_and_how_to_go_on(desk: Desk, era: Era) -> None:
    async with desk.open(), desk.client(era) as client:
        waiting = await call(client)
        assert waiting.is_error
        approval = waiting.structured_content["refusal"]["approval"]
        ticket = ticket_in(approval["url"])
        assert approval["ticket"] == ticket
        assert approval["state"] == "pending"
        assert approval["expires_at"].endswith("+00:00")
        for said in (f"ticket {ticket}: pending, for 29", approval["url"], f'"{CONFIRMATION}": "{ticket}"'):
            assert said in text(waiting)
        await desk.decide(ticket)
        ran = await call(client, 'PING "api.internal" # the same\nRESTART "database"', ticket)
        assert ending(ran) == "completed"
        assert ending(await call(client, token=ticket)) == "approval_used"
        assert ran.structured_content["run_id"] in text(await call(client, token=ticket))
    assert desk.world.restarts == 1


@eras
async def test_where_there_is_no_page_the_shell_is_named(tmp_path: Path, era: Era) -> None:
    desk = Desk(Approving(tmp_path), page=False)
    async with desk.open(), desk.client(era) as client:
        waiting = await call(client)
    approval = waiting.structured_content["refusal"]["approval"]
    assert approval["url"] is None
    assert f"guideway approvals approve {approval['ticket']}\n" in text(waiting)


@eras
async def test_a_call_with_a_ticket_waits_for_the_decision_and_asks_nobody_again(desk: Desk, era: Era) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params)
        return types.ElicitResult(action="cancel")

    async def approve(ticket: str) -> None:
        await anyio.sleep(0.3)
        await desk.decide(ticket)

    async with desk.open(), desk.client(era, answer) as client, anyio.create_task_group() as tasks:
        ticket = (await call(client)).structured_content["refusal"]["approval"]["ticket"]
        tasks.start_soon(approve, ticket)
        assert ending(await call(client, token=ticket)) == "completed"
    assert len(asked) == 1


@eras
async def test_the_same_program_needs_not_name_its_ticket(desk: Desk, era: Era) -> None:
    """A model that is held to a grammar of calls can say nothing but a program."""
    async with desk.open(), desk.client(era) as client:
        ticket = (await call(client)).structured_content["refusal"]["approval"]["ticket"]
        await desk.decide(ticket)
        assert ending(await call(client)) == "completed"
        assert ending(await call(client)) == "approval_required"
    assert desk.world.restarts == 1


@eras
async def test_nobody_to_ask_is_another_answer(tmp_path: Path, era: Era) -> None:
    desk = Desk(Approving(tmp_path, can_ask=lambda _: False))
    async with desk.open(), desk.client(era) as client:
        assert ending(await call(client)) == "nobody_to_ask"


@eras
async def test_more_calls_than_may_wait_are_answered_at_once(
    desk: Desk, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guideway.server.waiting.MOST_OF_A_PERSON", 2)
    endings: list[str] = []

    async def wait() -> None:
        endings.append(ending(await call(client, token=ticket)))

    async with desk.open(), desk.client(era) as client:
        ticket = (await call(client)).structured_content["refusal"]["approval"]["ticket"]
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            with anyio.fail_after(10):
                while len(endings) < 3:
                    await anyio.sleep(0.01)
            assert endings == ["approval_required"] * 3
            await desk.decide(ticket)
    assert sorted(endings[3:]) == ["approval_used", "completed"]
    assert desk.world.restarts == 1


async def test_a_wait_ends_before_the_client_gives_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAIT_SECONDS", 0.2)
    async with desk.open(), desk.client("2026-07-28") as client:
        ticket = (await call(client)).structured_content["refusal"]["approval"]["ticket"]
        with anyio.fail_after(5):
            assert ending(await call(client, token=ticket)) == "approval_required"


@eras
async def test_a_ticket_that_cannot_be_one_is_as_unknown_as_any_other(desk: Desk, era: Era) -> None:
    async with desk.open(), desk.client(era) as client:
        for token in ("A" * 24, "nonsense", "x" * 25, "x" * 23 + "\n", "x" * 23 + "/", "\0", "x" * 100_000):
            result = await call(client, token=token)
            assert ending(result) == "approval_unknown"
            assert text(result).endswith("refused: there is no such ticket; nothing ran")
    assert await desk.world.tickets() == []
    assert desk.world.restarts == 0


@eras
@pytest.mark.parametrize(
    "more",
    [
        {CONFIRMATION: 7},
        {"confirmation_token": "x" * 24},
        {"_break_glass": ""},
        {"_break_glass": " \t"},
        {"_break_glass": "x" * 501},
    ],
    ids=str,
)
async def test_arguments_are_strict(desk: Desk, era: Era, more: dict[str, Any]) -> None:
    async with desk.open(), desk.client(era) as client:
        result = await client.call_tool(TOOL_NAME, {"program": PROGRAM, **more})
    assert result.is_error
    assert text(result).startswith("invalid arguments: ")
    assert await desk.world.tickets() == []


async def test_what_is_null_is_left_out(desk: Desk) -> None:
    """Hosts that have a model fill in every argument send null for those that are optional."""
    async with desk.open(), desk.client("2026-07-28") as client:
        left_out = {"program": 'RESTART "cache"', CONFIRMATION: None, "_break_glass": None}
        assert not (await client.call_tool(TOOL_NAME, left_out)).is_error


async def test_the_gate_in_front_still_sees_what_a_program_needs(desk: Desk) -> None:
    """A ticket is no way round a scope: the challenge comes before, also with the further arguments."""
    desk.door.tokens.add("reader", READ, subject="mona")
    async with desk.open():
        arguments = {"program": PROGRAM, CONFIRMATION: "x" * 24, "_break_glass": "it burns"}
        body, headers = message("tools/call", name=TOOL_NAME, arguments=arguments)
        answer = await desk.http.post("/mcp", json=body, headers=headers | bearer("reader"))
    assert answer.status_code == 403
    assert "mcp:diag:write" in answer.headers["WWW-Authenticate"]


async def test_the_listing_says_what_happens_to_those_who_can_restart_something(desk: Desk) -> None:
    desk.door.tokens.add("reader", READ, subject="mona")
    async with desk.open():
        async with desk.client("2026-07-28") as client:
            [tool] = (await client.list_tools()).tools
        async with desk.client("2026-07-28", shown="reader") as client:
            [reading] = (await client.list_tools()).tools
    assert f"that ticket as `{CONFIRMATION}`" in (tool.description or "")
    assert "approv" not in (reading.description or "")
    assert set(tool.input_schema["properties"]) == {"program", CONFIRMATION, "_break_glass"}
    assert tool.input_schema["required"] == ["program"]
    approval = (tool.output_schema or {})["properties"]["refusal"]["anyOf"][0]["properties"]["approval"]
    assert approval["properties"]["state"]["enum"] == list(TicketState)

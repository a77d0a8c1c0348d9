"""A freeze, and who breaks it: a reason of the caller's, a person who is signed in, and a reason of theirs."""

from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from mcp import Client

from guideway.interpreter.approvals import TicketState
from guideway.server.schema import output_schema
from guideway.server.tool import TOOL_NAME
from tests.server.asking.world import Approving, Desk, ending, text, ticket_in
from tests.server.oauth.door import bearer
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

FROZEN = 'RESTART "ledger"'


async def call(client: Client, **more: str) -> types.CallToolResult:
    result = await client.call_tool(TOOL_NAME, {"program": FROZEN, **more})
    jsonschema.validate(result.structured_content, output_schema())
    return result


@eras
async def test_a_reason_asks_a_person_who_gives_theirs(tmp_path: Path, era: Era) -> None:
    desk = Desk(Approving(tmp_path))
    refused: list[int] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        ticket = ticket_in(params.url)
        path = f"/api/approvals/{ticket}/approve"
        refused.append((await desk.http.post(path, json={"reason": ""}, headers=bearer("ada"))).status_code)
        await desk.decide(ticket, reason="the ledger is down, and it is payday")
        return types.ElicitResult(action="accept")

    async with desk.open(), desk.client(era, answer) as client:
        frozen = await call(client)
        assert ending(frozen) == "frozen"
        assert "it is payday" in text(frozen)
        way = 'call again with the same program and "_break_glass": "why it has to run"'
        assert way in text(frozen)
        assert way in frozen.structured_content["refusal"]["diagnostics"][0]["help"]
        assert ending(await call(client, _break_glass="the ledger hangs")) == "completed"
        assert ending(await call(client)) == "frozen"  # once
    assert refused == [422]
    [ticket] = await desk.world.tickets()
    assert (ticket.state, ticket.question.break_glass) == (TicketState.USED, "the ledger hangs")


@eras
async def test_no_form_breaks_it(tmp_path: Path, era: Era) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params)
        return types.ElicitResult(action="accept", content={"approve": True, "reason": "so I say"})

    desk = Desk(Approving(tmp_path, own_requests=True), forms=["laptop"], page=False)
    async with desk.open(), desk.client(era, answer) as client:
        result = await call(client, _break_glass="the ledger hangs")
    assert ending(result) == "approval_required"
    assert result.structured_content["refusal"]["approval"]["break_glass"] is True
    assert asked == []

"""Answers to a question about a program: forged, replayed, altered, or of another program, caller, tenant or session.

The story: an agent was asked to have its person open the approval page. It holds the state of that question and can
send whatever it likes. It must get no further than the person who approves lets it, and nobody else any further at all.
"""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState
from guideway.interpreter.principal import Principal
from guideway.server import asking
from guideway.server.oauth.verified import Verified
from guideway.server.request_state import keys_in
from guideway.server.tool import TOOL_NAME
from tests.server.asking.world import PROGRAM, Approving, Desk
from tests.server.oauth.door import ISSUER, bearer, message

pytestmark = pytest.mark.anyio

KEYS = "1" * 64
ACCEPT = {"action": "accept"}
YES = {"action": "accept", "content": {"approve": True}}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Return a server that is listening; no call waits long there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "WAIT_SECONDS", 0.2)
        async with Desk(Approving(tmp_path), keys=lambda: keys_in(KEYS, "the test")).open() as desk:
            yield desk


async def send(desk: Desk, who: str = "mona", program: str = PROGRAM, *, can: str = "url", **more: Any) -> Any:
    """Call the tool with whatever goes with it; return the result, or the error."""
    body, headers = message("tools/call", name=TOOL_NAME, arguments={"program": program})
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {can: {}}}
    body["params"] |= more
    answer = await desk.http.post("/mcp", json=body, headers=headers | bearer(who))
    told = answer.text.split("data: ")[-1] if "event-stream" in answer.headers["content-type"] else answer.text
    read = json.loads(told)
    return read.get("result") or read["error"]


async def asked(desk: Desk, who: str = "mona", program: str = PROGRAM) -> tuple[str, str, str]:
    """Have a question asked; return its key, its state, and its ticket."""
    result = await send(desk, who, program)
    assert result["resultType"] == "input_required", result
    [(key, request)] = result["inputRequests"].items()
    return key, result["requestState"], request["params"]["url"].rpartition("/")[2]


def code(result: Any) -> str:
    """Return how a call ended: its status, the code of its refusal, or that its state was not taken."""
    if "resultType" not in result:
        assert result == {
            "code": -32602,
            "message": "Invalid or expired requestState",
            "data": {"reason": "invalid_request_state"},
        }
        return "not taken"
    if result["resultType"] == "input_required":
        return "asked"
    report = result["structuredContent"]
    return str(report["refusal"]["code"] if report["refusal"] else report["status"])


async def test_a_yes_that_nobody_gave(desk: Desk) -> None:
    """It says that its person accepted. All that is known by that is that a page was opened: it waits, in vain."""
    key, state, ticket = await asked(desk)
    for answer in (ACCEPT, YES, {"action": "accept", "content": {"approve": True, "decided_by": "ada"}}):
        assert code(await send(desk, requestState=state, inputResponses={key: answer})) == "asked"
    assert (await desk.world.records.ticket(ticket, time.time())).state is TicketState.PENDING  # type: ignore[union-attr]
    assert desk.world.restarts == 0


async def test_an_answer_without_a_state(desk: Desk) -> None:
    """It answers a question that was not asked, under the key of one that was."""
    key, _, ticket = await asked(desk)
    await desk.decide(ticket)
    assert code(await send(desk, inputResponses={key: YES})) == "not taken"
    assert desk.world.restarts == 0


async def test_a_state_is_replayed(desk: Desk) -> None:
    """Once its ticket is used, by whatever way, a state leads nowhere any more; fifty at once run it once."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    endings: list[str] = []

    async def once() -> None:
        endings.append(code(await send(desk, requestState=state, inputResponses={key: ACCEPT})))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(once)
    assert sorted(endings) == ["approval_used"] * 49 + ["completed"]
    assert desk.world.restarts == 1


async def test_a_state_is_replayed_while_a_later_question_is_open(desk: Desk) -> None:
    """The old state must not ride on the new yes."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket, "deny", "no")
    later, _, fresh = await asked(desk)
    assert (later, fresh) != (key, ticket)
    await desk.decide(fresh)
    assert code(await send(desk, requestState=state, inputResponses={key: ACCEPT})) == "approval_denied"
    assert desk.world.restarts == 0


async def test_a_state_is_altered(desk: Desk) -> None:
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    middle = len(state) // 2
    flipped = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
    made_up = f'{{"ticket":"{ticket}"}}'
    wrong: list[Any] = [flipped, state[:-1], state + "A", "v1.", "", "v2" + state[2:], made_up, 7, {}]
    for altered in wrong:
        result = await send(desk, requestState=altered, inputResponses={key: ACCEPT})
        assert result.get("code") == -32602, altered
    assert desk.world.restarts == 0


async def test_a_state_is_made_up_with_another_key(desk: Desk, tmp_path: Path) -> None:
    """By somebody who has such a server of their own, with the same caller in it."""
    async with Desk(Approving(tmp_path / "own"), keys=lambda: ["2" * 64]).open() as own:
        key, state, ticket = await asked(own)
        await own.decide(ticket)
    assert code(await send(desk, requestState=state, inputResponses={key: ACCEPT})) == "not taken"


async def test_a_state_goes_on_at_a_replica_with_the_same_key(desk: Desk) -> None:
    """What the refusals above must not break: the client's next request may come to another process."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    async with Desk(Approving(desk.world.folder), keys=lambda: keys_in(f"{'3' * 64} {KEYS}", "it")).open() as replica:
        assert code(await send(replica, requestState=state, inputResponses={key: ACCEPT})) == "completed"
        assert replica.world.restarts == 1
    assert code(await send(desk, requestState=state, inputResponses={key: ACCEPT})) == "approval_used"


async def test_a_state_of_another_program(desk: Desk) -> None:
    """A harmless-looking program is approved, and its state sent with another one."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    other = f'{PROGRAM} RESTART "database"'
    assert code(await send(desk, program=other, requestState=state, inputResponses={key: ACCEPT})) == "not taken"
    arguments = {"program": other, "_confirmation_token": ticket}
    assert code(await send(desk, arguments=arguments)) == "approval_other_program"
    assert desk.world.restarts == 0


async def test_a_state_of_another_person(desk: Desk) -> None:
    """Mike has seen Mona's state, or her ticket. A token of his own opens neither."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    assert code(await send(desk, "mike", requestState=state, inputResponses={key: ACCEPT})) == "not taken"
    arguments = {"program": PROGRAM, "_confirmation_token": ticket}
    assert code(await send(desk, "mike", arguments=arguments)) == "approval_other_caller"
    assert desk.world.restarts == 0


async def test_a_state_of_another_tenant(desk: Desk) -> None:
    """The same person through the same client, with a token for another tenant."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    assert code(await send(desk, "red", requestState=state, inputResponses={key: ACCEPT})) == "not taken"
    arguments = {"program": PROGRAM, "_confirmation_token": ticket}
    assert code(await send(desk, "red", arguments=arguments)) == "approval_other_caller"
    assert desk.world.restarts == 0


async def test_a_state_of_another_client(desk: Desk) -> None:
    """The same person, through a client that is not the one that asked."""
    key, state, ticket = await asked(desk)
    await desk.decide(ticket)
    other = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), ISSUER.issuer, "another-client")
    desk.door.tokens._known["other"] = Verified(other, ISSUER, None)
    assert code(await send(desk, "other", requestState=state, inputResponses={key: ACCEPT})) == "not taken"
    arguments = {"program": PROGRAM, "_confirmation_token": ticket}
    assert code(await send(desk, "other", arguments=arguments)) == "approval_other_caller"
    assert desk.world.restarts == 0


async def test_an_answer_under_another_questions_key(desk: Desk) -> None:
    """It answers some other question that it was asked; this one is asked again, and only so often."""
    key, state, _ = await asked(desk)
    for _ in range(asking.MOST_ROUNDS):
        result = await send(desk, requestState=state, inputResponses={f"{key}x": ACCEPT})
        assert list(result["inputRequests"]) == [key]
        state = result["requestState"]
    assert code(await send(desk, requestState=state, inputResponses={f"{key}x": ACCEPT})) == "approval_required"


async def test_a_form_that_was_not_shown(desk: Desk) -> None:
    """The client declares forms, and answers the page's question as if it had been one."""
    key, state, ticket = await asked(desk)
    assert code(await send(desk, can="form", requestState=state, inputResponses={key: YES})) == "asked"
    assert (await desk.world.records.ticket(ticket, time.time())).decided_by is None  # type: ignore[union-attr]


async def test_an_answer_in_another_session(desk: Desk) -> None:
    """Older revisions ask within a session: whoever answers in another one answers nothing, with whatever id."""
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {"url": {}, "form": {}}},
        "clientInfo": {"name": "agent", "version": "1"},
    }

    async def post(who: str, session: str | None, body: dict[str, Any]) -> Any:
        headers = bearer(who) | {"Accept": "application/json, text/event-stream"}
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"} if session else {}
        return await desk.http.post("/mcp", json={"jsonrpc": "2.0"} | body, headers=headers)

    async def session_of(who: str) -> str:
        opened = await post(who, None, {"id": 0, "method": "initialize", "params": initialize})
        session = str(opened.headers["Mcp-Session-Id"])
        await post(who, session, {"method": "notifications/initialized"})
        return session

    mine, mikes = await session_of("mona"), await session_of("mike")
    ended: list[str] = []

    async def call() -> None:
        params = {"name": TOOL_NAME, "arguments": {"program": PROGRAM}}
        ended.append((await post("mona", mine, {"id": 1, "method": "tools/call", "params": params})).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        while not await desk.world.tickets():
            await anyio.sleep(0.01)
        for number in range(3):
            answer = {"id": number, "result": {"action": "decline"}}
            assert (await post("mike", mikes, answer)).status_code == 202  # it is an answer to nothing
            assert (await post("mike", mine, answer)).status_code == 404
    assert "approval_required" in ended[0]
    assert "decline" not in ended[0]
    assert desk.world.restarts == 0

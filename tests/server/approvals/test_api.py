"""The JSON API: what it answers to whom, and each of its errors."""

import time
from dataclasses import replace

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState
from tests.server.approvals.served import approvers, serving
from tests.server.approvals.world import ASKER, World
from tests.server.oauth.door import ISSUER, bearer, challenges

pytestmark = pytest.mark.anyio
ADA = bearer("ada")
API = "/api/approvals"


async def test_tickets_are_listed_newest_first_and_by_state() -> None:
    world = World()
    first = world.change(await world.ask(), created_at=time.time() - 60)
    second = await world.ask(replace(ASKER, subject="otto"))
    async with serving(world, approvers()) as http:
        answer = await http.get(API, headers=ADA)
        assert [each["ticket"] for each in answer.json()["tickets"]] == [second.id, first.id]
        assert answer.headers["cache-control"] == "no-store"
        assert (await http.post(f"{API}/{first.id}/deny", json={"reason": "no"}, headers=ADA)).status_code == 200
        only = await http.get(f"{API}?state=denied&state=used", headers=ADA)
        assert [each["ticket"] for each in only.json()["tickets"]] == [first.id]
        assert len((await http.get(f"{API}?limit=1", headers=ADA)).json()["tickets"]) == 1
        assert (await http.get(API, headers=bearer("red"))).json() == {"tickets": []}


async def test_a_person_approves_once() -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, approvers()) as http:
        assert (await http.get(f"{API}/{ticket.id}", headers=ADA)).json()["state"] == "pending"
        answer = await http.post(f"{API}/{ticket.id}/approve", json={"reason": "go on"}, headers=ADA)
        assert answer.status_code == 200
        facts = answer.json()
        assert (facts["state"], facts["reason"], facts["decided_by"]["subject"]) == ("approved", "go on", "ada")
        again = await http.post(f"{API}/{ticket.id}/deny", json={}, headers=ADA)
    assert (again.status_code, again.json()["error"]) == (409, "already_decided")
    assert world.records.kept[ticket.id].state is TicketState.APPROVED


async def test_each_reason_not_to_decide_has_its_own_answer() -> None:
    world = World()
    tokens = approvers()
    own = replace(ASKER, subject="ada", issuer=ISSUER.issuer)
    tickets = {
        "own_request": await world.ask(own),
        "expired": world.expire(await world.ask(replace(ASKER, subject="late"))),
        "no_reason": world.change_question(await world.ask(replace(ASKER, subject="hasty")), break_glass="fire"),
    }
    statuses = {"own_request": 403, "expired": 409, "no_reason": 422}
    async with serving(world, tokens) as http:
        for code, ticket in tickets.items():
            answer = await http.post(f"{API}/{ticket.id}/approve", json={"reason": " "}, headers=ADA)
            assert (answer.status_code, answer.json()["error"]) == (statuses[code], code)
            assert answer.json().keys() == {"error", "message", "help"}
        world.records.down = True
        answer = await http.get(API, headers=ADA)
    assert (answer.status_code, answer.json()["error"]) == (503, "store_unavailable")
    assert "disk" not in answer.text, "what is wrong with the store is for operators"


async def test_a_request_that_is_malformed_changes_nothing_and_is_told_what_is_wrong() -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, approvers()) as http:
        for body in (
            b"[]",
            b"{",
            b'{"reason": 1}',
            b'{"reason": "x", "approve": true}',
            b'{"reason": "%s"}' % (b"x" * 501),
        ):
            answer = await http.post(f"{API}/{ticket.id}/approve", content=body, headers=ADA)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
            assert "a decision's body" in answer.json()["help"]
        for query in ("limit=0", "limit=x", "state=open", "page=2"):
            answer = await http.get(f"{API}?{query}", headers=ADA)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
            assert "`state` is one of pending, approved" in answer.json()["help"], "not what a decision's body is"
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_a_token_without_the_scope_is_challenged_for_it_and_no_token_too() -> None:
    world = World()
    ticket = await world.ask()
    tokens = approvers()
    tokens.add("late", {Scope.APPROVE}, expires_at=time.time() - 1)
    async with serving(world, tokens) as http:
        for path in (API, f"{API}/{ticket.id}"):
            answer = await http.get(path)
            assert answer.status_code == 401
            assert challenges(answer)[0][1]["scope"] == "mcp:diag:approve"
            answer = await http.get(path, headers=bearer("late"))
            assert answer.status_code == 401
            assert challenges(answer)[0][1]["scope"] == "mcp:diag:approve"
            answer = await http.get(path, headers=bearer("mona"))
            assert answer.status_code == 403
            assert challenges(answer)[0][1]["error"] == "insufficient_scope"
            assert "mcp:diag:approve" in challenges(answer)[0][1]["scope"].split(" ")
        answer = await http.post(f"{API}/{ticket.id}/approve", json={}, headers=bearer("mona"))
        assert answer.status_code == 403
        # What lets somebody approve does not let a program run.
        assert (await http.get("/grammar", headers=ADA)).status_code == 403
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_without_a_client_for_people_there_is_the_api_and_no_page() -> None:
    async with serving(World(), approvers()) as http:
        for path in ("/approvals", "/approvals/sign-in"):
            answer = await http.get(path)
            assert (answer.status_code, "`client_id`" in answer.text) == (404, True)
        assert (await http.get(API, headers=ADA)).status_code == 200


async def test_where_nobody_can_sign_in_there_is_neither_page_nor_api() -> None:
    async with serving(World(), None) as http:
        for path in ("/approvals", "/approvals/x", API, f"{API}/x/approve"):
            answer = await http.get(path)
            assert answer.status_code == 404
            assert "no issuer" in answer.text

"""The facts of a ticket, and who may see and decide what at the desk."""

import logging
import time
from dataclasses import replace
from datetime import datetime

import pytest

from guideway.dsl.parser import parse
from guideway.dsl.printer import format_program
from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState, Undecidable
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.server.approvals.desk import Desk
from guideway.server.approvals.view import facts, words
from guideway.server.run_log import about_ticket, who
from tests.server.approvals.world import APPROVER, ASKER, PROGRAM, World

pytestmark = pytest.mark.anyio
HOSTILE = "one\ntwo \x1b[31m\u202eevil\u2066 <b>"


async def test_facts_tell_the_whole_program_its_worst_case_and_each_target() -> None:
    world = World()
    world.ran_before()
    ticket = await world.ask(program=f"# a comment that is not to be believed\n{PROGRAM}", client_says="Agent 1.0")
    shown = (await Desk(world.pipeline).ticket(APPROVER, ticket.id)).facts
    assert shown["program"] == format_program(parse(PROGRAM))
    assert {(each["command"], each["target"]): each["times"] for each in shown["worst_case"]} == {
        ("IF_RUNNING", "cache"): 1,
        ("PING", "api.internal"): 1,
        ("RESTART", "cache"): 1,
        ("RESTART", "database"): 1,
    }
    tiers = {(each["command"], each["target"]): (each["tier"], each["mutates"]) for each in shown["targets"]}
    assert tiers == {
        ("RESTART", "database"): (3, True),
        ("RESTART", "cache"): (1, True),
        ("IF_RUNNING", "cache"): (0, False),
        ("PING", "api.internal"): (0, False),
    }
    assert (shown["tier"], shown["needs_person"]) == (3, ["tier 3"])
    admitted = world.pipeline.admit(PROGRAM, ASKER)
    assert (shown["seconds"], shown["wait_seconds"]) == (admitted.worst_case.seconds, 30.0)
    assert shown["targets"][0]["source"] == "impact high, reversibility hard"
    assert shown["asked_by"] == {
        "issuer": ASKER.issuer,
        "subject": "mona",
        "client": "an-agent",
        "client_says": "Agent 1.0",
    }
    assert shown["history"]["database"][0]["message"] == "it came up healthy"
    assert 290 <= shown["seconds_left"] <= 300
    assert datetime.fromisoformat(shown["expires_at"]).timestamp() == int(ticket.expires_at)
    assert shown["state"] == "pending"
    assert shown["decided_by"] is None


async def test_what_others_wrote_is_on_one_line_printable_and_bounded() -> None:
    world = World()
    world.ran_before(HOSTILE)
    asker = replace(ASKER, subject=HOSTILE, client=HOSTILE * 400)
    ticket = world.change_question(await world.ask(asker, client_says=HOSTILE * 400), break_glass=HOSTILE)
    shown = facts(ticket, world.pipeline.inventory, [each for _, each in world.records.mutations], time.time())
    clean = words(HOSTILE)
    assert clean == "one two \ufffd[31m\ufffdevil\ufffd <b>"
    assert shown["asked_by"]["subject"] == shown["break_glass"] == clean
    assert shown["history"]["database"][0]["message"] == clean
    assert len(shown["asked_by"]["client"]) == 200
    assert len(shown["asked_by"]["client_says"]) == 500
    assert shown["asked_by"]["client"].endswith("…")


async def test_a_program_of_another_version_is_shown_as_it_is_kept() -> None:
    world = World()
    ticket = world.change_question(await world.ask(), program='DRAIN "database"')
    shown = (await Desk(world.pipeline).ticket(APPROVER, ticket.id)).facts
    assert shown["program"] == 'DRAIN "database"\n'
    assert shown["targets"] == []


async def test_a_target_that_is_no_longer_in_the_inventory_has_no_tier() -> None:
    world = World()
    ticket = world.change_question(await world.ask(), program='RESTART "gone"')
    target = (await Desk(world.pipeline).ticket(APPROVER, ticket.id)).facts["targets"][0]
    assert (target["tier"], target["source"]) == (None, "the inventory does not have it any more")


@pytest.mark.parametrize("other", [replace(APPROVER, tenant="red"), replace(APPROVER, scopes=frozenset({Scope.WRITE}))])
async def test_nobody_else_sees_or_decides(other: Principal) -> None:
    world = World()
    ticket = await world.ask()
    desk = Desk(world.pipeline)
    with pytest.raises(Undecidable) as seeing:
        await desk.ticket(other, ticket.id)
    with pytest.raises(Undecidable) as deciding:
        await desk.decide(other, ticket.id, approve=True, reason="")
    assert seeing.value.code is deciding.value.code
    if other.tenant:
        with pytest.raises(Undecidable) as guessing:
            await desk.ticket(other, "never-was-one")
        assert str(guessing.value) == str(seeing.value)
        assert await desk.tickets(other) == []
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_a_decision_is_kept_and_logged_with_who_and_without_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    ticket = await world.ask()
    desk = Desk(world.pipeline)
    seen = await desk.decide(APPROVER, ticket.id, approve=False, reason="  not now,\nit is noon ")
    assert (seen.facts["state"], seen.facts["reason"]) == ("denied", "not now, it is noon")
    assert seen.facts["decided_by"]["subject"] == "ada"
    with pytest.raises(Undecidable) as again:
        await desk.decide(APPROVER, ticket.id, approve=True, reason="")
    assert again.value.code is Undecidable.Why.DECIDED
    said = [record.getMessage() for record in caplog.records if "approvals" in record.name]
    assert said == [
        f'ticket {ticket.id}: denied; {about_ticket(ticket)}; reason="not now, it is noon" {who(APPROVER)}',
        f"could not approve ticket {ticket.id}: already_decided; {who(APPROVER)}",
    ]


async def test_own_requests_can_be_refused_and_are_approved_only_where_that_is_configured() -> None:
    own = replace(ASKER, scopes=ASKER.scopes | {Scope.APPROVE}, client="another-client")
    world = World()
    ticket = await world.ask()
    seen = await Desk(world.pipeline).ticket(own, ticket.id)
    assert (seen.own, seen.may_approve) == (True, False)
    with pytest.raises(Undecidable) as refused:
        await Desk(world.pipeline).decide(own, ticket.id, approve=True, reason="it is me")
    assert refused.value.code is Undecidable.Why.OWN_REQUEST
    assert (await Desk(world.pipeline).decide(own, ticket.id, approve=False, reason="")).facts["state"] == "denied"
    world = World(own_requests=True)
    ticket = await world.ask()
    assert (await Desk(world.pipeline).ticket(own, ticket.id)).may_approve
    assert (await Desk(world.pipeline).decide(own, ticket.id, approve=True, reason="")).facts["state"] == "approved"


async def test_without_a_store_nothing_is_decided() -> None:
    world = World()
    ticket = await world.ask()
    world.records.down = True
    with pytest.raises(StoreUnavailable):
        await Desk(world.pipeline).decide(APPROVER, ticket.id, approve=True, reason="")

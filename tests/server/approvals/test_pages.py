"""The approval page, as a person without scripts uses it, signed in at the development issuer."""

from dataclasses import replace
from pathlib import Path

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState
from tests.server.approvals.site import Person, serving, stamp
from tests.server.approvals.world import ASKER, World

pytestmark = pytest.mark.anyio


async def test_a_person_signs_in_reads_and_approves(tmp_path: Path) -> None:
    world = World()
    world.ran_before()
    ticket = await world.ask(client_says="Agent 1.0")
    async with serving(world, tmp_path) as site, Person(site) as ada:
        asked = await ada.open(f"/{ticket.id}")
        assert (asked.status_code, ticket.question.binding.who.subject in asked.text) == (403, False)
        page = await ada.sign_in("ada", ticket.id)
        assert str(page.url) == f"{site.url}/{ticket.id}"
        for shown in (
            'RESTART</span> <span class="k-mutation">&#34;database&#34;',
            "impact high, reversibility hard",
            "mona",
            "an-agent",
            "<q>Agent 1.0</q>",
            "it came up healthy",
            "waiting for a decision",
            "<svg",
            " left</p>",
        ):
            assert shown in page.text, shown
        done = await ada.decide(ticket.id, "approve", "go on")
        assert "<b>ada</b> approved this" in done.text
        assert "go on" in done.text
        assert 'action="/approvals/' + ticket.id not in done.text
    kept = world.records.kept[ticket.id]
    assert kept.state is TicketState.APPROVED
    assert kept.decided_by is not None
    assert (kept.decided_by.subject, kept.decided_by.issuer) == ("ada", site.issuer)


async def test_the_list_has_what_waits_and_what_is_past(tmp_path: Path) -> None:
    world = World()
    past = await world.ask()
    waiting = await world.ask(replace(ASKER, subject="otto"))
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = await ada.sign_in("ada")
        assert str(page.url) == site.url
        await ada.decide(past.id, "deny", "not at noon")
        page = await ada.open()
        waits, earlier = page.text.split("<h2>Earlier</h2>")
        assert waiting.id in waits
        assert past.id in earlier
        assert "refused by ada" in earlier
        assert "Restart database and cache" in waits
    assert world.records.kept[past.id].reason == "not at noon"


async def test_each_end_has_its_page(tmp_path: Path) -> None:
    world = World()
    decided, expired = await world.ask(), await world.ask(replace(ASKER, subject="late"))
    async with serving(world, tmp_path) as site, Person(site) as ada:
        await ada.sign_in("ada")
        stamped = stamp(await ada.open())
        world.change(decided, state=TicketState.DENIED)
        world.expire(expired)
        answer = await ada.post(f"/{decided.id}/approve", stamped)
        assert (answer.status_code, "Somebody has decided already" in answer.text) == (409, True)
        answer = await ada.post(f"/{expired.id}/approve", stamped)
        assert (answer.status_code, "Its time is over" in answer.text) == (409, True)
        assert "Nobody decided in time" in (await ada.open(f"/{expired.id}")).text
        world.records.down = True
        answer = await ada.open(f"/{decided.id}")
        assert (answer.status_code, "Nothing can be decided now" in answer.text) == (503, True)
        assert (await ada.open("/no/such/page")).status_code == 404


async def test_breaking_a_freeze_needs_words(tmp_path: Path) -> None:
    world = World()
    ticket = world.change_question(await world.ask(), break_glass="the shop is down")
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = await ada.sign_in("ada", ticket.id)
        assert "the shop is down" in page.text
        assert " required" in page.text
        answer = await ada.decide(ticket.id, "approve", "  ")
        assert (answer.status_code, "Say why it may run" in answer.text) == (422, True)
        assert world.records.kept[ticket.id].state is TicketState.PENDING
        answer = await ada.decide(ticket.id, "approve", "x" * 501)
        assert (answer.status_code, "at most 500 characters" in answer.text) == (422, True)
        assert "approved this" in (await ada.decide(ticket.id, "approve", "it is that bad")).text


async def test_without_the_right_a_sign_in_ends_on_a_page_that_says_so(tmp_path: Path) -> None:
    async with serving(World(), tmp_path) as site, Person(site) as rudi:
        back = await rudi.begin("A" * 24)
        # The development issuer can give him nothing of what the page asks for, and says no.
        from tests.server.development_issuer.browser import Browser, Page

        async with Browser() as browser:
            consent = await browser.consent(back, "ABCD-EFGH-JKLM-NPQR", "rudi")
            assert "may not do it" in consent.text
            assert "the approval page of this server" in consent.text
            assert "It then runs, with your name on record" in consent.text
            assert ("decision", "allow") not in Page(consent.text).offers
            denied = await browser.submit(consent, "decision", {"decision": "deny"})
        answer = await rudi.http.get(denied.headers["location"])
        assert answer.status_code == 403
        assert "access_denied" in answer.text
        assert f"sign-in?again=1&amp;ticket={'A' * 24}" in answer.text, "what he came for is not forgotten"
        assert not world_sessions(site.world)


async def test_a_token_without_the_scope_opens_no_session(tmp_path: Path) -> None:
    world = World()
    words = {"scopes": {Scope.APPROVE: "mcp:diag:read"}}  # the issuer's word for approving is one that others have too
    async with serving(world, tmp_path, section=words) as site, Person(site) as rudi:
        page = await rudi.sign_in("rudi")
        assert page.status_code == 200, "here it is the right"
    async with serving(world, tmp_path / "other", section={"scope_claim": "rights"}) as site, Person(site) as ada:
        page = await ada.sign_in("ada")
        assert page.status_code == 403
        assert "You are signed in as ada, who may not approve here" in page.text
        assert "sign-in?again=1" in page.text


async def test_the_page_keeps_itself_fresh_by_parts(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = await ada.sign_in("ada", ticket.id)
        assert 'data-version="pending-"' in page.text
        assert (await ada.open(f"/{ticket.id}/live?version=pending-")).status_code == 204
        world.change(ticket, state=TicketState.DENIED, reason="no")
        part = await ada.open(f"/{ticket.id}/live?version=pending-")
        assert part.status_code == 200
        assert part.text.startswith("<section")
        assert "<form" not in part.text
        assert (await ada.open("/live?version=other")).text.startswith("<div")
        await ada.http.aclose()
    async with serving(world, tmp_path) as site, Person(site) as nobody:
        assert (await nobody.open(f"/{ticket.id}/live")).status_code == 403


async def test_a_session_ends_with_its_token_and_when_its_person_leaves(tmp_path: Path) -> None:
    world = World()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = await ada.sign_in("ada")
        [(content, ends)] = world.records.sessions.kept.values()
        assert content["expires_at"] == ends
        assert "token" not in "".join(content)
        answer = await ada.post("/sign-out", stamp(page))
        assert "You are signed out" in answer.text
        assert not world_sessions(world)
        assert (await ada.open()).status_code == 403


def world_sessions(world: World) -> list[object]:
    """Return the sessions that are open."""
    return list(world.records.sessions.kept)

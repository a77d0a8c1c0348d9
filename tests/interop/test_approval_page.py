"""The approval page in a real browser, as a person uses it: with scripts and without, by mouse and by keyboard.

Where GUIDEWAY_SCREENSHOTS names a folder, the screenshots of docs/approvals are made there anew.
"""

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Ticket, TicketState, Who
from guideway.server.approvals.desk import Desk
from tests.interop.chromium import SIZES, Scheme, Window, chromium, faults, window
from tests.server.approvals.site import CODE, Site, serving
from tests.server.approvals.world import APPROVER, ASKER, ISSUER, World

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("node_path")]

PEOPLE = {"ada": frozenset({Scope.APPROVE})}
MONA = replace(ASKER, subject="mona@example.com", issuer="https://login.example.com", client="triage-agent")


async def sign_in(at: Window, site: Site, ticket: Ticket | None = None) -> Page:
    """Go to the list, or to a ticket, as a link leads there, and sign in on the way."""
    page = at.page
    wanted = f"{site.url}/{ticket.id}" if ticket else site.url
    await page.goto(wanted)
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Sign-in code").fill(CODE)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("button", name="Allow").click()
    await page.wait_for_url(wanted)
    return page


async def test_a_person_reads_and_approves_and_the_program_runs_once(tmp_path: Path) -> None:
    world = World()
    world.ran_before()
    ticket = await world.ask(MONA, client_says="Triage assistant 3.1")
    async with (
        chromium() as browser,
        serving(world, tmp_path, people=PEOPLE) as site,
        window(browser) as at,
    ):
        page = await sign_in(at, site, ticket)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Restart database and cache")
        await expect(page.get_by_role("region", name="The program's text")).to_contain_text('RESTART "database"')
        await expect(page.get_by_role("img", name="The program as a flow chart")).to_be_visible()
        await expect(page.get_by_role("region", name="Who asks")).to_contain_text("mona@example.com")
        timer = page.get_by_role("timer")
        before = await timer.text_content()
        await expect(timer).not_to_have_text(before or "")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#decision")).to_contain_text("ada approved this")
        report = await ask_again(world, ticket)
        assert report == "completed"
        await expect(page.locator("#decision")).to_contain_text("It ran")
        assert await ask_again(world, ticket) == "refused"
        origins = {address.split("/")[2] for address in at.asked}
        assert origins == {site.url.split("/")[2], site.issuer.split("/")[2]}, "nobody else is asked for anything"
        assert [said for said in at.complaints if "403" not in said] == []


async def ask_again(world: World, ticket: Ticket) -> str:
    """Call again with the ticket, and return how that ended."""
    from guideway.interpreter.weighing import Asked
    from tests.server.approvals.world import PROGRAM

    return (await world.pipeline.run(PROGRAM, MONA, asked=Asked(ticket=ticket.id))).status.value


async def test_without_scripts_a_person_finds_a_request_and_refuses_it(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask(MONA)
    async with (
        chromium() as browser,
        serving(world, tmp_path, people=PEOPLE) as site,
        window(browser, size="phone", scripts=False) as at,
    ):
        page = await sign_in(at, site)
        await page.get_by_role("link", name="Restart database and cache").click()
        await expect(page.locator(".left")).to_contain_text("left")
        await page.get_by_role("link", name="Go to the decision").click()
        await page.get_by_label("Why not").fill("the backup runs until 14:00")
        await page.get_by_role("button", name="Refuse").click()
        await expect(page.locator("#decision")).to_contain_text("the backup runs until 14:00")
        await page.get_by_role("link", name="All requests").click()
        await expect(page.get_by_role("heading", name="Earlier")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("You are signed out here")
    assert world.records.kept[ticket.id].state is TicketState.DENIED


async def test_what_happens_meanwhile_is_shown_at_once(tmp_path: Path) -> None:
    """Time runs out, somebody else decides, and a new request comes: nobody has to look again."""
    world = World()
    late, other = await world.ask(MONA), await world.ask(replace(MONA, subject="otto"))
    async with chromium() as browser, serving(world, tmp_path, people=PEOPLE) as site, window(browser) as at:
        page = await sign_in(at, site, late)
        world.change(late, expires_at=time.time() + 3)
        await page.reload()
        await page.get_by_label("Words for the record").fill("half a sen")
        await expect(page.locator("#decision")).to_contain_text("Nobody decided in time")
        await expect(page.locator("#announce")).to_have_text("expired")
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await page.goto(f"{site.url}/{other.id}")
        await page.get_by_label("Words for the record").fill("half a sentence")
        await Desk(world.pipeline).decide(APPROVER, other.id, approve=False, reason="I was quicker")
        await expect(page.locator("#decision")).to_contain_text("I was quicker")
        await page.goto(site.url)
        await expect(page.locator("main")).to_contain_text("Nothing waits for you now")
        await world.ask(replace(MONA, subject="rosa"))
        await expect(page.get_by_role("link", name="Restart database and cache").first).to_be_visible()
        await expect(page.locator("main")).to_contain_text("rosa")


async def test_everything_can_be_done_by_keyboard_in_the_order_of_the_page(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask(MONA)
    async with chromium() as browser, serving(world, tmp_path, people=PEOPLE) as site, window(browser) as at:
        page = await sign_in(at, site, ticket)
        passed: list[str] = []
        for _ in range(14):
            await page.keyboard.press("Tab")
            focused: dict[str, Any] = await page.evaluate(
                "(() => { const at = document.activeElement, style = getComputedStyle(at); return {"
                "name: at.getAttribute('aria-label') || at.id || at.textContent.trim(),"
                "outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 }; })()"
            )
            assert focused["outline"], f"{focused['name']} does not show that it has the focus"
            passed.append(focused["name"])
            if focused["name"].startswith("The chart"):
                break
        assert passed == [
            "Skip to the decision",
            "◆ Guideway approvals",
            "Sign out",
            "All requests",
            "The program's text",
            "Look again",
            "yes-reason",
            "Approve: let it run once",
            "no-reason",
            "Refuse",
            "The chart, which may be wider than the page",
        ]
        await page.reload()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        for key in ("Tab", "Tab", "Tab", "Enter"):  # from the decision to its first button
            await page.keyboard.press(key)
        await expect(page.locator("#decision")).to_contain_text("ada approved this")


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_the_decision_comes_behind_the_program_and_a_wide_chart_says_that_it_scrolls(
    tmp_path: Path, size: str
) -> None:
    """Nobody decides without having passed the program, and nobody has to pass all else; times have a zone."""
    world = World()
    branches = 'IF_RUNNING "database" THEN { RESTART "database" } ELSE { IF_RUNNING "cache" THEN { RESTART "cache" } }'
    ticket = await world.ask(MONA, branches)
    async with chromium() as browser, serving(world, tmp_path, people=PEOPLE) as site, window(browser, size=size) as at:
        page = await sign_in(at, site, ticket)
        tops = {
            name: await page.locator(f"#{name}").evaluate("e => e.offsetTop") for name in ("program", "who", "most")
        }
        decision = await page.locator("#decision").evaluate("e => e.getBoundingClientRect().top + scrollY")
        program = await page.locator("pre").evaluate("e => e.getBoundingClientRect().bottom + scrollY")
        assert (program <= decision < tops["who"] < tops["most"]) == (size == "phone")
        chart = page.get_by_role("region", name="The chart, which may be wider than the page")
        hidden = await chart.evaluate("e => e.scrollWidth - e.clientWidth")
        assert (hidden > 0) == (size == "phone")
        await expect(page.get_by_text("it scrolls sideways")).to_be_visible(visible=size == "phone")
        await expect(page.locator("dd time")).to_have_text(re.compile(r"\d (UTC|GMT[-+:\d]*|[A-Z]{2,5})$"))
        assert await faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(tmp_path: Path, size: str, scheme: Scheme) -> None:
    world = World()
    world.ran_before("exited with status 1: the data directory is locked by another process", outcome="exited")
    world.ran_before()
    waiting = await world.ask(MONA, client_says="Triage assistant 3.1")
    glass = world.change_question(
        await world.ask(replace(MONA, subject="otto@example.com"), 'RESTART "database"'),
        break_glass="the shop takes no orders",
    )
    denied = world.change(
        await world.ask(replace(MONA, subject="rosa@example.com"), 'PING "api.internal" RESTART "database"'),
        state=TicketState.DENIED,
        decided_at=time.time(),
        decided_by=Who(ISSUER, "ada"),
        reason="The backup is still running until 14:00",
    )
    async with (
        chromium() as browser,
        serving(world, tmp_path, people=PEOPLE) as site,
        window(browser, size=size, scheme=scheme) as at,
    ):
        page = at.page
        await page.goto(site.url)
        found = {"sign-in": await faults(page)}
        await sign_in(at, site)
        pages = {"list": "", "ticket": waiting.id, "glass": glass.id, "denied": denied.id, "none": "x"}
        for name, path in pages.items():
            await page.goto(f"{site.url}/{path}".rstrip("/"))
            found[name] = await faults(page)
            await require_narrow(page, size)
            await keep(page, f"{name}-{size}-{scheme}")
        long = await world.ask(replace(MONA, subject="x" * 190, client="y" * 190))
        for path in ("", f"/{long.id}"):
            await page.goto(f"{site.url}{path}")
            await require_narrow(page, size)
        assert found == {name: [] for name in found}


async def require_narrow(page: Page, size: str) -> None:
    """Hold a page to be no wider than its window."""
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= SIZES[size][0], f"{page.url} is {width} wide"


async def keep(page: Page, name: str) -> None:
    """Keep a screenshot that the documentation shows, where they are to be made."""
    folder = os.environ.get("GUIDEWAY_SCREENSHOTS")
    if folder and name in {"ticket-desk-light", "ticket-phone-dark", "list-desk-dark", "list-phone-light"}:
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page="desk" in name)
        if "ticket-phone" in name:
            await page.get_by_role("link", name="Go to the decision").click()
            await page.screenshot(path=Path(folder) / f"{name.replace('ticket', 'decision')}.png")

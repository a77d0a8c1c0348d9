"""Whoever may ask for a run wants it approved without a person's will, and whoever may not see a request wants to.

The story: an agent that was talked into it writes markup and orders into everything that a person will read; a web
page that this person has open posts forms and frames the page; a neighbour in another tenant guesses tickets; the one
who asked signs in once more through another client. None of them gets a decision, a look or a session.
"""

import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

from guideway.interpreter.approvals import Cause, TicketState, Who
from guideway.interpreter.records import Mutation
from guideway.interpreter.risk import Tier
from tests.server.approvals.served import approvers
from tests.server.approvals.served import serving as serving_tokens
from tests.server.approvals.site import PEOPLE, Person, serving, stamp
from tests.server.approvals.world import ASKER, World
from tests.server.oauth.door import bearer

pytestmark = pytest.mark.anyio
MARKUP = (
    "<script>x()</script><img src=x onerror=x()>\"><svg onload=x()>' onfocus=x() autofocus <form action=//evil.example>"
    "{{7*7}} {% x %} javascript:x() \u202eevil\u2066 \x00\x1b[2J </textarea></q></dd><base href=//evil.example>"
)
TAGS = """
html head meta title link script body a header span form input button main p h1 h2 h3 div section pre code dl dt dd time
ul li table thead tbody tr th td b q br label textarea blockquote
svg desc defs marker path rect text polyline polygon g
"""
ATTRIBUTES = """
lang charset name content rel href src type defer class id method action value tabindex role aria-live aria-labelledby
aria-label aria-hidden aria-describedby aria-invalid datetime scope for rows maxlength required
data-live data-version data-says data-expires data-now
viewbox width height refx refy markerwidth markerheight orient d x y rx points marker-end
"""


class Markup(HTMLParser):
    """What a browser would make of a page: its tags and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.leads: set[str] = set()
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.leads |= {value or "" for name, value in attrs if name in ("href", "src", "action")}

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts.append(data)


async def hostile(world: World) -> str:
    """Return a ticket in which everything that others can write is markup, and what happened to it too."""
    ticket = await world.ask(replace(ASKER, subject=MARKUP, client=MARKUP, issuer=MARKUP), client_says=MARKUP)
    who = Who(MARKUP, MARKUP, MARKUP)
    world.records.mutations.append(
        (None, Mutation(MARKUP, "database", who, time.time() - 60, time.time(), MARKUP, MARKUP))
    )
    world.change_question(
        ticket,
        break_glass=MARKUP,
        causes=(Cause(MARKUP, MARKUP, Tier.APPROVAL_REQUIRED, MARKUP),),
        worst_case={(MARKUP, MARKUP): 1, ("RESTART", "database"): 1},
    )
    return ticket.id


def holds(page: httpx2.Response, site_path: str = "/approvals") -> None:
    """Hold a page to be made of nothing but its own elements, with nothing that steers a reader or a browser."""
    markup = Markup(page.text)
    assert markup.tags <= set(TAGS.split())
    assert markup.attributes <= set(ATTRIBUTES.split())
    assert not "".join(markup.scripts).strip()
    for lead in markup.leads:
        assert lead.startswith((site_path, "#")) or "/approvals" in lead, lead
    assert "evil.example>" not in page.text
    assert not {"\u202e", "\u2066", "\x00", "\x1b"} & set(page.text)


async def test_markup_in_every_field_is_text(tmp_path: Path) -> None:
    world = World()
    ticket = await hostile(world)
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = await ada.sign_in("ada", ticket)
        holds(page)
        assert "{{7*7}} {% x %}" in page.text, "no template is made of it"
        assert "&lt;script&gt;" in page.text, "what is there is shown"
        holds(await ada.open())
        holds(await ada.open("/live"))
        holds(await ada.open(f"/{ticket}/live"))
        too_long = await ada.decide(ticket, "approve", MARKUP * 9)
        assert too_long.status_code == 422
        holds(too_long)
        holds(await ada.decide(ticket, "deny", MARKUP))
        world.change(world.records.kept[ticket], state=TicketState.USED, run_id=MARKUP, outcome=MARKUP, used_at=1.0)
        holds(await ada.open(f"/{ticket}"))
        holds(await ada.open())


async def test_what_a_browser_says_of_itself_is_text_too(tmp_path: Path) -> None:
    async with serving(World(), tmp_path) as site, Person(site) as ada:
        holds(await ada.open("/<script>x()</script>"))
        await ada.begin()
        [state] = [cookie.value.split(".")[0] for cookie in ada.http.cookies.jar if "signing_in" in cookie.name]  # type: ignore[union-attr]
        answer = await ada.http.get(
            f"{site.url}/signed-in",
            params={"state": state, "iss": site.issuer, "error": MARKUP, "error_description": MARKUP},
        )
        assert answer.status_code == 403
        holds(answer)


async def test_every_answer_has_what_keeps_other_sites_out(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        answers = [await ada.open(), await ada.sign_in("ada"), await ada.open(f"/{ticket.id}"), await ada.open("/x/y")]
        answers += [await ada.open("/live"), await ada.open("/page.js"), await ada.open("/sign-in")]
        answers += [await ada.post(f"/{ticket.id}/deny", None), await ada.decide(ticket.id, "deny")]
        for answer in answers:
            policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
            assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "same-origin"
            for cookie in answer.headers.get_list("set-cookie"):
                assert {"httponly", "samesite=lax"} <= {part.strip().lower() for part in cookie.split(";")}


async def test_over_https_cookies_are_this_hosts_alone(tmp_path: Path) -> None:
    async with serving(World(), tmp_path, url="https://localhost/guideway/mcp") as site, Person(site) as ada:
        answer = await ada.http.get(f"{site.url.rpartition('/')[0]}/approvals/sign-in", headers={"Host": "localhost"})
        assert answer.status_code == 303
        [cookie] = answer.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-guideway")
        assert {"secure", "httponly", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        assert "redirect_uri=https%3A%2F%2Flocalhost%2Fguideway%2Fapprovals%2Fsigned-in" in answer.headers["location"]


FORGED: dict[str, dict[str, str]] = {
    "another site": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "no site": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "another port": {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
    "an old browser": {"Origin": "https://evil.example", "Sec-Fetch-Site": ""},
    "says so itself": {"Origin": "", "Sec-Fetch-Site": "cross-site"},
}


@pytest.mark.parametrize("name", FORGED)
async def test_a_form_of_another_site_decides_nothing_even_with_the_right_stamp(tmp_path: Path, name: str) -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        stamped = stamp(await ada.sign_in("ada", ticket.id))
        answer = await ada.post(f"/{ticket.id}/approve", stamped, FORGED[name])
        assert answer.status_code == 403
        assert (await ada.post("/sign-out", stamped, FORGED[name])).status_code == 403
        assert (await ada.open()).status_code == 200
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_a_form_without_the_stamp_of_this_session_decides_nothing(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada, Person(site) as mona:
        stamped = stamp(await ada.sign_in("ada", ticket.id))
        others = stamp(await mona.sign_in("mona"))
        for wrong in (None, "", others, stamped[:-1], stamped + "x", stamped.upper()):
            assert (await ada.post(f"/{ticket.id}/approve", wrong)).status_code == 403
        as_json = {"Content-Type": "text/plain", "Origin": site.url.removesuffix("/approvals")}
        body, url = f"stamp={stamped}", f"{site.url}/{ticket.id}/approve"
        assert (
            await ada.http.post(f"{site.url}/{ticket.id}/approve", content=body, headers=as_json)
        ).status_code == 403
        twice = f"stamp={stamped}&stamp={stamped}"
        form = as_json | {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await ada.http.post(url, content=twice, headers=form)).status_code == 403
        assert (await ada.open(f"/{ticket.id}/approve")).status_code == 404, "a link decides nothing"
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_a_guessed_ticket_is_like_one_of_another_tenant_and_like_none(tmp_path: Path) -> None:
    world = World()
    there = await world.ask(replace(ASKER, tenant="red"))
    guesses = [there.id, "A" * 24, "..", "%2e%2e", "x" * 64, "x" * 5000, "'; DROP TABLE"]
    async with serving(world, tmp_path) as site, Person(site) as ada, Person(site) as nobody:
        asked = [await nobody.open(f"/{guess}") for guess in guesses[:2]]
        assert {answer.status_code for answer in asked} == {403}
        assert len({answer.text.replace(guess, "") for answer, guess in zip(asked, guesses, strict=False)}) == 1
        stamped = stamp(await ada.sign_in("ada"))
        seen = [await ada.open(f"/{guess}") for guess in guesses]
        assert {answer.status_code for answer in seen} == {404}
        for path in ("", "/live"):
            same = {(await ada.open(f"/{guess}{path}")).text for guess in guesses[:2]}
            assert len(same) == 1
        for decision in ("approve", "deny"):
            answers = [await ada.post(f"/{guess}/{decision}", stamped) for guess in guesses[:2]]
            assert {(answer.status_code, answer.text) for answer in answers} == {(404, answers[0].text)}
    async with serving_tokens(world, approvers()) as http:
        api = [await http.get(f"/api/approvals/{guess}", headers=bearer("ada")) for guess in guesses[:2]]
        assert api[0].status_code == 404
        assert api[0].content == api[1].content
    assert world.records.kept[there.id].state is TicketState.PENDING


async def test_nobody_approves_their_own_request_through_another_client(tmp_path: Path) -> None:
    world = World()
    async with serving(world, tmp_path) as site, Person(site) as mona:
        ticket = await world.ask(replace(ASKER, issuer=site.issuer, client="another-client"))
        page = await mona.sign_in("mona", ticket.id)
        assert "You asked for this yourself" in page.text
        assert f"/{ticket.id}/approve" not in page.text
        answer = await mona.post(f"/{ticket.id}/approve", stamp(page), reason="it is only me")
        assert (answer.status_code, "Somebody else has to approve it" in answer.text) == (403, True)
        assert world.records.kept[ticket.id].state is TicketState.PENDING
        assert "refused this" in (await mona.decide(ticket.id, "deny")).text


async def test_a_session_that_was_copied_ends_with_its_sign_out(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada, Person(site) as thief:
        stamped = stamp(await ada.sign_in("ada", ticket.id))
        for cookie in ada.http.cookies.jar:
            thief.http.cookies.jar.set_cookie(cookie)
        assert (await thief.open()).status_code == 200
        await ada.post("/sign-out", stamped)
        assert (await thief.open()).status_code == 403
        assert (await thief.post(f"/{ticket.id}/approve", stamped)).status_code == 403
    assert world.records.kept[ticket.id].state is TicketState.PENDING


async def test_a_session_is_a_new_one_at_each_sign_in_and_its_cookie_is_kept_nowhere(tmp_path: Path) -> None:
    world = World()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        name = f"guideway_{site.url.split(':')[2].split('/')[0]}_approvals"
        ada.http.cookies.set(name, "f" * 43, domain="127.0.0.1", path="/approvals")  # planted by somebody
        page = await ada.sign_in("ada")
        first = session(ada)
        await ada.post("/sign-out", stamp(page))
        await ada.sign_in("ada")
        second = session(ada)
        assert len({first, second, "f" * 43}) == 3
        assert (await ada.open()).status_code == 200
        kept = repr(world.records.sessions.kept)
        assert not {part for part in (first, second) if part in kept}
        assert "eyJ" not in kept, "no token is kept"


def session(person: Person) -> str:
    """Return what the cookie of a session holds."""
    [value] = {cookie.value for cookie in person.http.cookies.jar if cookie.name.endswith("_approvals")} - {"f" * 43}
    assert value is not None
    return value


async def test_after_signing_in_nobody_is_sent_elsewhere(tmp_path: Path) -> None:
    places = ["//evil.example", "https://evil.example", "\\evil.example", "..", "/x", "a/../..", "%0d%0aX: y", "@evil"]
    async with serving(World(), tmp_path) as site, Person(site) as ada:
        for place in places:
            answer = await ada.http.get(f"{site.url}/sign-in", params={"ticket": place, "to": place, "next": place})
            assert answer.headers["location"].startswith(f"{site.issuer}/authorize?")
            [way_back] = [cookie for cookie in answer.headers.get_list("set-cookie") if "signing_in" in cookie]
            assert "evil" not in way_back
            assert way_back.split(";")[0].endswith("."), "no ticket is kept but one that could be one"


async def test_a_callback_that_somebody_else_began_signs_nobody_in(tmp_path: Path) -> None:
    """Login CSRF: the victim is to be signed in as the attacker, and to decide in their name."""
    from tests.server.development_issuer.browser import approve

    world = World()
    async with serving(world, tmp_path) as site, Person(site) as attacker, Person(site) as victim:
        back = await approve(await attacker.begin(), "ABCD-EFGH-JKLM-NPQR", "mona")
        assert (await victim.http.get(back)).status_code == 400
        await victim.begin()
        assert (await victim.http.get(back)).status_code == 400
        assert not world.records.sessions.kept


async def test_who_lost_the_right_decides_nothing_any_more(tmp_path: Path) -> None:
    world = World()
    ticket = await world.ask()
    people: dict[str, Any] = dict(PEOPLE)
    async with serving(world, tmp_path, people=people) as site, Person(site) as ada:
        stamped = stamp(await ada.sign_in("ada", ticket.id))
        [(key, (content, ends))] = world.records.sessions.kept.items()
        world.records.sessions.kept[key] = content | {"expires_at": time.time() - 1}, ends
        answer = await ada.post(f"/{ticket.id}/approve", stamped)
        assert (answer.status_code, "may not approve here" in answer.text) == (403, True)
    assert world.records.kept[ticket.id].state is TicketState.PENDING

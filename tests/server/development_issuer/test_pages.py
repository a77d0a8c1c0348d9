"""The pages: what a person is told before they allow something, who may open and send them, and who may not."""

import re
from pathlib import Path
from urllib.parse import urljoin

import anyio
import httpx2
import pytest

from guideway.server.development_issuer.sign_in import MOST_WRONG, SESSION_SECONDS, SignIn, TooManyAttempts, new_code
from tests.server.development_issuer.browser import Browser, Page, parameters
from tests.server.development_issuer.world import CODE, PEOPLE, READ, REDIRECT, RESOURCE, WRITE, Client, running

pytestmark = pytest.mark.anyio


def words(page: httpx2.Response) -> str:
    """Return what a page says, in one line."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


async def test_the_consent_page_says_who_asks_for_what_and_for_how_long(client: Client) -> None:
    async with Browser() as browser:
        page = await browser.consent(client.url(), CODE, "alice")
    said = words(page)
    assert "Test client (its own words, which nobody checked)" in said
    assert "a program on this machine ( 127.0.0.1:3000 )" in said
    assert client.client_id in said
    assert RESOURCE in said
    assert "You are alice" in said
    assert "10 minutes, and the program can renew it for 7 days" in said
    assert (
        f"Look at hosts and services: whether they answer, and in which state they are. Nothing is changed. {READ}"
        in said
    )
    assert f"Restart services. While one restarts, it does not serve anybody. {WRITE}" in said


async def test_what_a_person_cannot_give_is_said_and_not_offered(client: Client) -> None:
    async with Browser() as browser:
        page = await browser.consent(client.url(), CODE, "bob")
    assert "Not given, because bob may not do it: Restart services." in words(page)
    assert ("scope", WRITE) not in Page(page.text).offers
    assert ("scope", READ) in Page(page.text).offers


async def test_who_can_give_nothing_of_it_can_only_deny(client: Client) -> None:
    async with Browser() as browser:
        page = await browser.consent(client.url(scope=WRITE), CODE, "bob")
    assert ("decision", "allow") not in Page(page.text).offers
    assert ("decision", "deny") in Page(page.text).offers


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('"><img src=x onerror=alert(1)>', "&quot;&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("Bank\u202egnikcab", "Bankgnikcab"),
        ("a\x00b\x1b[31mc", "abc"),
        ("two\nlines", "two lines"),
        ("\u00a0" * 100, ""),
    ],
)
async def test_what_a_client_says_of_itself_is_text(client: Client, name: str, shown: str) -> None:
    """A client calls itself something that would be more than a name on the page."""
    await client.register(client_name=name)
    async with Browser() as browser:
        page = await browser.consent(client.url(), CODE, "alice")
    assert f"<q>{shown}</q>" in re.sub(r"<q> </q>", "<q></q>", page.text)
    assert "<script" not in page.text
    assert "<img" not in page.text


async def test_what_stands_in_a_request_is_text(issuer: str, client: Client, http: httpx2.AsyncClient) -> None:
    script = "<script>x</script>"
    async with Browser() as browser:
        await browser.consent(client.url(), CODE, "alice")
        for query in (f"client_id={script}", f"'>{script}", "client_id=%3Cscript%3E&%3Cscript%3E=1&%3Cscript%3E=2"):
            page = await browser.open(f"{issuer}/authorize?{query}")
            assert page.status_code == 400
            assert "<script" not in page.text
            before = await http.get(f"{issuer}/authorize?{query}")
            assert before.status_code == 200
            assert "<script" not in before.text


async def test_no_page_can_be_framed_run_scripts_or_be_kept(issuer: str, client: Client) -> None:
    """Clickjacking: the consent page lies, unseen, over a page where one has reason to click."""
    async with Browser() as browser:
        first = await browser.open(client.url())
        consent = await browser.consent(client.url(), CODE, "alice")
        refused = await browser.open(client.url(client_id="nobody"))
        wrong = await browser.http.post(f"{issuer}/authorize", data={"step": "code", "code": "wrong"})
        metadata = await browser.open(f"{issuer}/.well-known/oauth-authorization-server")
    for answer in (first, consent, refused, wrong, metadata):
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert not re.search(r"<script|\son[a-z]+=|javascript:|style=", answer.text, re.IGNORECASE)


@pytest.mark.parametrize(
    ("uri", "source"),
    [
        (REDIRECT, "http://127.0.0.1:3000"),
        ("https://client.example/cb", "https://client.example"),
        ("http://[::1]:3000/cb", "http:"),
        ("com.example.app:/cb", "com.example.app:"),
    ],
)
async def test_a_form_leads_to_the_client_and_nowhere_else(client: Client, uri: str, source: str) -> None:
    await client.register(redirect_uris=[uri])
    async with Browser() as browser:
        page = await browser.consent(client.url(redirect_uri=uri), CODE, "alice")
    assert page.headers["content-security-policy"].endswith(f"form-action 'self' {source}")


async def test_the_cookie_is_for_this_server_and_no_script(issuer: str, client: Client) -> None:
    async with Browser() as browser:
        page = await browser.open(client.url())
        action, hidden = Page(page.text).form("code")
        answer = await browser.http.post(urljoin(issuer, action), data={**hidden, "code": CODE})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"guideway_issuer_{issuer.rpartition(':')[2]}=")
    assert {part.strip() for part in cookie.split(";")[1:]} == {"HttpOnly", "SameSite=lax", "Path=/authorize"}


async def test_one_signs_in_once_and_may_become_somebody_else(client: Client) -> None:
    async with Browser() as browser:
        await browser.consent(client.url(), CODE, "alice")
        again = await browser.open(client.url())
        assert Page(again.text).steps() == ["decision", "leave"]
        page = await browser.submit(again, "leave", {})
        assert Page(page.text).steps() == ["person"]
        assert Page(page.text).offers == [("person", "alice"), ("person", "bob")]
        bob = await browser.submit(page, "person", {"person": "bob"})
        assert "You are bob" in words(bob)


async def test_nobody_can_be_somebody_who_is_not_there(client: Client) -> None:
    async with Browser() as browser:
        page = await browser.submit(await browser.open(client.url()), "code", {"code": CODE})
        again = await browser.submit(page, "person", {"person": "root"})
        assert Page(again.text).steps() == ["person"]


async def test_the_only_person_is_not_asked_who_they_are(tmp_path: Path, http: httpx2.AsyncClient) -> None:
    async with running(tmp_path / "one", people={"alice": PEOPLE["alice"]}) as url, Browser() as browser:
        client = Client(url, http)
        await client.register()
        page = await browser.submit(await browser.open(client.url()), "code", {"code": CODE})
        assert Page(page.text).steps() == ["decision"]


class TestForgery:
    """A page of somebody else's sends forms here, from the browser of somebody who has signed in."""

    async def test_a_form_of_another_site_is_refused(self, issuer: str, client: Client) -> None:
        async with Browser() as browser:
            page = await browser.consent(client.url(), CODE, "alice")
            action, hidden = Page(page.text).form("decision")
            fields = {**hidden, "decision": "allow", "scope": READ}
            for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:8766"):
                answer = await browser.http.post(urljoin(issuer, action), data=fields, headers={"Origin": origin})
                assert answer.status_code == 403
            allowed = await browser.http.post(urljoin(issuer, action), data=fields, headers={"Origin": issuer})
            assert parameters(allowed.headers["location"])["code"]

    @pytest.mark.parametrize("stamp", ["", "0" * 64, "\u00e4"])
    async def test_a_form_without_its_stamp_is_refused(self, issuer: str, client: Client, stamp: str) -> None:
        async with Browser() as browser:
            page = await browser.consent(client.url(), CODE, "alice")
            action, hidden = Page(page.text).form("decision")
            fields = {**hidden, "stamp": stamp, "decision": "allow", "scope": READ}
            answer = await browser.http.post(urljoin(issuer, action), data=fields)
            assert answer.status_code == 403

    async def test_a_stamp_is_for_what_was_shown(self, client: Client) -> None:
        """The consent given on one page is sent with the request of another."""
        other = Client(client.issuer, client.http)
        await other.register()
        async with Browser() as browser:
            page = await browser.consent(client.url(scope=READ), CODE, "alice")
            _, hidden = Page(page.text).form("decision")
            fields = {**hidden, "decision": "allow", "scope": [READ, WRITE]}
            for url in (
                client.url(),
                other.url(scope=READ),
                client.url(scope=READ, redirect_uri="http://127.0.0.1/callback"),
            ):
                assert (await browser.http.post(url, data=fields)).status_code == 403

    async def test_a_stamp_is_for_its_browser(self, client: Client) -> None:
        async with Browser() as one, Browser() as two:
            page = await one.consent(client.url(), CODE, "alice")
            await two.consent(client.url(), CODE, "alice")
            _, hidden = Page(page.text).form("decision")
            fields = {**hidden, "decision": "allow", "scope": READ}
            assert (await two.http.post(client.url(), data=fields)).status_code == 403

    async def test_without_a_session_a_form_does_nothing(self, client: Client) -> None:
        async with Browser() as browser:
            fields = {"step": "decision", "stamp": "", "decision": "allow", "scope": READ}
            answer = await browser.http.post(client.url(), data=fields)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/authorize?")
            for cookie in ("", "guess", "x" * 4000):
                header = {"Cookie": f"guideway_issuer_{client.issuer.rpartition(':')[2]}={cookie}"}
                page = await browser.http.get(client.url(), headers=header)
                assert "Sign-in code" in page.text

    async def test_an_open_consent_is_asked_for_each_time(self, client: Client) -> None:
        """Another program on this machine uses the identifier of a client that was allowed before."""
        async with Browser() as browser:
            page = await browser.consent(client.url(), CODE, "alice")
            await browser.submit(page, "decision", {"scope": READ, "decision": "allow"})
            again = await browser.open(client.url())
            assert again.status_code == 200
            assert "decision" in Page(again.text).steps()


class TestSigningIn:
    """The code that the terminal shows, and whoever guesses at it."""

    def test_a_code_is_long_and_new_each_time(self) -> None:
        codes = {new_code() for _ in range(100)}
        assert len(codes) == 100
        assert all(re.fullmatch(r"([2-9A-HJ-NP-Z]{4}-){3}[2-9A-HJ-NP-Z]{4}", code) for code in codes)

    async def test_a_code_may_be_typed_in_any_case_and_spacing(self) -> None:
        sign_in = SignIn(CODE, wrong_seconds=0)
        assert await sign_in.open(" abcdefgh jklm-npqr ") is not None
        assert await sign_in.open("") is None
        assert await sign_in.open("ABCD-EFGH-JKLM-NPQ\u211d") is None

    async def test_the_right_code_opens_whoever_else_is_guessing(self) -> None:
        sign_in = SignIn(CODE, wrong_seconds=3_600)
        async with anyio.create_task_group() as guesses:
            for _ in range(MOST_WRONG):
                guesses.start_soon(sign_in.open, "wrong")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(TooManyAttempts) as caught:
                await sign_in.open("wrong")
            assert caught.value.retry_after == 3_600
            assert await sign_in.open(CODE) is not None
            guesses.cancel_scope.cancel()
        assert await SignIn(CODE).open(CODE) is not None

    async def test_whoever_gives_up_makes_room_for_another_guess(self) -> None:
        sign_in = SignIn(CODE, wrong_seconds=3_600)
        for _ in range(2):
            async with anyio.create_task_group() as guesses:
                for _ in range(MOST_WRONG):
                    guesses.start_soon(sign_in.open, "wrong")
                await anyio.wait_all_tasks_blocked()
                guesses.cancel_scope.cancel()

    async def test_a_session_runs_out_and_the_oldest_makes_room(self) -> None:
        now = [0.0]
        sign_in = SignIn(CODE, lambda: now[0])
        cookies = [await sign_in.open(CODE) for _ in range(51)]
        assert sign_in.session(cookies[0]) is None
        assert sign_in.session(cookies[1]) is not None
        now[0] = SESSION_SECONDS
        assert sign_in.session(cookies[50]) is None

    async def test_guessing_is_answered_with_a_wait_and_locks_nobody_out(self, issuer: str) -> None:
        async with Browser() as browser:
            answers = []

            async def guess(code: str) -> None:
                answers.append(await browser.http.post(f"{issuer}/authorize", data={"step": "code", "code": code}))

            async with anyio.create_task_group() as guesses:
                for _ in range(3 * MOST_WRONG):
                    guesses.start_soon(guess, "wrong")
            refused = [answer for answer in answers if answer.status_code == 429]
            assert {answer.status_code for answer in answers} == {401, 429}
            assert {answer.headers["retry-after"] for answer in refused} == {"1"}
            await guess(CODE)
        assert (answers[-1].status_code, "set-cookie" in answers[-1].headers) == (303, True)
        assert not any("set-cookie" in answer.headers for answer in answers[:-1])

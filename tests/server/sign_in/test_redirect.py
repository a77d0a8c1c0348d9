"""The loopback address: it takes the answer of the sign-in under way, and nothing else that anybody sends there."""

import socket
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from guideway.server.sign_in.errors import WrongUsageError
from guideway.server.sign_in.redirect import Redirect, listen

pytestmark = pytest.mark.anyio

STATE = "the-state-of-this-sign-in"


@pytest.fixture
async def redirect() -> AsyncIterator[Redirect]:
    async with listen() as listening:
        listening.expect(STATE)
        yield listening


def query(**parameters: str) -> str:
    return urlencode({"code": "a-code", "state": STATE, "iss": "https://login.example.com"} | parameters)


async def visit(redirect: Redirect, sent: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as http:
        return await http.get(f"{redirect.uri}?{sent}", headers=headers)


@pytest.mark.parametrize("worked", [True, False])
async def test_the_answer_is_taken_and_the_page_says_how_it_ended(redirect: Redirect, worked: bool) -> None:
    pages: list[httpx2.Response] = []

    async def browse() -> None:
        pages.append(await visit(redirect, query()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(browse)
        answer = await redirect.answer()
        assert (answer.code, answer.state, answer.issuer) == ("a-code", STATE, "https://login.example.com")
        assert not pages, "nobody is told that they are signed in before they are"
        redirect.end(worked=worked)
    (page,) = pages
    assert ("Signed in" in page.text) is worked
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "sent",
    [
        "",
        query(state=""),
        query(state=STATE + "x"),
        query(state=STATE[:-1]),
        query(state=STATE.upper()),
        query(code=""),
        query(error="access_denied"),
        urlencode({"state": STATE}),
        query() + "&code=another",
        query() + f"&state={STATE}",
        query() + "&" + "&".join(f"p{number}=1" for number in range(30)),
        urlencode({"code": "a-code"}),
        "state=%00&code=a",
        "state=\xff&code=a",
    ],
)
async def test_what_another_page_sends_is_not_the_answer_and_ends_nothing(redirect: Redirect, sent: str) -> None:
    """A page in the person's browser knows the port by trying them all. It must not sign the shell in as somebody else
    (RFC 9700, section 4.7), nor keep the person from signing in.
    """
    page = await visit(redirect, sent)
    assert page.status_code == 400
    assert "Not the answer" in page.text
    assert redirect.take(query()), "the real one is still taken"


async def test_there_is_one_answer(redirect: Redirect) -> None:
    assert redirect.take(query())
    assert not redirect.take(query(code="another"))
    assert (await redirect.answer()).code == "a-code"


async def test_nothing_is_an_answer_before_there_is_a_question() -> None:
    async with listen() as listening:
        assert not listening.take(urlencode({"code": "a", "state": ""}))
        assert not listening.take("code=a")


async def test_an_error_is_an_answer(redirect: Redirect) -> None:
    assert redirect.take(urlencode({"state": STATE, "error": "access_denied", "error_description": "no"}))
    answer = await redirect.answer()
    assert (answer.code, answer.error, answer.description) == (None, "access_denied", "no")


async def test_an_answer_shows_no_code(redirect: Redirect) -> None:
    redirect.take(query())
    assert "a-code" not in repr(await redirect.answer())


async def test_a_page_of_another_name_that_points_here_is_turned_away(redirect: Redirect) -> None:
    """DNS rebinding: the browser believes that it is at evil.example, whose scripts could read the page."""
    for host in ("evil.example", f"localhost:{redirect.port}", "127.0.0.1"):
        assert (await visit(redirect, query(), Host=host)).status_code == 400
    assert redirect.take(query())


async def test_nothing_else_is_served(redirect: Redirect) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        base = f"http://127.0.0.1:{redirect.port}"
        assert (await http.get(base)).status_code == 404
        assert (await http.post(f"{redirect.uri}?{query()}")).status_code == 405
    assert redirect.take(query())


async def test_only_this_machine_is_listened_to(redirect: Redirect) -> None:
    assert redirect.uri == f"http://127.0.0.1:{redirect.port}/callback"
    with pytest.raises(OSError, match="attempts failed"):
        await anyio.connect_tcp("127.0.0.2", redirect.port)


async def test_a_wanted_port_is_taken_where_it_is_free() -> None:
    async with listen() as first:
        port = first.port
        async with listen(port) as second:
            assert second.port != port
        with pytest.raises(WrongUsageError, match="address already in use"):
            async with listen(port, exactly=True):
                pass
    async with listen(port, exactly=True) as again:
        assert again.port == port


async def test_a_sign_in_that_fails_still_tells_the_browser() -> None:
    pages: list[httpx2.Response] = []

    async def browse(listening: Redirect) -> None:
        pages.append(await visit(listening, query()))

    async def fail(tasks: TaskGroup) -> None:
        async with listen() as listening:
            listening.expect(STATE)
            tasks.start_soon(browse, listening)
            await listening.answer()
            raise ValueError("the issuer takes it back")

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ExceptionGroup):
            await fail(tasks)
    assert "Not signed in" in pages[0].text


@pytest.mark.parametrize("sent", ["http://127.0.0.1:1/callback?", " ", "?", "//", "http://[::1", "\0"])
async def test_what_is_pasted_is_the_address_or_it_is_nothing(redirect: Redirect, sent: str) -> None:
    assert not redirect.paste(sent)
    assert redirect.paste(f"  {redirect.uri}?{query()}\n")


@given(st.text())
def test_whatever_is_sent_is_no_answer_and_no_error(sent: str) -> None:
    redirect = Redirect(1)
    redirect.expect(STATE)
    assert not redirect.take(sent)
    assert not redirect.paste(sent)


def test_a_port_is_given_back(free_tcp_port: int) -> None:
    async def listen_once() -> None:
        async with listen(free_tcp_port, exactly=True):
            pass

    anyio.run(listen_once)
    with socket.create_server(("127.0.0.1", free_tcp_port)):
        pass

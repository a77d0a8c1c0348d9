"""Servers, issuers and pages that lie to a shell that signs in. Each test has its story.

What is common to them: no token leaves for anybody but who it is for, no browser is opened twice, nothing is kept of a
sign-in that did not work, and what is said of it quotes no secret.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from guideway.server.sign_in.auth import SignedIn
from guideway.server.sign_in.challenge import read_challenge
from guideway.server.sign_in.entry import Entry
from guideway.server.sign_in.errors import (
    NotSignedInError,
    ScopesMissingError,
    ServerError,
    SignInError,
    StorageError,
)
from guideway.server.sign_in.servers import client, require_private
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.signing import Wish, sign_in
from guideway.server.sign_in.store import TokenStore
from tests.server.sign_in.entries import entry
from tests.server.sign_in.liar import Liar, Visitor, lying
from tests.server.sign_in.world import READ, WRITE

pytestmark = pytest.mark.anyio

ELSEWHERE = "https://evil.example.com"


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with lying() as liar:
        yield liar


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    async with anyio.create_task_group() as tasks:
        yield Visitor(tasks)
        tasks.cancel_scope.cancel()


@pytest.fixture
def session(liar: Liar, tmp_path: Path) -> Session:
    return Session(liar.url, TokenStore(tmp_path / "tokens", uses_keyring=False))


async def attempt(session: Session, visitor: Visitor, **wish: Any) -> Entry:
    """Sign in for what the server asks of who has no token."""
    async with client(session.server) as http:
        challenge = await read_challenge(await http.post(session.server))
    assert challenge is not None
    return await sign_in(session, challenge, visitor, Wish(**wish))


async def post(session: Session, visitor: Visitor | None) -> httpx2.Response:
    """Send one request as a run does."""
    async with client(session.server, None, SignedIn(session, visitor)) as http:
        return await http.post(session.server)


def nothing_is_kept(session: Session) -> bool:
    return session.store.read(session.server) is None


async def test_who_does_not_lie_is_believed(session: Session, visitor: Visitor, liar: Liar) -> None:
    """Without this, the others could pass for a reason of their own."""
    kept = await attempt(session, visitor)
    assert session.store.read(session.server) == kept
    assert kept.scopes == (READ, WRITE)
    assert (await post(session, None)).status_code == 200
    assert liar.counts["authorize"] == liar.counts["register"] == liar.counts["token"] == 1
    assert "code_verifier=" in liar.bodies[0]


async def test_a_server_that_says_it_is_another_gets_no_token_for_it(
    session: Session, visitor: Visitor, liar: Liar
) -> None:
    """The server wants a token for somebody else's server, from that one's issuer, to use it there (RFC 8707)."""
    liar.resource["resource"] = "https://guideway.example.com/mcp"
    with pytest.raises(SignInError, match="does not match"):
        await attempt(session, visitor)
    assert liar.counts.keys() == {"mcp"}
    assert not visitor.told


async def test_another_spelling_of_a_servers_address_is_told_the_right_one(
    visitor: Visitor, liar: Liar, tmp_path: Path
) -> None:
    """Not a second sign-in beside the first: tokens are for one URL."""
    other = Session(liar.url.replace("127.0.0.1", "localhost"), TokenStore(tmp_path / "other", uses_keyring=False))
    with pytest.raises(SignInError) as refused:
        await attempt(other, visitor)
    assert f"`{other.server}` does not match" in str(refused.value)
    assert refused.value.help == f"sign in there: guideway login {liar.url}"


async def test_tokens_that_cannot_be_kept_are_never_asked_for(session: Session, visitor: Visitor, liar: Liar) -> None:
    path = Path(session.store.where(session.server)).parent
    path.mkdir(parents=True, mode=0o755)
    path.chmod(0o755)
    with pytest.raises(StorageError, match="others may read or write"):
        await attempt(session, visitor)
    assert liar.counts.keys() == {"mcp"}
    assert not visitor.told


async def test_where_a_client_may_be_forgotten_the_way_out_is_told(
    session: Session, visitor: Visitor, liar: Liar
) -> None:
    await attempt(session, visitor)
    waits = "waiting for the browser to come back from there, 10 minutes at most; Ctrl-C ends it"
    assert visitor.told[-1] == waits
    await attempt(session, visitor)
    assert visitor.told[-2] == waits
    assert f"`guideway logout {liar.url}`" in visitor.told[-1]


async def test_an_issuer_whose_metadata_is_anothers_is_refused(session: Session, visitor: Visitor, liar: Liar) -> None:
    """RFC 8414, section 3.3: else a code of the one would be redeemed at the other."""
    liar.metadata["issuer"] = "https://login.example.com"
    with pytest.raises(SignInError, match="issuer mismatch"):
        await attempt(session, visitor)
    assert not visitor.told


@pytest.mark.parametrize("key", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
async def test_nothing_is_sent_to_an_issuer_over_plain_http(
    session: Session, visitor: Visitor, liar: Liar, key: str
) -> None:
    """Whoever sits in between would have the code, or the tokens."""
    liar.metadata[key] = "http://login.example.com/here"
    with pytest.raises(SignInError, match=r"`http://login\.example\.com/here` is not https"):
        await attempt(session, visitor)
    assert nothing_is_kept(session)


NEAR = """
127.0.0.1:631 localhost localhost. a.localhost [::1] 127.1 2130706433 0x7f.1 0.0.0.0 [::] [::ffff:127.0.0.1]
[64:ff9b::7f00:1] [2002:7f00:1::] 169.254.169.254 [fe80::1] [::ffff:169.254.169.254] 10.0.0.1 192.168.1.1 172.16.0.1
100.64.0.1 [fd00::1] [::ffff:10.0.0.1] \uff11\uff12\uff17.0.0.1 %6cocalhost
"""


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "host",
    NEAR.split(),
)
def test_a_server_elsewhere_cannot_make_a_shell_speak_to_what_is_near(scheme: str, host: str) -> None:
    """It names a service on the person's own machine, or in their network, as its issuer, and has the shell post
    there, or their browser go there, with what cookies it has.
    """
    for server in ("https://guideway.example.com/mcp", "https://192.0.66.1/mcp", "https://[2606:4700::1]/mcp"):
        with pytest.raises(SignInError, match="is an address of this machine or its network"):
            require_private(f"{scheme}://{host}/token", server)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://127.0.0.1:631/token", "http://127.0.0.1:8765/mcp"),
        ("http://localhost/token", "http://[::1]:8765/mcp"),
        ("https://login.example.com/token", "http://127.0.0.1:8765/mcp"),
        ("https://10.0.0.2/token", "https://10.0.0.1/mcp"),
        ("https://login.example.com/token", "https://10.0.0.1/mcp"),
        ("https://8.8.8.8/token", "https://guideway.example.com/mcp"),
        ("https://xn--bcher-kva.example/token", "https://guideway.example.com/mcp"),
    ],
)
def test_a_server_may_send_a_shell_as_near_as_it_is_itself(url: str, server: str) -> None:
    require_private(url, server)


@pytest.mark.parametrize("url", ["https://127.0.0.1/token", "https://169.254.169.254/token"])
def test_a_server_in_a_private_network_sends_nobody_nearer(url: str) -> None:
    with pytest.raises(SignInError, match="is an address of this machine or its network"):
        require_private(url, "https://10.0.0.1/mcp")


@pytest.mark.parametrize("issuer", [ELSEWHERE, "http://127.0.0.1:1/", "", None])
async def test_an_answer_of_another_issuer_is_not_redeemed(
    session: Session, visitor: Visitor, liar: Liar, issuer: str | None
) -> None:
    """A mix-up (RFC 9207): the code is another issuer's, and would be sent to this one, who is not honest."""
    liar.answer["iss"] = issuer
    with pytest.raises(SignInError, match="iss"):
        await attempt(session, visitor)
    assert liar.counts["token"] == 0
    assert nothing_is_kept(session)


async def test_an_error_of_another_issuer_is_not_believed_either(
    session: Session, visitor: Visitor, liar: Liar
) -> None:
    liar.answer.update(code=None, error="access_denied", error_description="call 555-0100", iss=ELSEWHERE)
    with pytest.raises(SignInError, match="iss mismatch") as refused:
        await attempt(session, visitor)
    assert "555-0100" not in str(refused.value)


async def test_an_answer_with_another_state_is_waited_past(session: Session, visitor: Visitor, liar: Liar) -> None:
    """A page sends the shell a code of the attacker's account: it would work on the attacker's server (RFC 9700)."""
    liar.answer["state"] = "of another sign-in"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attempt, session, visitor)
        while not visitor.pages:  # a browser says nothing when it is done
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert liar.counts["token"] == 0
    assert "Not the answer" in visitor.pages[0]


@pytest.mark.parametrize(
    "said",
    [
        {"error": "access_denied", "error_description": "\x1b]0;gone\x07 no\nway " + "x" * 5000},
        {"error": "server_error\x1b[2J"},
    ],
)
async def test_what_an_issuer_says_cannot_steer_a_terminal(
    session: Session, visitor: Visitor, liar: Liar, said: dict[str, str]
) -> None:
    liar.answer.update(code=None, **said)
    with pytest.raises(SignInError) as refused:
        await attempt(session, visitor)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


SECRET = "s3cret-of-the-issuer"  # noqa: S105


@pytest.mark.parametrize(
    "answer",
    [
        lambda: JSONResponse({"error": "invalid_grant", "access_token": SECRET}, 400),
        lambda: Response(SECRET, 500),
        lambda: Response(SECRET, 200),
        lambda: JSONResponse({"access_token": SECRET, "token_type": "DPoP"}),
        lambda: JSONResponse({"access_token": [SECRET]}),
        lambda: Response('{"access_token": "' + SECRET, 200),
    ],
)
async def test_an_answer_that_cannot_be_used_is_not_shown(
    session: Session,
    visitor: Visitor,
    liar: Liar,
    caplog: pytest.LogCaptureFixture,
    answer: Callable[[], Response],
) -> None:
    """It came from the token endpoint: whatever is wrong with it, there may be a token in it."""
    caplog.set_level(logging.DEBUG)
    liar.token = answer()
    with pytest.raises(SignInError) as refused:
        await attempt(session, visitor)
    seen = [str(refused.value), str(refused.value.help), caplog.text, *visitor.told, *visitor.pages]
    assert not [text for text in seen if SECRET in text]
    assert refused.value.__cause__ is None
    assert nothing_is_kept(session)
    assert "Not signed in" in visitor.pages[0]


@pytest.mark.parametrize("granted", [READ, WRITE, "", f"{READ} {WRITE}", "openid"])
async def test_a_server_that_always_wants_more_opens_one_browser(
    session: Session, visitor: Visitor, liar: Liar, granted: str
) -> None:
    """The issuer grants whatever it grants, and the server is content with nothing: a person would click for ever."""
    session.store.write(entry(session.server, liar.origin))
    liar.granted = granted
    liar.endpoint = liar.challenge(403, error="insufficient_scope", scope=f"{READ} {WRITE}")
    with pytest.raises(ScopesMissingError) as refused:
        await post(session, visitor)
    assert liar.counts["authorize"] == 1
    assert liar.counts["mcp"] == 2
    assert "granted less than it was asked for" in (refused.value.help or "")
    assert refused.value.required == (READ, WRITE)


async def test_a_server_that_takes_no_token_opens_one_browser(session: Session, visitor: Visitor, liar: Liar) -> None:
    liar.endpoint = liar.challenge(401, error="invalid_token", error_description="\x1b[2Jthe audience is wrong")
    with pytest.raises(SignInError, match=r"does not take the token .*: .*the audience is wrong") as refused:
        await post(session, visitor)
    assert liar.counts["authorize"] == 1
    assert str(refused.value).isprintable()


async def test_without_anybody_to_ask_a_challenge_is_an_error_at_once(session: Session, liar: Liar) -> None:
    with pytest.raises(NotSignedInError):
        await post(session, None)
    assert liar.counts == {"mcp": 1}


@pytest.mark.parametrize("scope", ['a" error="x', "a\\b", "\x1b[2J", "x" * 300])
async def test_a_challenge_cannot_put_words_into_a_scope(
    session: Session, visitor: Visitor, liar: Liar, scope: str
) -> None:
    liar.endpoint = Response(
        "", 401, {"WWW-Authenticate": liar.challenge(401, scope=scope).headers["WWW-Authenticate"]}
    )
    with pytest.raises(NotSignedInError) as refused:
        await post(session, None)
    assert (refused.value.help or "").isprintable()
    assert len(refused.value.help or "") < 200
    assert not visitor.told


async def test_a_redirect_of_the_endpoint_takes_no_token_elsewhere(
    session: Session, visitor: Visitor, liar: Liar
) -> None:
    """An open redirect on the server, or whoever rewrites its answers, would be sent the token."""
    await attempt(session, visitor)
    async with lying() as other:
        liar.endpoint = RedirectResponse(other.url, 307)
        assert (await post(session, None)).status_code == 307
        assert not other.counts


async def test_tokens_only_bound_to_keys_are_not_pretended(session: Session, liar: Liar) -> None:
    liar.endpoint = Response("", 401, {"WWW-Authenticate": 'DPoP algs="ES256"'})
    with pytest.raises(SignInError, match="bound to a key"):
        await post(session, None)


@pytest.mark.parametrize("is_rpc", [False, True])
async def test_a_server_that_is_not_well_says_when_it_may_be(session: Session, liar: Liar, is_rpc: bool) -> None:
    body: dict[str, Any] = {"error": "temporarily_unavailable", "error_description": "the issuer does not answer"}
    if is_rpc:
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": 503, "message": "no", "data": body}}
    liar.endpoint = JSONResponse(body, 503, headers={"Retry-After": "30"})
    with pytest.raises(ServerError, match="503: temporarily_unavailable: the issuer does not answer") as refused:
        await post(session, None)
    assert refused.value.help == "try again in 30 seconds"


async def test_an_issuer_that_registers_nobody_is_told_apart(session: Session, visitor: Visitor, liar: Liar) -> None:
    del liar.metadata["registration_endpoint"]
    with pytest.raises(SignInError, match="registers no clients") as refused:
        await attempt(session, visitor)
    assert "--client-id" in (refused.value.help or "")
    kept = await attempt(session, visitor, client_id="known")
    assert kept.client.client_id == "known"
    assert "client_id=known" in liar.bodies[0]


async def test_a_document_is_the_client_id_where_the_issuer_takes_one(
    session: Session, visitor: Visitor, liar: Liar
) -> None:
    document = "https://client.example.com/guideway.json"
    with pytest.raises(SignInError, match="takes no URL of a document"):
        await attempt(session, visitor, client_metadata_url=document)
    liar.metadata["client_id_metadata_document_supported"] = True
    kept = await attempt(session, visitor, client_metadata_url=document)
    assert (kept.client.client_id, kept.client_metadata_url) == (document, document)
    await attempt(session, visitor)
    assert liar.counts["register"] == 1, "only the one that was refused"


async def test_a_server_that_names_no_issuer_gets_nothing(session: Session, visitor: Visitor, liar: Liar) -> None:
    """The older way is to take the server itself for its issuer, and to post a registration to it."""
    liar.resource.clear()
    with pytest.raises(SignInError, match="does not name who issues its tokens"):
        await attempt(session, visitor)
    assert liar.counts.keys() == {"mcp"}


async def test_a_client_whose_port_is_taken_registers_anew(session: Session, visitor: Visitor, liar: Liar) -> None:
    """Many issuers compare the port of a loopback address, which RFC 8252 has them ignore."""
    first = await attempt(session, visitor)
    assert first.client.redirect_uris
    port = first.client.redirect_uris[0].port or 0
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener:
        second = await attempt(session, visitor)
    assert second.client.redirect_uris != first.client.redirect_uris
    assert liar.counts["register"] == 2
    third = await attempt(session, visitor)
    assert third.client.redirect_uris == second.client.redirect_uris
    assert liar.counts["register"] == 2


async def test_two_requests_at_once_open_one_browser(session: Session, visitor: Visitor, liar: Liar) -> None:
    async with client(session.server, None, SignedIn(session, visitor)) as http, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(http.post, session.server)
    assert liar.counts["authorize"] == 1


def test_what_is_registered_says_who_it_is_and_asks_for_no_secret() -> None:
    from guideway.server.sign_in.session import metadata

    said = json.loads(metadata("http://127.0.0.1:1/callback").model_dump_json(exclude_none=True))
    assert said["client_name"] == "Guideway"
    assert said["application_type"] == "native"
    assert said["token_endpoint_auth_method"] == "none"  # noqa: S105
    assert said["grant_types"] == ["authorization_code", "refresh_token"]

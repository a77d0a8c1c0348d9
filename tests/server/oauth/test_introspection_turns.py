"""Who waits for whom where an issuer has to be asked, and what its silence means for which token."""

import errno
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup
from starlette.responses import Response

from guideway.server.oauth.introspection import MOST_WAITING, STRANGERS_AT_ONCE
from guideway.server.oauth.issuer_http import IssuerHttp
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused
from guideway.server.oauth.verifier import TrustedIssuers
from tests.server.oauth.issuer import Issuer
from tests.server.oauth.trusting import Clock, refusal, retry_after, subject, trusting

NOT_ACTIVE: Final = "the token is not active"
CROWDED: Final = "the issuer of the token is being asked about too many others"


def always_asking(issuer: Issuer, request: float = 30.0) -> TrustedIssuers:
    return trusting(issuer.opaque_section(introspection={"cache_seconds": 0}), request=request)


async def ask(trusted: TrustedIssuers, token: str, said: list[str]) -> None:
    try:
        said.append(await subject(trusted, token))
    except (IssuerUnavailable, TokenRefused) as error:
        said.append(str(error))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await anyio.sleep(0.005)


@asynccontextmanager
async def hanging(issuer: Issuer, trusted: TrustedIssuers, tokens: Iterable[str]) -> AsyncIterator[TaskGroup]:
    """Ask about tokens that the issuer does not answer about until the end."""
    before, tokens = issuer.requests["introspection"], list(tokens)
    issuer.stuck.update(tokens)
    async with anyio.create_task_group() as tasks:
        for token in tokens:
            tasks.start_soon(ask, trusted, token, [])
        await until(lambda: issuer.requests["introspection"] == before + min(len(tokens), STRANGERS_AT_ONCE))
        yield tasks
        issuer.stuck.clear()


def junk(number: int) -> list[str]:
    return [f"junk{one}" for one in range(number)]


@pytest.mark.anyio
async def test_a_verified_token_never_waits_behind_those_that_nobody_knows(issuer: Issuer) -> None:
    async with always_asking(issuer) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        async with hanging(issuer, trusted, junk(STRANGERS_AT_ONCE + MOST_WAITING)):
            assert await subject(trusted, token) == "alice"
            del issuer.opaque_tokens[token]
            assert await refusal(trusted, token) == NOT_ACTIVE


@pytest.mark.anyio
async def test_where_too_many_wait_the_next_one_is_told_so_at_once(issuer: Issuer) -> None:
    async with always_asking(issuer) as trusted:
        await trusted.verify(issuer.opaque_token())
        async with hanging(issuer, trusted, junk(STRANGERS_AT_ONCE + MOST_WAITING)):
            with pytest.raises(IssuerUnavailable, match=CROWDED) as crowded:
                await trusted.verify(issuer.opaque_token())
            assert crowded.value.retry_after == 1


@pytest.mark.anyio
async def test_waiting_for_a_turn_counts_as_time_and_is_no_outage(issuer: Issuer) -> None:
    async with always_asking(issuer, request=0.5) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        said: list[str] = []
        async with hanging(issuer, trusted, junk(STRANGERS_AT_ONCE)) as tasks:
            tasks.start_soon(ask, trusted, "late", said)
            await until(lambda: bool(said))
            assert said[0] in (CROWDED, "the issuer of the token does not answer")
            assert issuer.requests["introspection"] <= 1 + STRANGERS_AT_ONCE
            assert await subject(trusted, token) == "alice"


@pytest.mark.anyio
async def test_whoever_waited_is_not_asked_about_once_the_issuer_is_known_not_to_answer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with always_asking(issuer) as trusted:
        await trusted.verify(issuer.opaque_token())
        said: list[str] = []
        tried, post = [], IssuerHttp.post

        async def counted(http: IssuerHttp, url: str, form: Mapping[str, str], credentials: str) -> dict[str, Any]:
            tried.append(form)
            return await post(http, url, form, credentials)

        monkeypatch.setattr(IssuerHttp, "post", counted)
        async with hanging(issuer, trusted, junk(STRANGERS_AT_ONCE)) as tasks:
            asks = next(iter(trusted._answering.values()))
            for number in range(30):
                tasks.start_soon(ask, trusted, f"late{number}", said)
            await until(lambda: asks._strangers.turns._free.statistics().tasks_waiting == 30)
            issuer.stop()
            await until(lambda: len(said) == 30)
    assert said == ["the issuer of the token does not answer"] * 30
    assert len(tried) <= 3 * STRANGERS_AT_ONCE  # those that hung, and those whose turn came before it was known


@pytest.mark.anyio
async def test_a_question_without_answer_is_no_outage_where_others_are_answered(issuer: Issuer) -> None:
    """Whoever finds a token that an issuer hangs on must not lock the others out."""
    async with always_asking(issuer, request=0.5) as trusted:
        known = issuer.opaque_token()
        await trusted.verify(known)
        said: list[str] = []
        issuer.stuck.add("junk")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, trusted, "junk", said)
            await until(lambda: issuer.requests["introspection"] == 2)
            await trusted.verify(known)
            await until(lambda: bool(said))
        assert said == ["the issuer of the token does not answer"]
        assert await subject(trusted, issuer.opaque_token()) == "alice"


# A token that was revoked


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["silence", "an error"])
async def test_an_old_answer_is_not_believed_where_the_issuer_is_there_and_says_nothing(
    issuer: Issuer, how: str
) -> None:
    async with always_asking(issuer, request=0.5) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        if how == "silence":
            issuer.stuck.add("introspection")
        else:
            issuer.replies["introspection"] = lambda: Response(status_code=503)
        for _ in range(2):
            assert await retry_after(trusted, token)
        issuer.stuck.clear()


@pytest.mark.anyio
async def test_a_strangers_question_without_answer_keeps_no_revoked_token_alive(issuer: Issuer) -> None:
    async with always_asking(issuer, request=0.5) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)
        issuer.stuck.add("junk")
        assert await retry_after(trusted, "junk")  # an outage, as far as strangers go
        del issuer.opaque_tokens[token]
        assert await refusal(trusted, token) == NOT_ACTIVE
        issuer.stuck.clear()


@pytest.mark.anyio
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL])
async def test_a_server_without_sockets_is_no_issuer_without_answer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Else whoever opens enough connections to the server makes it believe old answers."""
    async with always_asking(issuer) as trusted:
        token = issuer.opaque_token()
        await trusted.verify(token)

        def none_left(*_: object, **__: object) -> object:
            error = httpx2.ConnectError("All connection attempts failed")
            error.__cause__ = ExceptionGroup("several", [OSError(number, os.strerror(number))])
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(httpx2.AsyncClient, "stream", none_left)
            assert await retry_after(trusted, token)
        del issuer.opaque_tokens[token]
        assert await refusal(trusted, token) == NOT_ACTIVE


@pytest.mark.anyio
async def test_an_answer_is_as_old_as_its_question(issuer: Issuer) -> None:
    """It may have been made at once, and the token revoked while it was on its way."""
    clock = Clock()
    section = issuer.opaque_section(introspection={"cache_seconds": 20})
    async with trusting(section, clock=clock, request=30) as trusted:
        token, said = issuer.opaque_token(), list[str]()
        async with hanging(issuer, trusted, ()) as tasks:
            issuer.stuck.add(token)
            tasks.start_soon(ask, trusted, token, said)
            await until(lambda: issuer.requests["introspection"] == 1)
            clock.later += 15
            issuer.stuck.clear()
            await until(lambda: bool(said))
        del issuer.opaque_tokens[token]
        clock.later += 6
        assert await refusal(trusted, token) == NOT_ACTIVE

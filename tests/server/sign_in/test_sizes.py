"""Answers that are larger than anything: of a server that was taken over, or an issuer that means to fill a machine.

What is read is bounded where it comes in, and a lifetime that is no time is taken for none.
"""

import gzip
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from guideway.server.cli.login import _document, _lasts
from guideway.server.sign_in.entry import Entry, end_of
from guideway.server.sign_in.errors import ServerError, SignInError
from guideway.server.sign_in.servers import MOST_BYTES, MOST_BYTES_OF_A_CALL, client
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.store import TokenStore
from tests.server.sign_in.entries import entry
from tests.server.sign_in.liar import Liar, Visitor, lying
from tests.server.sign_in.test_attacks import attempt, nothing_is_kept, post

pytestmark = pytest.mark.anyio

LARGE = {"issuer": "x" * MOST_BYTES}


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with lying() as liar:
        yield liar


@pytest.fixture
def session(liar: Liar, tmp_path: Path) -> Session:
    return Session(liar.url, TokenStore(tmp_path / "tokens", uses_keyring=False))


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    async with anyio.create_task_group() as tasks:
        yield Visitor(tasks)
        tasks.cancel_scope.cancel()


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 262_144
        await anyio.lowlevel.checkpoint()  # where it learns that nobody listens any more


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_refusal_without_an_end_is_not_read_to_its_end(session: Session, liar: Liar, status: int) -> None:
    """Its body is looked at before anybody is asked to sign in: whoever can answer fills the memory."""
    header = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
    liar.endpoint = StreamingResponse(endless(), status, header)
    with pytest.raises(ServerError, match="is longer than 1,048,576 bytes"):
        await post(session, None)


@pytest.mark.parametrize("what", ["resource", "metadata", "token"])
async def test_no_answer_of_a_sign_in_is_read_without_bounds(
    session: Session, visitor: Visitor, liar: Liar, what: str
) -> None:
    if what == "token":
        liar.token = StreamingResponse(endless(), 200, media_type="application/json")
    else:
        setattr(liar, what, LARGE)
    with pytest.raises(ServerError, match="is longer than"):
        await attempt(session, visitor)
    assert nothing_is_kept(session)


@pytest.mark.parametrize("status", [200, 401])
async def test_what_is_packed_is_not_unpacked(session: Session, liar: Liar, status: int) -> None:
    """A thousand bytes that become a million, and a million that become a thousand million."""
    liar.endpoint = Response(gzip.compress(b" " * MOST_BYTES), status, {"Content-Encoding": "gzip"})
    with pytest.raises(ServerError, match="packs its answer"):
        await post(session, None)
    async with client(session.server) as http:
        assert http.headers["Accept-Encoding"] == "identity"
        with pytest.raises(ServerError, match="packs its answer"):
            await http.post(session.server)


async def test_a_report_may_be_longer_and_has_a_bound_too(session: Session, liar: Liar) -> None:
    session.store.write(entry(session.server))
    liar.endpoint = Response(b" " * (MOST_BYTES + 1))
    assert (await post(session, None)).status_code == 200
    liar.endpoint = StreamingResponse(endless(), 200, media_type="application/json")
    with pytest.raises(ServerError, match=f"is longer than {MOST_BYTES_OF_A_CALL:,} bytes"):
        await post(session, None)


@pytest.mark.parametrize("seconds", [10**18, 10**12, -1, -(10**18), 0, 3600])
async def test_a_lifetime_that_is_no_time_can_be_shown(
    session: Session, visitor: Visitor, liar: Liar, seconds: int
) -> None:
    """One sign-in at such an issuer, and `guideway login --show` had nothing to say of all the others."""
    liar.token = JSONResponse({"access_token": "a", "token_type": "Bearer", "expires_in": seconds})
    kept = await attempt(session, visitor)
    assert Entry.model_validate_json(kept.model_dump_json()) == kept
    assert _lasts(kept)
    assert _document(kept)["server"] == session.server
    if seconds > 10**10:
        assert kept.expires_at is None
    else:
        assert kept.expires_at == pytest.approx(time.time() + max(seconds, 0), abs=600)
    assert end_of(kept.tokens) is None or kept.lasts() == (seconds > 0)


@pytest.mark.parametrize("seconds", ["1e400", "NaN", "1.5", '"soon"', "1" + "0" * 400, "-1" + "0" * 400])
async def test_a_lifetime_that_is_no_number_of_seconds_is_no_answer(
    session: Session, visitor: Visitor, liar: Liar, seconds: str
) -> None:
    said = f'{{"access_token": "a", "token_type": "Bearer", "expires_in": {seconds}}}'
    liar.token = Response(said, media_type="application/json")
    with pytest.raises(SignInError, match="an answer that cannot be used"):
        await attempt(session, visitor)
    assert nothing_is_kept(session)


@pytest.mark.parametrize("wrong", [1e18, -1.0, float("inf")])
def test_an_end_that_is_no_time_is_no_kept_sign_in(wrong: float) -> None:
    """One that an earlier version kept, say: it is said which file to remove."""
    kept = json.loads(entry().model_dump_json())
    with pytest.raises(ValueError, match="expires_at"):
        Entry.model_validate({**kept, "expires_at": wrong})

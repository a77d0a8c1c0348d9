"""Sessions of the page, in memory and in the real store: how long they last, and what of them is kept."""

from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from guideway.interpreter.records import Records, StoreUnavailable
from guideway.interpreter.store import open_store
from guideway.server.approvals.visitors import MOST_SECONDS, Visitors
from tests.server.approvals.records import RecordsInMemory
from tests.server.approvals.world import APPROVER

pytestmark = pytest.mark.anyio
NOON = 1_800_000_000.0


@pytest.fixture(params=["memory", "folder"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records]:
    """Return records that keep sessions."""
    made: Records = RecordsInMemory() if request.param == "memory" else open_store(folder=tmp_path)[0]
    yield made
    await made.close()


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("expires_at", "lasts"), [(NOON + 600, 600), (NOON + 86_400, MOST_SECONDS), (None, 3_600)])
async def test_a_session_ends_with_its_token_and_within_the_hour(
    records: Records, expires_at: float | None, lasts: float
) -> None:
    clock = Clock()
    visitors = Visitors(records, clock)
    ada = replace(APPROVER, tenant="red", expires_at=expires_at)
    cookie = await visitors.open(ada)
    clock.now = NOON + lasts - 1
    found = await visitors.find(cookie)
    assert found is not None
    assert found.principal == replace(ada, expires_at=NOON + lasts)
    clock.now = NOON + lasts
    assert await visitors.find(cookie) is None


async def test_sessions_are_apart_and_end_each_by_itself(records: Records) -> None:
    visitors = Visitors(records, Clock())
    first, second = await visitors.open(APPROVER), await visitors.open(APPROVER)
    one, other = await visitors.find(first), await visitors.find(second)
    assert one is not None
    assert other is not None
    assert one.knows(one.stamp)
    assert not one.knows(other.stamp)
    await visitors.close(first)
    assert await visitors.find(first) is None
    assert await visitors.find(second) is not None


@pytest.mark.parametrize("cookie", ["", "x", "x" * 43, "\u00e9" * 43, "x" * 5_000])
async def test_a_cookie_that_was_never_given_is_nobodys(records: Records, cookie: str) -> None:
    assert await Visitors(records, Clock()).find(cookie) is None


async def test_what_is_kept_opens_nothing() -> None:
    records = RecordsInMemory()
    visitors = Visitors(records, Clock())
    cookie = await visitors.open(APPROVER)
    [kept] = records.sessions.kept
    assert kept == sha256(cookie.encode()).hexdigest()
    assert cookie not in repr(records.sessions.kept)
    assert await visitors.find(kept[:43]) is None


async def test_without_a_store_nobody_is_signed_in() -> None:
    nowhere: Any = object()
    for records in (None, nowhere):
        with pytest.raises(StoreUnavailable):
            await Visitors(records, Clock()).open(APPROVER)

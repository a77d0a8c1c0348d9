"""The store's time: it only goes on. A clock that was set back revives nothing, and bars nothing for ever."""

import logging
import time

import pytest

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Ticket, TicketState, Undecidable
from guideway.interpreter.notices import Event
from guideway.interpreter.quotas import DAY, HOUR
from guideway.interpreter.store import Store
from tests.store.conftest import Place
from tests.store.questions import APPROVER, BINDING, NOW, allowance, question

pytestmark = pytest.mark.anyio


async def asked(store: Store, now: float) -> Ticket:
    return await store.ask(question(), now, lifetime=300, most_open=20)


async def test_what_has_expired_stays_so_and_whoever_looked_first_has_said_it(place: Place) -> None:
    """A look is enough: afterwards the clock may say what it wants, within what replicas differ by."""
    store = place.store
    made = await asked(store, NOW)
    for now in (NOW + 300, NOW + 299, NOW + 295):
        seen = await store.ticket(made.id, now)
        assert seen is not None
        assert seen.state is TicketState.EXPIRED
    with pytest.raises(Undecidable):
        await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW + 299)
    await store.close()


async def test_a_replica_that_is_a_little_behind_is_taken_to_be_at_the_stores_time(place: Place) -> None:
    ahead, behind = place.store, place.store
    made = await asked(ahead, NOW)
    await ahead.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW + 299)
    seen = await behind.ticket(made.id, NOW + 290)
    assert seen is not None
    assert seen.state is TicketState.APPROVED
    assert (await asked(behind, NOW + 290)).id == made.id
    other = await behind.ask(question(digest="2"), NOW + 290, lifetime=300, most_open=20)
    assert other.created_at == NOW + 299
    for store in (ahead, behind):
        await store.close()


@pytest.mark.parametrize("look", ["ticket", "tickets", "use", "decide", "ask"])
async def test_a_clock_set_back_ends_every_open_ticket(
    place: Place, look: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = place.open({"ops": {Event.EXPIRED}})[0]
    made = await asked(store, NOW)
    await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW + 100)
    back = NOW + 50
    match look:
        case "ticket":
            await store.ticket(made.id, back)
        case "tickets":
            await store.tickets(None, back)
        case "use":
            refused = await store.use(made.id, BINDING, "run", [], back)
            assert isinstance(refused, tuple)
            assert refused[0] is Code.APPROVAL_EXPIRED
        case "decide":
            with pytest.raises(Undecidable):
                await store.decide(made.id, approve=True, by=APPROVER, reason="", now=back)
        case _:
            assert (await asked(store, back)).id != made.id
    for now in (back, back + 51, back + 1_000):
        seen = await store.ticket(made.id, now)
        assert seen is not None
        assert seen.state is TicketState.EXPIRED
    told = await store.outbox.claim(back + 1_000, 9, "ops")
    assert told[0].event["ticket"] == made.id
    assert "the clock is 50 s behind" in caplog.text
    await store.close()


async def test_a_clock_that_jumped_ahead_and_back_bars_nothing_for_as_long_as_it_jumped(place: Place) -> None:
    store = place.store
    year = 365 * DAY
    await store.reserve("1", [allowance(5, seconds=60)], NOW + year)
    assert len(await store.reserve("2", [allowance(1)], NOW)) == 1  # as made now
    assert len(await store.reserve("3", [allowance(1)], NOW + HOUR)) == 1  # it may have run for a minute
    assert await store.reserve("4", [allowance(5)], NOW + HOUR + 61) == []
    made = await asked(store, NOW + HOUR + 61)
    assert made.expires_at == NOW + HOUR + 61 + 300
    await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW + HOUR + 62)
    assert isinstance(await store.use(made.id, BINDING, "run", [], NOW + HOUR + 63), Ticket)
    await store.close()


async def test_a_clock_set_back_signs_visitors_out_and_lets_notices_be_due(place: Place) -> None:
    store = place.open({"ops": {Event.PENDING}})[0]
    await asked(store, NOW)
    (notice,) = await store.outbox.claim(NOW, 9, "ops")
    await store.outbox.again(notice.id, NOW + 600, "refused")
    await store.sessions.put("visitor", {"subject": "ada"}, NOW + 300)
    assert await store.sessions.get("visitor", NOW) == {"subject": "ada"}
    assert await store.sessions.get("visitor", NOW - 100) is None
    assert await store.sessions.get("visitor", NOW) is None
    assert [each.id for each in await store.outbox.claim(NOW - 90, 9, "ops")] == [notice.id]
    await store.close()


async def test_who_waited_long_for_the_store_has_no_clock_that_was_set_back(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The wall clock is read when a program comes; its transaction may begin much later."""
    store = place.store
    made = await asked(store, NOW)
    await store.decide(made.id, approve=True, by=APPROVER, reason="", now=NOW + 200)
    since = time.monotonic() - 200
    seen = store.opened.write_here(lambda calls, work: calls.find(work.connection, made.id), NOW, since)
    assert seen is not None
    assert seen.state is TicketState.APPROVED
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    await store.close()

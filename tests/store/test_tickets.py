"""Tickets in the store: the same on SQLite and on PostgreSQL."""

from dataclasses import replace
from typing import Any

import pytest

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Ticket, TicketState, Undecidable, Who
from guideway.interpreter.records import TooManyOpen
from guideway.interpreter.store import Store
from tests.store.conftest import Place
from tests.store.questions import APPROVER, ASKER, BINDING, NOW, allowance, question

pytestmark = pytest.mark.anyio


async def asked(store: Store, now: float = NOW, **bound: Any) -> Ticket:
    return await store.ask(question(**bound), now, lifetime=300, most_open=20)


async def approved(store: Store, now: float = NOW) -> Ticket:
    return await store.decide((await asked(store, now)).id, approve=True, by=APPROVER, reason="go", now=now)


async def test_a_ticket_is_what_was_asked_and_outlives_the_process(place: Place) -> None:
    store = place.store
    made = await asked(store)
    assert made == Ticket(made.id, question(), NOW, NOW + 300, TicketState.PENDING)
    await store.close()
    again = place.store
    assert await again.ticket(made.id, NOW + 1) == made
    assert await again.ticket("another", NOW) is None
    await again.close()


async def test_asking_again_gives_the_open_ticket_and_a_new_one_once_it_is_used_or_over(place: Place) -> None:
    store = place.store
    first = await asked(store)
    assert (await asked(store)).id == first.id
    await store.decide(first.id, approve=True, by=APPROVER, reason="", now=NOW + 1)
    known = await asked(store, NOW + 2)
    assert (known.id, known.state) == (first.id, TicketState.APPROVED)
    assert isinstance(await store.use(first.id, BINDING, "run", [], NOW + 3), Ticket)
    second = await asked(store, NOW + 4)
    third = await asked(store, NOW + 400)
    assert len({first.id, second.id, third.id}) == 3
    await store.close()


@pytest.mark.parametrize(
    "other",
    [
        {"digest": "e" * 64},
        {"policy": "policy-2"},
        {"tenant": "red"},
        {"who": replace(ASKER, client=None)},
        {"who": replace(ASKER, subject="olga")},
        {"break_glass": "it burns"},
    ],
)
async def test_another_binding_is_another_ticket(place: Place, other: dict[str, Any]) -> None:
    store = place.store
    first, second = await asked(store), await asked(store, **other)
    assert first.id != second.id
    assert [(await asked(store)).id, (await asked(store, **other)).id] == [first.id, second.id]
    await store.close()


async def test_a_person_has_so_many_open_whatever_clients_they_use(place: Place) -> None:
    store = place.store
    for number in range(3):
        theirs = question(digest=str(number), who=replace(ASKER, client=str(number)))
        await store.ask(theirs, NOW, lifetime=9, most_open=3)
    with pytest.raises(TooManyOpen, match=r"^3 tickets of yours"):
        await store.ask(question(digest="more"), NOW, lifetime=9, most_open=3)
    other = question(digest="more", who=replace(ASKER, subject="olga"))
    await store.ask(other, NOW, lifetime=9, most_open=3)
    await store.ask(question(digest="more"), NOW + 9, lifetime=9, most_open=3)
    await store.close()


@pytest.mark.parametrize("approve", [True, False])
async def test_one_decision_counts_and_is_kept_with_who_made_it(place: Place, approve: bool) -> None:
    store = place.store
    made = await asked(store)
    decided = await store.decide(made.id, approve=approve, by=APPROVER, reason=" as \n planned\x1b", now=NOW + 5)
    assert decided.state is (TicketState.APPROVED if approve else TicketState.DENIED)
    assert (decided.decided_at, decided.decided_by, decided.reason) == (NOW + 5, APPROVER, "as planned\ufffd")
    for again in (True, False):
        with pytest.raises(Undecidable) as undecidable:
            await store.decide(made.id, approve=again, by=APPROVER, reason="", now=NOW + 6)
        assert undecidable.value.code is Undecidable.Why.DECIDED
    assert await store.ticket(made.id, NOW + 7) == decided
    await store.close()


async def test_what_is_unknown_or_over_cannot_be_decided_on(place: Place) -> None:
    store = place.store
    made = await asked(store)
    for ticket_id, now, why in (
        ("unknown", NOW, Undecidable.Why.UNKNOWN),
        (made.id, NOW + 300, Undecidable.Why.EXPIRED),
    ):
        with pytest.raises(Undecidable) as undecidable:
            await store.decide(ticket_id, approve=True, by=APPROVER, reason="", now=now)
        assert undecidable.value.code is why
    await store.close()


async def test_a_ticket_lets_one_run_and_says_so_to_the_next(place: Place) -> None:
    store = place.store
    made = await approved(store)
    used = await store.use(made.id, BINDING, "run-1", [], NOW + 1)
    assert isinstance(used, Ticket)
    assert (used.state, used.used_at, used.run_id) == (TicketState.USED, NOW + 1, "run-1")
    assert await store.use(made.id, BINDING, "run-2", [], NOW + 2) == (
        Code.APPROVAL_USED,
        "this ticket was used already, by run run-1",
    )
    await store.settle("run-1", {}, "completed", NOW + 3)
    kept = await store.ticket(made.id, NOW + 9_999)
    assert kept is not None
    assert (kept.outcome, kept.state) == ("completed", TicketState.USED)
    await store.close()


async def test_who_may_not_use_it_leaves_it_and_its_allowances_as_they_were(place: Place) -> None:
    store = place.store
    made = await approved(store)
    refused = await store.use(made.id, replace(BINDING, tenant="red"), "run-1", [allowance(5)], NOW)
    assert isinstance(refused, tuple)
    assert refused[0] is Code.APPROVAL_OTHER_CALLER
    assert await store.use("none", BINDING, "run-2", [], NOW) == (Code.APPROVAL_UNKNOWN, "there is no such ticket")
    assert await store.reserve("run-3", [allowance(5)], NOW) == []
    assert isinstance(await store.use(made.id, BINDING, "run-4", [allowance(5)], NOW), Ticket)
    assert len(await store.reserve("run-5", [allowance(1)], NOW)) == 1
    await store.close()


async def test_a_tenant_sees_its_own_the_newest_first(place: Place) -> None:
    store = place.store
    first, second = await asked(store, digest="1"), await asked(store, NOW + 1, digest="2")
    other = await asked(store, NOW + 2, tenant="red")
    denied = await store.decide(first.id, approve=False, by=APPROVER, reason="no", now=NOW + 3)
    assert await store.tickets(None, NOW + 3) == [second, denied]
    assert await store.tickets(None, NOW + 3, most=1) == [second]
    assert await store.tickets(None, NOW + 3, states=[TicketState.DENIED]) == [denied]
    assert await store.tickets("red", NOW + 3) == [other]
    assert await store.tickets("blue", NOW + 3) == []
    assert await store.tickets(None, NOW + 301, states=[TicketState.PENDING]) == []
    await store.close()


async def test_what_a_token_says_of_a_person_is_kept_as_it_is(place: Place) -> None:
    """Names of other people's systems are long, empty, and not in ASCII."""
    store = place.store
    who = Who("https://login.example/" + "x" * 2_000, "мона 🦊'\"; DROP TABLE guideway_tickets", "")
    made = await asked(store, who=who)
    found = await store.ticket(made.id, NOW)
    assert found is not None
    assert found.question.binding.who == who
    await store.close()

"""So many requests, and such long ones, that people do not see or cannot do what they should.

The story: several agents ask for whatever comes to their mind, again and again, in programs as long as they may be. The
request of a colleague must not go under in that, the page must not become what the server does all day, and the store
must not come upon a statement that is too long for it.
"""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from guideway.interpreter.approvals import MOST_WORDS, TicketState, new_id
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.notices import Event
from guideway.interpreter.results import Reason, Status
from guideway.interpreter.store import open_store
from guideway.interpreter.store.tables import TICKETS
from guideway.interpreter.weighing import NOTHING_ASKED
from guideway.server.approvals.desk import MOST_TICKETS
from guideway.server.approvals.view import facts
from guideway.server.cli.tickets import TicketsHere, find, what_there_is
from tests.interpreter.gated import MONA, Clock, gated
from tests.server.approvals.site import Person, serving
from tests.server.approvals.world import APPROVER, World
from tests.store.conftest import Place, place, server  # noqa: F401  # fixtures
from tests.store.questions import BINDING, NOW, question

pytestmark = pytest.mark.anyio


async def test_what_waits_is_not_hidden_by_what_came_later(tmp_path: Path) -> None:
    world = World()
    first = await world.ask()
    flood = [TicketState.PENDING] * 60 + [TicketState.DENIED] * 60 + [TicketState.EXPIRED] * 60
    for later, state in enumerate(flood):
        made = replace(first, id=new_id(), created_at=first.created_at + 1 + later, state=state)
        world.records.kept[made.id] = made
    async with serving(world, tmp_path) as site, Person(site) as ada:
        assert f"/approvals/{first.id}" in (await ada.sign_in("ada")).text
        assert f"/approvals/{first.id}" in (await ada.open("/live?version=other")).text


async def test_what_waits_is_not_hidden_in_the_shell_either() -> None:
    world = World()
    first = await world.ask()
    for later in range(2 * MOST_TICKETS):
        made = replace(first, id=new_id(), created_at=first.created_at + 1 + later, state=TicketState.DENIED)
        world.records.kept[made.id] = made
    tickets = TicketsHere(world.pipeline, APPROVER)
    assert (await what_there_is(tickets, 50))[0]["ticket"] == first.id
    assert (await find(tickets, first.id[:8], whole=False))["ticket"] == first.id


async def test_where_more_waits_than_is_shown_the_list_says_so(tmp_path: Path) -> None:
    world = World()
    first = await world.ask()
    async with serving(world, tmp_path) as site, Person(site) as ada:
        assert "More wait than are shown" not in (await ada.sign_in("ada")).text
        for _ in range(MOST_TICKETS):
            made = replace(first, id=new_id())
            world.records.kept[made.id] = made
        assert "More wait than are shown" in (await ada.open()).text


async def test_a_browser_that_asks_again_and_again_costs_no_programs_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open pages ask every two seconds, and long programs take a while to be read."""
    world, read = World(), 0
    ticket = await world.ask()

    def counted(*given: Any) -> Any:
        nonlocal read
        read += 1
        return facts(*given)

    monkeypatch.setattr("guideway.server.approvals.desk.facts", counted)
    async with serving(world, tmp_path) as site, Person(site) as ada:
        page = (await ada.sign_in("ada")).text
        version = page.partition('data-version="')[2].partition('"')[0]
        before = read
        assert before > 0
        for path in (f"/live?version={version}", f"/{ticket.id}/live?version=pending-"):
            assert (await ada.open(path)).status_code == 204
        assert read == before


async def test_no_statement_names_more_than_a_database_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tickets end at once, and more services are looked back on, than one statement can name."""
    connect, most = sqlite3.connect, 6_000

    def bounded(*given: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **more)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most)
        return connection

    monkeypatch.setattr("sqlite3.dbapi2.connect", bounded)
    store, _ = open_store(folder=tmp_path / "store")
    try:
        made = await store.ask(question(), NOW, lifetime=300, most_open=20)

        def flood(_: Any, connection: sa.Connection) -> None:
            row = dict(connection.execute(sa.select(TICKETS)).mappings().one())
            connection.execute(TICKETS.insert(), [row | {"id": new_id()} for _ in range(most + 1)])

        await store.opened.change(flood)
        seen = await store.ticket(made.id, NOW + 301)
        assert seen is not None
        assert seen.state is TicketState.EXPIRED
        assert await store.tickets(BINDING.tenant, NOW + 301, states=[TicketState.PENDING]) == []
        assert await store.history(None, [f"web-{number}" for number in range(2 * most)]) == []
    finally:
        await store.close()


async def test_a_long_program_that_is_lost_bars_nobody_for_longer_than_it_could_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand restarts would take a day, and the pipeline ends after minutes: nothing counts as made after that."""
    clock = Clock(monkeypatch)
    async with gated(tmp_path) as world:
        admitted = world.pipeline.admit('RESTART "hourly" ' * 5, MONA)
        assert admitted.worst_case.seconds == world.pipeline.deadlines.pipeline
        await world.gate.clear(admitted.candidate(MONA, NOTHING_ASKED, "lost"))
        clock.pass_(world.pipeline.deadlines.pipeline + 3_590)
        assert (await world.run('RESTART "hourly"')).status is Status.REFUSED
        clock.pass_(20)
        assert (await world.run('RESTART "hourly"')).status is Status.COMPLETED
        asked = await world.ask('RESTART "hard" ' * 1_000)
        assert asked.question.seconds == world.pipeline.deadlines.pipeline


async def test_words_that_no_database_takes_hold_up_nothing_that_comes_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver of another package hands on what its service said, half a character and a NUL among it."""
    async with gated(tmp_path) as world:
        driver = world.drivers["harmless"]

        async def fails(*_: object) -> None:
            raise Fault(Reason.NO_PERMISSION, "it said \ud800\x00" + "a" * 10_000)

        with monkeypatch.context() as patch:
            patch.setattr(driver, "restart", fails)
            assert (await world.run('RESTART "harmless"')).status is Status.FAILED
        assert (await world.run('RESTART "other"')).status is Status.COMPLETED
        [said, after] = sorted(await world.store.history(None, ["harmless", "other"]), key=lambda each: each.service)
        assert (said.message or "").startswith("it said \ufffd\ufffda")
        assert len(said.message or "") <= MOST_WORDS
        assert after.outcome == "ok"


async def test_what_runs_unasked_delays_no_question(place: Place) -> None:  # noqa: F811  # the fixture
    """A chat takes a message a second. Thousands of runs that it is told of must not come before a question."""
    store, _ = place.open({"chat": {Event.REVIEW, Event.PENDING}})
    try:
        for number in range(40):
            store.outbox.enqueue({"event": Event.REVIEW.value, "at": NOW, "run_id": f"run-{number}"})
        assert len(await store.outbox.claim(NOW + 1e9, 4, "chat")) == 4
        made = await store.ask(question(), NOW + 1e9, lifetime=300, most_open=20)
        *others, last = await store.outbox.claim(NOW + 1e9, 4, "chat")
        assert last.event["ticket"] == made.id
        assert [each.event["run_id"] for each in others] == ["run-4", "run-5", "run-6"]
    finally:
        await store.close()

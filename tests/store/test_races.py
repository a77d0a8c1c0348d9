"""Many processes and one ticket: one run, one decision, and never an effect twice or without a record."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import sample
from typing import Any

import anyio
import pytest

from guideway.interpreter.approvals import Ticket, TicketState, Undecidable
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.weighing import Asked
from tests.store.conftest import Place
from tests.store.questions import NOW, question
from tests.store.racer import ADA, MONA, PROGRAM, STEPS, pipeline

ROOT = Path(__file__).parents[2]
PROCESSES = 4


def asked(place: Place, effects: Path, *, approve: bool) -> Ticket:
    """Return a ticket for the program, in a store that is closed again."""

    async def main() -> Ticket:
        store, leases = place.open()
        shared = pipeline(store, leases, str(effects))
        report = await shared.run(PROGRAM, MONA)
        assert isinstance(report.refusal, NeedsApproval)
        ticket = report.refusal.ticket
        if approve:
            ticket = await store.decide(ticket.id, approve=True, by=ADA, reason="", now=time.time())
        await shared.close()
        return ticket

    return anyio.run(main)


def found(place: Place, ticket: Ticket) -> Ticket:
    """Return a ticket as it is kept."""

    async def main() -> Ticket:
        store, leases = place.open()
        kept = await store.ticket(ticket.id, time.time())
        await leases.close()
        await store.close()
        assert kept is not None
        return kept

    return anyio.run(main)


def race(place: Place, effects: Path, jobs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Let a process do each job, all at once; return each one's results."""
    where = json.dumps({name: str(value) for name, value in place.where.items()})
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.racer", where, str(effects), json.dumps(job)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [process.communicate(timeout=120)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_two_hundred_redemptions_of_one_ticket_on_four_processes_are_one_run(place: Place, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    ticket = asked(place, effects, approve=True)
    results = race(place, effects, [{"use": ticket.id, "times": 200 // PROCESSES}] * PROCESSES)
    assert Counter(chain(*results)) == {"completed": 1, "approval_used": 199}
    assert len(effects.read_text().splitlines()) == 1
    assert found(place, ticket).outcome == "completed"


def require_one_outcome(kept: Ticket, decided: Counter[str]) -> None:
    """Fail unless one decision counted, or none because it expired first; ``decided`` counts the answers."""
    assert decided["approved"] + decided["denied"] + (kept.decided_by is None) == 1
    if kept.decided_by is None:
        assert kept.state is TicketState.EXPIRED
        assert set(decided) == {"expired"}
    else:
        said = "approved" if decided["approved"] else "denied"
        assert kept.state.value in {said, "expired"}  # an approved one that nobody used has expired by now
        assert kept.decided_at is not None
        assert kept.decided_at < kept.expires_at


def test_approve_against_refuse_against_expire_is_one_outcome_over_processes(place: Place, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    ticket = asked(place, effects, approve=False)
    over = ticket.expires_at
    results = race(
        place,
        effects,
        [
            {"decide": ticket.id, "approve": True, "times": 10, "at": over - 1},
            {"decide": ticket.id, "approve": False, "times": 10, "at": over - 1},
            {"look": ticket.id, "at": over, "times": 3},
        ],
    )
    decided = Counter(chain(*results[:2]))
    assert decided.total() == 20
    require_one_outcome(found(place, ticket), decided)


@pytest.mark.anyio
async def test_approve_against_refuse_against_expire_is_one_outcome(place: Place) -> None:
    stores = [place.store for _ in range(3)]
    for number in range(12):
        at = NOW + number * 1_000
        ticket = await stores[0].ask(question(digest=str(number)), at, lifetime=300, most_open=20)
        decided: Counter[str] = Counter()

        async def decide(approve: bool, ticket: Ticket = ticket, decided: Counter[str] = decided) -> None:
            try:
                kept = await stores[approve].decide(
                    ticket.id, approve=approve, by=ADA, reason="", now=ticket.expires_at - 1
                )
            except Undecidable as error:
                decided[error.code.value] += 1
            else:
                decided[kept.state.value] += 1

        async def look(ticket: Ticket = ticket) -> None:
            await stores[2].ticket(ticket.id, ticket.expires_at)

        async with anyio.create_task_group() as tasks:
            racing: list[Callable[[], Coroutine[Any, Any, None]]] = [
                partial(decide, True),
                partial(decide, False),
                look,
            ]
            for each in sample(racing, 3):
                tasks.start_soon(each)
        kept = await stores[0].ticket(ticket.id, ticket.expires_at)
        assert kept is not None
        require_one_outcome(kept, decided)
    for store in stores:
        await store.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_between_redemption_and_effect_leaves_one_effect_at_most_and_a_record(
    place: Place, tmp_path: Path, step: str
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    ticket = asked(place, effects, approve=True)
    assert race(place, effects, [{"use": ticket.id, "die": step}]) == [[]]
    after = found(place, ticket)
    done = len(effects.read_text().splitlines())
    redeemed = STEPS.index(step) >= STEPS.index("after use")
    assert done == (STEPS.index(step) >= STEPS.index("after effect"))
    assert (after.state, after.run_id is not None) == (
        (TicketState.USED, True) if redeemed else (TicketState.APPROVED, False)
    )
    assert after.outcome == ("completed" if step == "after settle" else None)

    async def again() -> str:
        store, leases = place.open()
        shared = pipeline(store, leases, str(effects))
        if place.where.get("url"):  # the lease of a killed holder of rows runs out
            await store.opened.change(lambda _, database: database.exec_driver_sql("DELETE FROM guideway_leases"))
        report = await shared.run(PROGRAM, MONA, asked=Asked(ticket=ticket.id))
        await shared.close()
        return report.refusal.diagnostics[0].code.value if report.refusal else report.status.value

    assert anyio.run(again) == ("approval_used" if redeemed else "completed")
    assert len(effects.read_text().splitlines()) == (done if redeemed else 1)

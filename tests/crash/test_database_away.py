"""PostgreSQL stopped and started while replicas are under load: refusals, and then recovery by itself."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import sqlalchemy as sa

from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.store.database import Database
from guideway.interpreter.store.tables import TRAIL
from tests.crash.campaign import Look, Over, Replicas, replicas, seed_of_run
from tests.crash.truth import Answer, Truth
from tests.store import postgresql


@dataclass(frozen=True)
class Outage:
    """From when to when the database was away, by the monotonic clock; ``wall`` is when it went, as records say it."""

    down: float
    wall: float
    up: float


MODES: Final = ("immediate", "fast", "immediate")
UNAVAILABLE: Final = {"store_unavailable", "audit_unavailable"}
LONG: Final = 60.0


def until_each(running: Replicas, since: float, count: int, *wanted: Callable[[Answer], bool]) -> None:
    """Return when each replica has given so many answers of every kind since a moment."""
    give_up = time.monotonic() + LONG
    while True:
        running.truth.read()
        seen = Counter(
            (answer.process, number)
            for answer in running.truth.answers
            for number, kind in enumerate(wanted)
            if answer.at - answer.seconds > since and kind(answer)
        )
        if all(seen[number, kind] >= count for number in running.living for kind in range(len(wanted))):
            return
        assert not running.truth.failed, running.truth.failed[0]
        assert time.monotonic() < give_up, f"{seen} is all that was answered in {LONG:g} s"
        time.sleep(0.02)


def restarted(answer: Answer) -> bool:
    return any(outcome == "ok" for _, outcome, _ in answer.restarts)


def refused(answer: Answer) -> bool:
    return answer.code in UNAVAILABLE


def read(answer: Answer) -> bool:
    return answer.does == "look" and answer.status == "completed"


def meanwhile(truth: Truth, outages: Sequence[Outage], database: Database) -> Iterator[str]:
    """Nothing was restarted while the database was away but what had its intent on disk before."""
    query = sa.select(TRAIL.c.run_id, TRAIL.c.at).where(TRAIL.c.kind == Kind.RESTART_BEGUN.value)
    with database.read() as connection:
        intents = connection.execute(query).all()
    for outage in outages:
        before = {run for run, at in intents if at < outage.wall}
        for effect in truth.effects:
            if outage.down < effect.began < outage.up and effect.run not in before:
                yield f"run {effect.run} restarted {effect.service} while the database was away"


def told(truth: Truth, outages: Sequence[Outage]) -> Iterator[str]:
    """Whoever asked for a restart while the database was away was told that this is why there is none."""
    for outage in outages:
        for answer in truth.answers:
            asked = answer.at - answer.seconds
            if not outage.down < asked < answer.at < outage.up or answer.does in ("look", "overstep"):
                continue
            failed = [reason for _, outcome, reason in answer.restarts if outcome == "failed"]
            if answer.code not in UNAVAILABLE and set(failed) != {"unknown"}:
                yield f"run {answer.run} ({answer.does}): {answer.status} {answer.code} {answer.restarts}"


def test_a_database_that_goes_away_stops_what_restarts_and_nothing_else(tmp_path: Path) -> None:
    seed = seed_of_run()
    with postgresql.running() as server:
        where = {"url": server.database()}
        outages: list[Outage] = []
        with replicas(where, tmp_path, Random(seed), count=2, reads_without_trail=True) as running:
            until_each(running, 0.0, 3, restarted, read)
            for mode in MODES:
                server.stop(mode)
                down, wall = time.monotonic(), time.time()
                until_each(running, down, 5, refused, read)
                outages.append(Outage(down, wall, time.monotonic()))
                server.start()
                until_each(running, time.monotonic(), 3, restarted, read)
            for number in list(running.living):
                running.kill(number)
            running.hold_all()
        over = Over(running.truth)
        running.truth.read()
        look = Look(where)
        look.afterwards(over)
        over.found("meanwhile", meanwhile(over.truth, outages, look.database))
        over.found("told", told(over.truth, outages))
        look.close()
    said = f"GUIDEWAY_SEED={seed}, {over}"
    print(said)
    assert not over.wrong, f"{said}\n{over.wrong}"

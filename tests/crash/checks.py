"""What must hold, whatever was killed: the truth against itself, and the store against the truth.

Each check returns what is wrong, in words with the run that it is about.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import sqlalchemy as sa

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.store.database import Database
from guideway.interpreter.store.tables import LEASES, TICKETS
from tests.crash.truth import Effect, Truth
from tests.crash.world import AT_ONCE, COOLDOWN, COOLING, GUARDED, LEASE_SECONDS, PER_HOUR

HOUR: Final = 3_600.0


def by(of: Callable[[Effect], str], effects: Iterable[Effect]) -> dict[str, list[Effect]]:
    """Return effects by something, each in the order in which they began."""
    found: dict[str, list[Effect]] = defaultdict(list)
    for effect in sorted(effects, key=lambda each: each.began):
        found[of(effect)].append(effect)
    return found


def at_once(effects: Sequence[Effect]) -> Iterator[str]:
    """Two effects of one unit never at the same time, and of a group or tenant as many as may be."""
    for key, theirs in by(lambda each: each.key, effects).items():
        yield from _above(theirs, key, 1)
    for bound, most in AT_ONCE.items():
        theirs = [effect for effect in effects if bound in effect.bounds]
        yield from _above(theirs, bound, most)


def _above(effects: Sequence[Effect], what: str, most: int) -> Iterator[str]:
    under_way: list[Effect] = []
    for effect in sorted(effects, key=lambda each: each.began):
        under_way = [other for other in under_way if other.ended > effect.began] + [effect]
        if len(under_way) > most:
            runs = ", ".join(each.run for each in under_way)
            yield f"{what}: {len(under_way)} restarts at the same time, of the runs {runs}"


def quotas(effects: Sequence[Effect]) -> Iterator[str]:
    """Restarts of a service within any hour are its quota's at most, and apart by its cool-down."""
    for name, theirs in by(lambda each: each.service, effects).items():
        began = [effect.began for effect in theirs]
        if name.startswith("bounded-"):
            for first, last in zip(began, began[PER_HOUR:], strict=False):
                if last - first < HOUR:
                    yield f"{name}: {PER_HOUR + 1} restarts within {last - first:.3f} s"
        if name in COOLING:
            for before, after in pairwise(theirs):
                if after.began - before.began < COOLDOWN * 0.98:  # wall clocks are slewed
                    yield f"{name}: {after.began - before.began:.3f} s after run {before.run}, run {after.run}"


def tickets(database: Database, truth: Truth) -> Iterator[str]:
    """What needs a person ran once for each yes, for the run that used its ticket, and never without."""
    with database.read() as connection:
        kept = connection.execute(sa.select(TICKETS)).all()
    of_run = {row.run_id: row for row in kept if row.run_id is not None}
    for row in kept:
        used = row.state == TicketState.USED
        if used != (row.run_id is not None):
            yield f"ticket {row.id} is {row.state}, of run {row.run_id}"
        if used and True not in truth.decided.get(row.id, ()):
            yield f"ticket {row.id} was used by run {row.run_id}, and nobody had approved it"
        if row.outcome is not None and not used:
            yield f"ticket {row.id} is {row.state}, with outcome {row.outcome}"
    for run, theirs in by(lambda each: each.run, (each for each in truth.effects if each.service in GUARDED)).items():
        used_by = of_run.get(run)
        if used_by is None:
            yield f"run {run} restarted {theirs[0].service} without a ticket that it used"
        elif used_by.program != f'RESTART "{theirs[0].service}"' or len(theirs) > 1:
            services = [effect.service for effect in theirs]
            yield f"run {run} restarted {services} with the ticket for {used_by.program}"
    told: dict[str, str] = {}
    for answer in truth.answers:
        if answer.ticket is not None and answer.code is None:
            if answer.run not in of_run or of_run[answer.run].id != answer.ticket:
                yield f"run {answer.run} was let through by ticket {answer.ticket}, which says otherwise"
            if told.setdefault(answer.ticket, answer.run) != answer.run:
                yield f"ticket {answer.ticket} let runs {told[answer.ticket]} and {answer.run} through"


def answers(truth: Truth) -> Iterator[str]:
    """What a caller was told was done was done, and was over; what was told to be no effect was none."""
    effects = by(lambda each: each.run, truth.effects)
    for answer in truth.answers:
        seen = [(each.service, each.how) for each in effects.get(answer.run, ())]
        told = [(service, outcome) for service, outcome, reason in answer.restarts if _touched(outcome, reason)]
        if [service for service, _ in seen] != [service for service, _ in told]:
            yield f"run {answer.run} was answered with {told}, and did {seen}"
        for (service, how), (_, outcome) in zip(seen, told, strict=False):
            if outcome == "ok" and how != "done":
                yield f"run {answer.run} was answered with ok, and its restart of {service} was {how}"


def _touched(outcome: str, reason: str | None) -> bool:
    return outcome == "ok" or (outcome == "failed" and reason not in {"busy", "unknown"})


def leases(database: Database) -> Iterator[str]:
    """No row of a lease is good for longer than a lease is."""
    with database.read() as connection:
        if connection.dialect.name != "postgresql":
            return
        rows = connection.execute(sa.select(LEASES)).all()
        now = float(connection.scalar(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))) or 0)  # after them
        for row in rows:
            if row.expires_at > now + LEASE_SECONDS:
                yield f"run {row.run_id} holds {row.key} for {row.expires_at - now:.3f} s more"

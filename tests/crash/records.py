"""What the audit trail says, against what really happened: each effect has its intent, each answer its records.

Each check returns what is wrong, in words with the run that it is about.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.seal import Believed
from guideway.interpreter.audit.verify import Verifier
from guideway.interpreter.store import trail_pages
from guideway.interpreter.store.database import Database
from guideway.interpreter.store.tables import MUTATIONS, TICKETS, TRAIL
from tests.crash.truth import Effect, Truth
from tests.crash.world import SIGNER

_RESTARTS: Final = (Kind.RESTART_BEGUN, Kind.RESTART_ENDED, Kind.RESTART_UNKNOWN)
_NOTHING: Final = {"not_begun", "cancelled"}  # outcomes of a restart that may have reached no driver
_UNKNOWN: Final = "unknown"


def intents(database: Database, effects: Sequence[Effect]) -> Iterator[str]:
    """Each effect has an intent that is on disk: as many restarts of a service as its run had begun, at most.

    The effects are read before: a record that is not there yet came too late.
    """
    runs = {effect.run for effect in effects}
    if not runs:
        return
    found = sa.select(TRAIL.c.run_id, TRAIL.c.body).where(
        TRAIL.c.kind == Kind.RESTART_BEGUN.value, TRAIL.c.run_id.in_(sorted(runs))
    )
    with database.read() as connection:
        begun = Counter((row.run_id, json.loads(row.body)["service"]) for row in connection.execute(found))
    for key, count in Counter((effect.run, effect.service) for effect in effects).items():
        if begun[key] < count:
            yield f"run {key[0]} restarted {key[1]} {count} times, and {begun[key]} intents are recorded"


@dataclass
class OfRun:
    """The records of one run: how often each kind, and of each restart by its number what was recorded of it."""

    kinds: Counter[str] = field(default_factory=Counter)
    status: str | None = None
    restarts: dict[int, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    twice: list[str] = field(default_factory=list)

    @property
    def services(self) -> list[str]:
        """Which services the run was about to restart, in order."""
        begun = (self.restarts[number].get(Kind.RESTART_BEGUN.value) for number in sorted(self.restarts))
        return [each["service"] for each in begun if each is not None]


def of_runs(database: Database) -> dict[str, OfRun]:
    """Return the records of every run."""
    found: dict[str, OfRun] = defaultdict(OfRun)
    with database.read() as connection:
        rows = connection.execute(sa.select(TRAIL).where(TRAIL.c.run_id.is_not(None)).order_by(TRAIL.c.seq)).all()
    for row in rows:
        of_run, body = found[row.run_id], json.loads(row.body)
        of_run.kinds[row.kind] += 1
        if row.kind in _RESTARTS:
            these = of_run.restarts[body["number"]]
            if row.kind in these:
                of_run.twice.append(f"{row.kind} {body['number']}")
            these[row.kind] = body
        elif row.kind in (Kind.RUN_ENDED, Kind.RUN_REFUSED):
            of_run.status = body["status"]
    return found


def once(runs: Mapping[str, OfRun]) -> Iterator[str]:
    """Nothing is recorded twice, and nothing ends that had not begun."""
    for run, records in runs.items():
        for kind in (Kind.RUN_BEGUN, Kind.RUN_ENDED, Kind.RUN_REFUSED, Kind.TICKET_USED):
            if records.kinds[kind] > 1:
                yield f"run {run} has {records.kinds[kind]} records {kind}"
        yield from (f"run {run} has twice {what}" for what in records.twice)
        if records.kinds[Kind.RUN_ENDED] and not records.kinds[Kind.RUN_BEGUN]:
            yield f"run {run} has ended, and had not begun"
        if records.restarts and not records.kinds[Kind.RUN_BEGUN]:
            yield f"run {run} has restarts, and had not begun"
        for number, these in records.restarts.items():
            if Kind.RESTART_BEGUN not in these:
                yield f"restart {number} of run {run} has {sorted(these)}, and had not begun"


def outcomes(truth: Truth, runs: Mapping[str, OfRun]) -> Iterator[str]:
    """What is recorded of each restart is what happened, and of one that was cut off that this is not known."""
    effects: dict[str, list[Effect]] = defaultdict(list)
    for effect in truth.effects:
        effects[effect.run].append(effect)
    for run, records in runs.items():
        theirs = iter(effects.get(run, ()))
        for number in sorted(records.restarts):
            these = records.restarts[number]
            ended, unknown = these.get(Kind.RESTART_ENDED), these.get(Kind.RESTART_UNKNOWN)
            outcome = ended["outcome"] if ended else unknown["outcome"] if unknown else None
            if unknown and unknown["outcome"] != _UNKNOWN:
                yield f"restart {number} of run {run} was lost, and is recorded as {unknown['outcome']}"
            if outcome is None:
                yield f"restart {number} of run {run} has no outcome"
            elif ended and outcome in _NOTHING and ended["message"] in _UNTOUCHED:
                continue
            else:
                yield from _held_against(f"restart {number} of run {run}", outcome, next(theirs, None))
        for effect in theirs:
            yield f"run {run} restarted {effect.service}, which is not recorded"


_UNTOUCHED: Final = {
    "nothing was done to it",
    "nothing was done to it yet",
    "it was waiting for its turn, and nothing was done to it",
    "the audit trail cannot be written now",
}


def _held_against(what: str, outcome: str, effect: Effect | None) -> Iterator[str]:
    if outcome == "ok" and (effect is None or effect.how != "done"):
        yield f"{what} is recorded as ok, and was {effect.how or 'cut off' if effect else 'never there'}"
    if outcome != _UNKNOWN and effect is not None and effect.how is None:
        yield f"{what} is recorded as {outcome}, and its process was lost"


def answered(truth: Truth, runs: Mapping[str, OfRun]) -> Iterator[str]:
    """Whatever was answered is recorded as it was answered."""
    for answer in truth.answers:
        records = runs.get(answer.run)
        kind = Kind.RUN_ENDED if records and records.kinds[Kind.RUN_BEGUN] else Kind.RUN_REFUSED
        if records is None or records.kinds[kind] != 1:
            yield f"run {answer.run} ({answer.does}) was answered with {answer.status}, and has no record {kind}"
        elif records.status != answer.status:
            yield f"run {answer.run} was answered with {answer.status}, and is recorded as {records.status}"


def history(database: Database, truth: Truth, runs: Mapping[str, OfRun]) -> Iterator[str]:
    """The history has each restart once, nothing in it is under way, and it says what the trail does."""
    with database.read() as connection:
        kept = {(row.run_id, row.number): row for row in connection.execute(sa.select(MUTATIONS))}
        tickets = connection.execute(sa.select(TICKETS).where(TICKETS.c.run_id.is_not(None))).all()
    recorded = {(run, number): these for run, records in runs.items() for number, these in records.restarts.items()}
    for run, number in kept.keys() ^ recorded.keys():
        yield f"restart {number} of run {run} is not both in the history and in the trail"
    for key in kept.keys() & recorded.keys():
        ended = recorded[key].get(Kind.RESTART_ENDED)
        told = ended["outcome"] if ended else _UNKNOWN
        if kept[key].outcome != told or kept[key].until is not None:
            yield f"restart {key[1]} of run {key[0]} is {kept[key].outcome} in the history, and {told} in the trail"
    answers = {answer.run: answer.status for answer in truth.answers}
    for row in tickets:
        if row.run_id in answers and row.outcome != answers[row.run_id]:
            yield f"ticket {row.id} says {row.outcome} of run {row.run_id}, which ended {answers[row.run_id]}"
        if runs[row.run_id].kinds[Kind.TICKET_USED] != 1:
            yield f"ticket {row.id} was used by run {row.run_id}, which is not recorded"


def chain(database: Database) -> Iterator[str]:
    """Each trail verifies: whole, signed at its end, and without a gap."""
    with database.read() as connection:
        heads = trail_pages.heads(connection)
        kinds = Counter(connection.scalars(sa.select(TRAIL.c.kind)))
        if {head.trail for head in heads} != {"", "acme"}:
            yield f"there are the trails {[head.trail for head in heads]}"
        for head in heads:
            inside = trail_pages.checkpoints(connection, head.trail)
            verifier = Verifier(head.trail, head, inside=inside, belief=Believed([SIGNER.public]))
            for kept in _all(connection, head.trail):
                verifier.take(kept)
            verdict = verifier.verdict()
            if not verdict.whole or not verdict.proven or verdict.records != head.seq:
                yield f"trail `{head.trail}`: {verdict}"
    if kinds[Kind.TRAIL_GAP]:
        yield f"{kinds[Kind.TRAIL_GAP]} records tell of a gap"


def _all(connection: sa.Connection, trail: str) -> Iterable[Any]:
    after = 0
    while found := trail_pages.records(
        connection, trail, after=after, most=1_000, newest=False, since=None, until=None
    ):
        yield from found
        after = found[-1].seq

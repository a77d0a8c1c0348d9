"""Replicas under load, of which one after the other is killed: the orders to the zygote, and when they are given."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import anyio

from guideway.interpreter.store import open_store
from guideway.interpreter.store.database import open_postgresql, open_sqlite
from tests.crash import checks, records
from tests.crash.truth import Truth, Writer
from tests.crash.world import KEEPING

ROOT: Final = Path(__file__).parents[2]
REPLICAS: Final = 3
MOST_LINES: Final = 24
"""How much happens until the next kill, at most: lines of the truth, of which a restart's run has three."""

LONG: Final = 30.0
"""Seconds after which a campaign is in a hurry: the machine has other things to do."""

LATE: Final = 600.0
"""Seconds after which whatever was under way has ended, or never will."""

CAMPAIGN: Final = -1  # the number under which the campaign itself writes


def seed_of_run() -> int:
    """Return the seed of all that is drawn: ``GUIDEWAY_SEED``, or another one each time."""
    return int(os.environ.get("GUIDEWAY_SEED") or SystemRandom().randrange(2**31))


class Replicas:
    """Replicas of one store. ``truth`` is what they and the campaign have written; each has a number of its own."""

    def __init__(
        self, where: Mapping[str, Any], folder: Path, random: Random, *, fault: str, reads_without_trail: bool
    ) -> None:
        self.truth = Truth(folder / "truth")
        self.living: list[int] = []
        self._writer = Writer(self.truth.path, CAMPAIGN)
        self._random = random
        self._began = time.monotonic()
        self._next = 0
        order = {
            "where": json.dumps({name: str(value) for name, value in where.items()}),
            "truth": str(self.truth.path),
            "fault": fault,
            "reads_without_trail": reads_without_trail,
        }
        with (folder / "log").open("wb") as log:
            self._zygote = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.zygote", json.dumps(order)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._await("ready")

    def fork(self) -> int:
        """Begin another replica; return its number."""
        number = self._next
        self._next += 1
        self._order("fork", number, self._random.randrange(2**31), self._began)
        self.living.append(number)
        return number

    def kill(self, number: int) -> None:
        """Kill a replica, and return when nothing is left of it."""
        sent = time.monotonic()
        self._order("kill", number)
        self.living.remove(number)
        self._writer.write("killed", victim=number, sent=sent)

    def hold_all(self) -> None:
        """Let a process find out whether whatever was held is free again."""
        self._order("hold-all", self._next)
        self._next += 1

    def close(self) -> None:
        """Kill what is left."""
        self._zygote.communicate()
        self._writer.close()

    def _order(self, *words: object) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(f"{' '.join(map(str, words))}\n")
        self._zygote.stdin.flush()
        self._await("done")

    def _await(self, word: str) -> None:
        assert self._zygote.stdout is not None
        line = self._zygote.stdout.readline()
        if line != f"{word}\n":
            raise AssertionError(f"the zygote said {line!r} for {word!r}: its log has why")


@contextmanager
def replicas(
    where: Mapping[str, Any],
    folder: Path,
    random: Random,
    *,
    count: int = REPLICAS,
    fault: str = "",
    reads_without_trail: bool = False,
) -> Iterator[Replicas]:
    """Give replicas that run."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Replicas(where, folder, random, fault=fault, reads_without_trail=reads_without_trail)
    try:
        for _ in range(count):
            running.fork()
        yield running
    finally:
        running.close()


@dataclass
class Over:
    """What a campaign left. ``wrong`` is what did not hold, by check; ``seconds`` is how long the load ran."""

    truth: Truth
    wrong: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def found(self, check: str, wrong: Iterable[str]) -> None:
        """Keep what a check found."""
        new = list(wrong)
        if new:
            self.wrong.setdefault(check, []).extend(new)

    def __str__(self) -> str:
        truth = self.truth
        how = Counter(effect.how or "cut off" for effect in truth.effects)
        told = Counter(f"{answer.status} {answer.code or ''}".strip() for answer in truth.answers)
        return (
            f"{len(truth.killed)} kills in {self.seconds:.0f} s; "
            f"{len(truth.effects)} restarts: {_counted(how)}; {len(truth.answers)} answers: {_counted(told)}"
        )


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counter.most_common())


def campaign(
    where: Mapping[str, Any],
    folder: Path,
    random: Random,
    kills: int,
    *,
    fault: str = "",
    enough: Callable[[Truth], bool] = lambda _: True,
) -> Over:
    """Kill replicas under load, and return what is left when all are dead.

    After so many kills it goes on until what happened is ``enough``, and no longer than half a minute.
    """
    with replicas(where, folder, random, fault=fault) as running:
        over = Over(running.truth)
        since = time.monotonic()
        look: Look | None = None
        for killed in _kills(running, random, kills):
            running.truth.read()
            look = look or Look(where)  # only now: the replicas are the ones who make the store
            look.meanwhile(over)
            if killed >= kills and (enough(running.truth) or time.monotonic() - since > 30):
                break
        for number in list(running.living):
            running.kill(number)
        over.seconds = time.monotonic() - since
        running.hold_all()
    running.truth.read()
    assert look is not None
    look.afterwards(over)
    look.close()
    return over


class Look:
    """Looks at what there is, while replicas are killed and when all are dead."""

    def __init__(self, where: Mapping[str, Any]) -> None:
        self._where = where
        self._looked_at = 0
        self.database = open_sqlite(where["folder"]) if "folder" in where else open_postgresql(where["url"])

    def meanwhile(self, over: Over) -> None:
        """Check what costs little, of the effects that are new."""
        new = over.truth.effects[self._looked_at :]
        self._looked_at += len(new)
        over.found("intents", records.intents(self.database, new))
        over.found("leases", checks.leases(self.database))

    def afterwards(self, over: Over) -> None:
        """Check all."""
        truth = over.truth
        over.found("failed", truth.failed)
        over.found("leases", (f"{place} is still held" for place in truth.stuck))
        looked = {*truth.freed, *truth.stuck}
        over.found("leases", (f"{key} was not looked at" for key in {effect.key for effect in truth.effects} - looked))
        anyio.run(_sweep, self._where)
        over.found("at once", checks.at_once(truth.effects))
        over.found("quotas", checks.quotas(truth.effects))
        over.found("tickets", checks.tickets(self.database, truth))
        over.found("answers", checks.answers(truth))
        runs = records.of_runs(self.database)
        over.found("once", records.once(runs))
        over.found("outcomes", records.outcomes(truth, runs))
        over.found("answered", records.answered(truth, runs))
        over.found("history", records.history(self.database, truth, runs))
        over.found("chain", records.chain(self.database))

    def close(self) -> None:
        """Close the database."""
        self.database.close()


async def _sweep(where: Mapping[str, Any]) -> None:
    """Let time go on until whatever was under way has ended or never will, and a replica look for it."""
    store, leases = open_store(**where, keeping=KEEPING)
    await store.sweep(time.time() + LATE)
    await leases.close()
    await store.close()


def _kills(running: Replicas, random: Random, kills: int) -> Iterator[int]:
    """Kill replicas, one after the other, with another one in its place after each, for ever.

    Gives how many it has killed, for what is to be looked at meanwhile. Once in a while all die together, as long as
    that is not beyond ``kills``.
    """
    done, since = 0, time.monotonic()
    while True:
        quick = time.monotonic() - since > LONG
        _until(running.truth, random.randrange(MOST_LINES), 0.1 if quick else 1.0)
        time.sleep(random.uniform(0, 0.02))  # an instant between two lines
        together = random.random() < 0.02 and done + len(running.living) <= kills
        for victim in list(running.living) if together else [random.choice(running.living)]:
            running.kill(victim)
            done += 1
        while len(running.living) < REPLICAS:
            running.fork()
        yield done


def _until(truth: Truth, lines: int, longest: float) -> None:
    """Return when so much more has happened, or after so many seconds: a slow machine's replicas are killed later."""
    truth.read()
    until, give_up = truth.lines + lines, time.monotonic() + longest
    while truth.lines < until and time.monotonic() < give_up:
        time.sleep(0.001)
        truth.read()

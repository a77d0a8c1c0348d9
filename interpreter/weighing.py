"""What the gate for impact weighs: its rules, a program on its way through it, that program's tier, and what closes it.

Asks no store and nobody, and decides nothing: that is ``impact``'s.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from guideway.dsl.analysis import Analysis, WorstCase
from guideway.dsl.ast import Command, Restart
from guideway.dsl.errors import Code, Diagnostic
from guideway.interpreter.approvals import LIFETIME, Cause, Need
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.quotas import Overrun
from guideway.interpreter.risk import NO_QUOTA, Quota, Tier


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a tenant may do, or who belongs to none: restarts in a time, and at once. None is no bound."""

    quota: Quota = NO_QUOTA
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What is configured of the gate, beside what the inventory says of each service. Times are in seconds.

    ``policy`` is, by tenant, the version of all that decides on a program there: a ticket made under another one is
    void. ``groups`` says how many services of each may be restarted at once. ``wait`` is how long a restart waits for
    another one that is in its way. ``can_ask`` says whether there is anybody who may approve what a caller asks for.
    """

    policy: Mapping[str | None, str] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str | None, Bounds] = field(default_factory=dict)
    lifetime: float = LIFETIME
    wait: float = 30.0
    most_open: int = 20
    own_requests: bool = False
    can_ask: Callable[[Principal], bool] = lambda _: False


DEFAULT_RULES: Final = Rules()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller adds to a program. ``ticket`` is the id of one that a person has approved.

    ``break_glass`` is the caller's reason to ask for a run in spite of a freeze. ``client_says`` is what the client
    calls itself, ``model_says`` which model it says to have written the program. ``door`` is by which way it came.
    ``idempotency_key`` is for a call that may be sent again (``repeats``).
    """

    ticket: str | None = None
    break_glass: str | None = None
    client_says: str | None = None
    model_says: str | None = None
    door: str | None = None
    idempotency_key: str | None = None


NOTHING_ASKED: Final = Asked()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that gates 1 and 2 let through, on its way through this one. ``now`` is when it came.

    ``since`` is the same instant by the monotonic clock. A run ends after ``longest`` seconds, whatever it has done.
    """

    analysis: Analysis
    worst_case: WorstCase
    inventory: Inventory
    caller: Principal
    asked: Asked
    run_id: str
    now: float
    since: float = field(default_factory=time.monotonic)
    longest: float = math.inf

    @property
    def seconds(self) -> float:
        """How long the run may take."""
        return min(self.worst_case.seconds, self.longest)

    @property
    def later(self) -> float:
        """The time now: what is asked of a store after it was waited for is not asked as of when the program came."""
        return self.now + time.monotonic() - self.since


@dataclass(frozen=True, slots=True)
class Weighed:
    """A program's highest tier, each of its mutations that has it with the source of that, and each mutation's tier."""

    tier: Tier
    causes: tuple[Cause, ...]
    tiers: Mapping[tuple[str, str], Tier]

    def of(self, target: str) -> Tier:
        """Return the tier of restarting a service; the program's for what is no service, such as a tenant."""
        return self.tiers.get((Restart.keyword, target), self.tier)

    def above_quota(self, overruns: Iterable[Overrun]) -> tuple[Cause, ...]:
        """Return why a person is asked where a program would go beyond quotas."""
        return tuple(Cause(Restart.keyword, run.label, self.of(run.label), run.message, Need.QUOTA) for run in overruns)

    def frozen(self, closed: Mapping[str, Diagnostic]) -> tuple[Cause, ...]:
        """Return why a person is asked where services are closed."""
        return tuple(
            Cause(Restart.keyword, name, self.of(name), why.message, Need.FROZEN) for name, why in closed.items()
        )


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What stands between a program and its run: its tier, what may not be changed now, and quotas it would go beyond.

    ``closed`` says why of each service, by name.
    ``looked`` says whether the uses that count against quotas were looked at, where there is any quota.
    """

    weighed: Weighed
    closed: Mapping[str, Diagnostic]
    overruns: tuple[Overrun, ...]
    looked: bool


def weigh(analysis: Analysis, inventory: Inventory) -> Weighed:
    """Return the tier of a program: the highest of its commands, those included that may not run."""
    causes = []
    for command, name in sorted(analysis.targets, key=lambda each: (each[1], each[0].keyword)):
        if command.mutates:
            effective = inventory.service(name).risk.effective(command)
            causes.append(Cause(command.keyword, name, effective.tier, effective.source))
    tier = max((cause.tier for cause in causes), default=Tier.SAFE)
    tiers = {(cause.command, cause.target): cause.tier for cause in causes}
    return Weighed(tier, tuple(cause for cause in causes if cause.tier == tier), tiers)


def mutations(worst_case: WorstCase) -> Counter[str]:
    """Return how often each service is restarted at most."""
    return Counter({name: times for (keyword, name), times in worst_case.targets.items() if keyword == Restart.keyword})


def closed(candidate: Candidate) -> dict[str, Diagnostic]:
    """Return why, of each service that may not be changed now, at the first command that would."""
    found: dict[str, Diagnostic] = {}
    for command in candidate.analysis.commands:
        if command.mutates and command.target not in found:
            why = candidate.inventory.service(command.target).calendar.closed(candidate.now)
            if why is not None:
                found[command.target] = frozen(command, why)
    return found


def frozen(command: Command, why: str) -> Diagnostic:
    """Say that what a command names may not be changed now."""
    return Diagnostic(Code.FROZEN, f"`{command.target}` is {why}", command.target_span)

"""The risk model: how much a person has to know of a command before it runs. Pure; asks nobody.

A tier has two sources, the command's own and what the inventory says of the service. The effective tier is the highest
of them, and nothing lowers one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from guideway.dsl.ast import Command

#: The version of the rules in this file, which doors state when a client connects. It changes when a tier might.
MODEL_VERSION: Final = "1"


class Tier(IntEnum):
    """What a command's run asks for; a higher one asks for more."""

    SAFE = 0  # reads
    CAUTION = 1  # changes state; runs
    REVIEW = 2  # runs, and people are told
    APPROVAL_REQUIRED = 3  # a person says yes first

    @property
    def label(self) -> str:
        """Return its name as it is shown."""
        return self.name.lower()


class Impact(StrEnum):
    """How much hangs on a service."""

    LOW = "low"
    HIGH = "high"


class Reversibility(StrEnum):
    """How a restart of a service that goes wrong can be made good."""

    EASY = "easy"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class Quota:
    """How often one service may be restarted before a person is asked; None is no bound.

    ``cooldown`` is the seconds between two restarts.
    """

    per_hour: int | None = None
    per_day: int | None = None
    cooldown: float = 0.0

    @property
    def bounds(self) -> bool:
        """Say whether anything is bounded."""
        return self.per_hour is not None or self.per_day is not None or self.cooldown > 0


NO_QUOTA: Final = Quota()
#: What holds for a service of high impact whose restart is easily made good, where nothing else is configured.
HIGH_AND_EASY: Final = Quota(per_hour=5, per_day=20, cooldown=60.0)


@dataclass(frozen=True, slots=True)
class TierSource:
    """A tier, and what it comes from, in words such as ``impact high, reversibility hard``."""

    tier: Tier
    source: str


@dataclass(frozen=True, slots=True)
class Risk:
    """What the inventory says of mutations of one service. What is not stated is high and hard.

    ``tier`` can only raise, and ``critical`` pins the highest tier; ``why_weaker`` says what a configuration got wrong.
    ``quota`` None is the default of the quadrant.
    """

    impact: Impact | None = None
    reversibility: Reversibility | None = None
    tier: Tier | None = None
    critical: bool = False
    quota: Quota | None = None

    @property
    def quadrant(self) -> TierSource:
        """The tier of impact and reversibility."""
        impact, reversibility = self.impact or Impact.HIGH, self.reversibility or Reversibility.HARD
        unstated = [
            word for word, stated in (("impact", self.impact), ("reversibility", self.reversibility)) if stated is None
        ]
        source = f"impact {impact}, reversibility {reversibility}"
        if unstated:
            source += f" ({' and '.join(unstated)} not stated)"
        match impact, reversibility:
            case Impact.LOW, Reversibility.EASY:
                return TierSource(Tier.CAUTION, source)
            case Impact.LOW, Reversibility.HARD:
                return TierSource(Tier.REVIEW, source)
            case Impact.HIGH, Reversibility.EASY:
                return TierSource(Tier.CAUTION, f"{source}: asks a person above its quota only")
            case _:
                return TierSource(Tier.APPROVAL_REQUIRED, source)

    @property
    def limits(self) -> Quota:
        """The quota that holds."""
        if self.quota is not None:
            return self.quota
        high_and_easy = self.impact is not Impact.LOW and self.reversibility is Reversibility.EASY
        return HIGH_AND_EASY if high_and_easy else NO_QUOTA

    @property
    def why_weaker(self) -> str | None:
        """Say how what is stated would weaken the model, None where it does not."""
        if self.tier is None:
            return None
        if self.critical and self.tier is not Tier.APPROVAL_REQUIRED:
            return f"is {self.tier:d}, and a critical service has tier {Tier.APPROVAL_REQUIRED:d}"
        if self.tier < self.quadrant.tier:
            return f"is {self.tier:d}, and {self.quadrant.source} is tier {self.quadrant.tier:d}: a tier only raises"
        return None

    def sources(self, command: type[Command]) -> Iterator[TierSource]:
        """Yield everything that a command's tier comes from, for this service."""
        yield own_tier(command)
        if command.mutates:
            yield self.quadrant
            if self.tier is not None:
                yield TierSource(self.tier, f"tier {self.tier:d} stated")
            if self.critical:
                yield TierSource(Tier.APPROVAL_REQUIRED, "critical")

    def effective(self, command: type[Command]) -> TierSource:
        """Return the tier that holds for a command, and what it comes from; of equal ones the last that is stated."""
        return max(reversed(list(self.sources(command))), key=lambda each: each.tier)


#: What a service has of which nothing is stated: the highest tier.
UNSTATED: Final = Risk()
#: Low impact, easily made good: restarts ask nobody.
HARMLESS: Final = Risk(impact=Impact.LOW, reversibility=Reversibility.EASY)


def own_tier(command: type[Command]) -> TierSource:
    """Return a command's own tier, whatever it names."""
    if command.mutates:
        return TierSource(Tier.CAUTION, f"{command.keyword} changes state")
    return TierSource(Tier.SAFE, f"{command.keyword} reads")

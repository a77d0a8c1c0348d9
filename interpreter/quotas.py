"""Quotas: how many mutations are allowed in a time, and what is said where a program may do more. Keeps no count.

A program is measured by its worst case before it runs. What it might do is reserved, whole or not at all, and what did
not run is given back; what is not known to have been given back counts as run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from guideway.interpreter.risk import Quota

HOUR, DAY = 3_600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """Uses of one thing that a program may make at most: ``key`` is what is counted, ``label`` its name in messages.

    ``seconds`` is how long the program may take: what it reserved counts as made when it ends, by then at the latest.
    """

    key: str
    label: str
    times: int
    quota: Quota
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Overrun:
    """An allowance that does not suffice; ``message`` says which bound, and what stands against it."""

    key: str
    label: str
    message: str


def overrun(allowance: Allowance, uses: Sequence[float], now: float) -> Overrun | None:
    """Return what a program would go beyond, None where it stays inside.

    ``uses`` are the times of those that count, made or reserved, in seconds since the epoch. One in the future, which a
    clock that was set back leaves, counts as made now.
    """
    times, quota = allowance.times, allowance.quota
    ages = [max(0.0, now - at) for at in uses]

    def beyond(message: str) -> Overrun:
        return Overrun(allowance.key, allowance.label, message)

    for most, seconds, word in ((quota.per_hour, HOUR, "an hour"), (quota.per_day, DAY, "a day")):
        made = sum(age < seconds for age in ages)
        if most is not None and made + times > most:
            return beyond(f"{made} within {word} and {times} more would be above its quota of {most}")
    if quota.cooldown > 0:
        if times > 1:
            return beyond(f"{times} in one program cannot keep its cool-down of {quota.cooldown:g} s")
        youngest = min(ages, default=quota.cooldown)
        if youngest < quota.cooldown:
            return beyond(f"the last one was {youngest:.0f} s ago, and its cool-down is {quota.cooldown:g} s")
    return None

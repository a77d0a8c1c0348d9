"""Label selectors: what a workload has to carry for a name to mean it. Reaches nothing.

The syntax is Kubernetes' own (`kubectl get -l`): requirements with commas between them, all of which have to hold. A
label that an object does not have is not equal to anything, so `!=` and `notin` hold of it, and `=` and `in` do not.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*/)?{_NAME}"
_VALUE: Final = rf"(?:{_NAME})?"
_SET: Final = rf"\(\s*(?P<set>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
_ONE: Final = re.compile(
    rf"\s*(?:!\s*(?P<none>{_KEY})|(?P<key>{_KEY})(?:\s*(?P<sign>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<word>in|notin)\s*{_SET})?)\s*(?:,|\Z)"
)
_LONGEST: Final = 2_000
_PREFIX: Final = 253


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement. ``values`` None asks whether the label is there; ``negated`` that the rest does not hold."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels fulfil it."""
        there = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return there != self.negated


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A selector, with its text."""

    text: str
    requirements: tuple[Requirement, ...]

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels fulfil all of it."""
        return all(requirement.holds(labels) for requirement in self.requirements)


def read_selector(text: str) -> LabelSelector:
    """Return the selector that a text spells, which asks for something. Raises ``ValueError``."""
    found: list[Requirement] = []
    at = 0
    while at < len(text) or not found or text[at - 1] == ",":
        match = _ONE.match(text, at) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError("must be a label selector, such as `app=payments,tier!=canary` or `tier in (web, api)`")
        found.append(_requirement(match))
        at = match.end()
    return LabelSelector(text, tuple(found))


def _requirement(match: re.Match[str]) -> Requirement:
    key = match["none"] or match["key"]
    if key.rfind("/") > _PREFIX:
        raise ValueError(f"has a label with a prefix of more than {_PREFIX} characters")
    if match["none"]:
        return Requirement(key, None, negated=True)
    if match["word"]:
        values = frozenset(value.strip() for value in match["set"].split(","))
        return Requirement(key, values, negated=match["word"] == "notin")
    if match["sign"]:
        return Requirement(key, frozenset({match["value"]}), negated=match["sign"] == "!=")
    return Requirement(key, None, negated=False)

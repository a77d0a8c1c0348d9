"""What an operator calls private is taken out of a record's facts before they are hashed, and so for good.

What can be called private is a closed list; ``COVERS`` says which facts each of it is. The digest of a program stays,
by which two that are alike can be told, and so do commands, tiers, codes and outcomes.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from guideway.interpreter.audit.keeping import Private

REMOVED: Final = "[private]"
"""What stands where something was taken out."""

PSEUDONYM: Final = "private:"
"""How a pseudonym begins."""

LEAST_KEY: Final = 16
"""Characters of a key for pseudonyms: with less, whoever has a list of names finds them by trying."""

_DIGITS: Final = 16  # of 64: nobody meets another by chance


class Matter(StrEnum):
    """What can be called private."""

    SUBJECT = "subject"  # people
    CLIENT = "client"  # the programs that they use
    CLIENT_SAYS = "client_says"  # what those call themselves, and which model they name
    REASON = "reason"  # words of people who ask, and of those who decide
    PROGRAM = "program"
    TARGETS = "targets"  # hosts and services
    MESSAGE = "message"  # this program's words for what happened
    OUTPUT = "output"  # what was observed of a service


_PEOPLE: Final = ("caller", "by")
_NAMED: Final = ("commands", "steps", "worst_case", "causes", "targets")

#: Which facts each matter is, as paths; ``*`` is each element of a list.
COVERS: Final[Mapping[Matter, tuple[tuple[str, ...], ...]]] = {
    Matter.SUBJECT: tuple((who, "subject") for who in _PEOPLE),
    Matter.CLIENT: tuple((who, "client") for who in _PEOPLE),
    Matter.CLIENT_SAYS: (("client_says",), ("model_says",)),
    Matter.REASON: (("reason",), ("break_glass",)),
    Matter.PROGRAM: (("program",),),
    Matter.TARGETS: (
        ("service",),
        ("unit",),
        ("glass_broken", "*"),
        *((listed, "*", "target") for listed in _NAMED),
        ("causes", "*", "source"),
    ),
    Matter.MESSAGE: (
        ("message",),
        ("steps", "*", "message"),
        ("refusal", "message"),
        ("refusal", "reasons", "*", "message"),
    ),
    Matter.OUTPUT: (("steps", "*", "observation"),),
}

ALSO: Final[Mapping[Matter, frozenset[Matter]]] = {
    Matter.TARGETS: frozenset({Matter.PROGRAM, Matter.MESSAGE}),
}
"""What has to be private too, because the same words stand there."""


class Pseudonyms:
    """Names people by HMAC-SHA-256 (RFC 2104) of issuer and subject: each always alike, and not to be read back."""

    def __init__(self, key: str) -> None:
        if len(key) < LEAST_KEY:
            raise ValueError(
                f"is too short: a key has at least {LEAST_KEY} characters; `openssl rand -hex 32` makes one"
            )
        self._key = key.encode()

    def of(self, issuer: str, subject: str) -> str:
        """Return the pseudonym of a person."""
        return PSEUDONYM + hmac.digest(self._key, f"{issuer}\0{subject}".encode(), hashlib.sha256).hex()[:_DIGITS]


def private(
    matters: Collection[Matter], patterns: Sequence[re.Pattern[str]] = (), pseudonyms: Pseudonyms | None = None
) -> Private | None:
    """Return what takes these matters, and what matches a pattern, out of facts; None where nothing is private.

    With ``pseudonyms`` a private subject is told by one, unless that is gone too by a pattern.
    """
    if not matters and not patterns:
        return None
    paths = [path for matter in Matter if matter in matters and matter is not Matter.SUBJECT for path in COVERS[matter]]
    hides_people = Matter.SUBJECT in matters

    def take_out(facts: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = facts
        if patterns:
            found = _without(found, patterns)
        if hides_people:
            for key in _PEOPLE:
                if isinstance(who := found.get(key), Mapping) and who.get("subject") is not None:
                    issuer, subject = str(facts[key].get("issuer")), str(facts[key]["subject"])
                    named = REMOVED if pseudonyms is None else pseudonyms.of(issuer, subject)
                    found = {**found, key: {**who, "subject": named}}
        for path in paths:
            found = _replaced(found, path, _removed)
        return found

    return take_out


def _removed(value: Any) -> Any:
    return value if value is None else REMOVED


def _replaced(value: Any, path: tuple[str, ...], by: Callable[[Any], Any]) -> Any:
    """Return a value with what a path leads to replaced; what is not there stays so."""
    if not path:
        return by(value)
    key, rest = path[0], path[1:]
    if key == "*":
        return [_replaced(each, rest, by) for each in value] if isinstance(value, list | tuple) else value
    if not isinstance(value, Mapping) or key not in value:
        return value
    return {**value, key: _replaced(value[key], rest, by)}


def _without(value: Any, patterns: Sequence[re.Pattern[str]]) -> Any:
    """Return a value with what matches a pattern replaced in each of its texts."""
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(REMOVED, value)
        return value
    if isinstance(value, Mapping):
        return {key: _without(each, patterns) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without(each, patterns) for each in value]
    return value

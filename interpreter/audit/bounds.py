"""How large one record gets: whoever may only read, or is refused, must not fill a disk with what is recorded of it.

What is left out is the text of a long program and, of its commands and steps, those that changed nothing and that most
others are like. How much that was is in the record. What may change something is always in it, however much that is:
it has records of its own too, and a caller who may do so much.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from guideway.dsl.ast import COMMANDS
from guideway.interpreter.approvals import one_line
from guideway.interpreter.results import Outcome

MOST_BYTES: Final = 32_768
"""Bytes of a record's body, beside what may change something."""

MOST_PROGRAM: Final = 8_192
"""Bytes of a program's text in a record that would be too long, where nothing of it may change something."""

MOST_REASONS: Final = 6_144
"""Bytes of the reasons of one refusal, as JSON: the first ones, and at least one."""

MOST_SAID: Final = 3_072
"""Bytes of what somebody said, as JSON: all of it, where that is in letters of which JSON makes six each."""

LEAST_LISTED: Final = 4_096
"""Bytes that commands and steps which only read may have in any case, so that why a run failed is told."""

_HEAD: Final = 512
"""Bytes that are kept free for what each body has in front of its facts (``chain.link``)."""

_MUTATING: Final = frozenset(command.keyword for command in COMMANDS if command.mutates)

#: The lists of commands that a record may have: by which fact those that are left out are counted, and which of its
#: values are usual.
_LISTS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "commands": ("decision", frozenset({"allowed", "not_run"})),
    "steps": ("outcome", frozenset({Outcome.OK.value})),
    "worst_case": ("command", frozenset()),
}


def bounded(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's facts within its bound; ``<name>_left_out`` says how much of ``<name>`` is not there."""
    found, most = dict(facts), MOST_BYTES - _HEAD
    if size(found) <= most:
        return found
    program = found.get("program")
    if isinstance(program, str) and len(program) > MOST_PROGRAM and not _may_change(found):
        kept = program[:MOST_PROGRAM].rpartition(" ")[0]  # no half of a name: what is private is found by whole ones
        found |= {"program": kept, "program_left_out": len(program) - len(kept)}
    for name, (by, usual) in _LISTS.items():
        if name in found:
            listed = found[name]
            kept_of_it, left = _fitting(listed, by, usual, most - size(found | {name: []}))
            found[name] = kept_of_it
            if left:
                found[f"{name}_left_out"] = left
    return found


def said(text: str) -> str:
    """Return what somebody said on one line, printable, and within a record's bound."""
    words = one_line(text)
    while size(words) > MOST_SAID:
        words = words[:-16]
    return words


def size(fact: Any) -> int:
    """Return how many bytes a fact has in a body. What is not JSON is the trail's to tell of, and raises nothing."""
    return len(json.dumps(fact, separators=(",", ":"), default=str))


def _may_change(found: Mapping[str, Any]) -> bool:
    """Say whether a record is of a program that was let change something, or that a person is asked about."""
    return any(_is_due(each) for name in ("commands", "worst_case") for each in found.get(name, ()))


def _is_due(each: Mapping[str, Any]) -> bool:
    """Say whether a command or step is always listed: it may change something, and was not refused before it ran."""
    return each["command"] in _MUTATING and each.get("decision", "allowed") == "allowed"


def _fitting(
    listed: Sequence[Mapping[str, Any]], by: str, usual: frozenset[str], room: int
) -> tuple[list[Mapping[str, Any]], dict[str, int]]:
    """Return what of a list fits, in its order, and how many did not, by a fact of theirs.

    What would have changed something goes before what reads, of that what there is before names that somebody made up,
    then what is unusual, the last one of it first: that may be why the run ended.
    """

    def rank(at: int) -> tuple[bool, bool, bool, bool]:
        each = listed[at]
        made_up = "tier" in each and each["tier"] is None
        return each["command"] not in _MUTATING, made_up, each[by] in usual, at < len(listed) - 1

    due = {at for at, each in enumerate(listed) if _is_due(each)}
    room = max(LEAST_LISTED, room - sum(size(listed[at]) + 1 for at in due))
    left = Counter[str]()
    kept = set(due)
    for at in sorted(set(range(len(listed))) - due, key=lambda at: (rank(at), at)):
        room -= size(listed[at]) + 1
        if room >= 0:
            kept.add(at)
        else:
            room = 0  # of what is alike, none behind the first that is left out
            left[str(listed[at][by])] += 1
    return [each for at, each in enumerate(listed) if at in kept], dict(left)

"""A trail as JSON Lines: bodies as they were hashed, and behind them the seals, so that the file proves itself.

A line that is no record begins with ``{"export":``. Of each trail there are a ``head`` at the end, which says where it
has come to, its ``checkpoint`` lines before that, and before all a ``part`` where it is not the whole trail.
"""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, Final

from guideway.interpreter.audit.chain import hash_of, read_body
from guideway.interpreter.audit.findings import Verdict
from guideway.interpreter.audit.keeping import Head, Kept, TrailReader
from guideway.interpreter.audit.sealed import Belief, Seal, Unbelieved, unproven
from guideway.interpreter.audit.verify import Verifier
from guideway.interpreter.audit.verifying import pages

_OURS: Final = b'{"export":'
_MOST_LINE: Final = 16_777_216


class NotExported(ValueError):  # noqa: N818  # it is an answer, not a fault
    """A file is no export of a trail; the message says why."""


async def lines(
    reader: TrailReader, head: Head, since: float | None = None, until: float | None = None
) -> AsyncIterator[str]:
    """Yield a trail as lines; of a time, those records and what is behind them up to the next seal.

    By that seal even a part is proven: each record names the hash of the one before it.
    """
    trail = head.trail
    seals = [(_named(seal), seal) for seal in await reader.checkpoints(trail)]
    first, last = await span(reader, head, since, until)
    if first is None:
        return
    end = head
    if until is not None and last < head.seq:
        ends = (Head(trail, seal.seq, seal.hash, text) for seal, text in seals if seal and seal.seq >= last)
        end = next(ends, head)
    if (since is not None and first > 1) or end.seq < head.seq:
        yield _line("part", trail=trail, after=first - 1)
    async for record in pages(reader, trail, after=first - 1, last=end.seq):
        yield _record_line(record.body)
    for seal, text in seals:
        if seal is None or first - 1 <= seal.seq <= end.seq:
            yield _line("checkpoint", trail=trail, seal=text)
    if end.stated:
        yield _line("head", trail=trail, seq=end.seq, hash=end.hash, seal=end.seal)


def _record_line(body: str) -> str:
    """Return a body as one line that is a record's, also where somebody else has written that: it says no more then."""
    line = body.replace("\n", " ").replace("\r", " ")
    return line if line and not line.startswith(_OURS.decode()) else f" {line}"


def _named(seal: str) -> Seal | None:
    """Return what a seal says; nothing of what is none, which goes out as it is, for whoever verifies that."""
    try:
        return unproven(seal)
    except Unbelieved:
        return None


async def span(reader: TrailReader, head: Head, since: float | None, until: float | None) -> tuple[int | None, int]:
    """Return the places of the first and the last record of a time; None where there is none."""
    found = await reader.records(head.trail, most=1, since=since, until=until)
    if not found or found[0].seq > head.seq:
        return None, 0
    last = await reader.records(head.trail, most=1, newest=True, since=since, until=until)
    return found[0].seq, min(last[0].seq, head.seq)


def _line(what: str, **members: Any) -> str:
    return json.dumps({"export": what, **members}, separators=(",", ":"))


class _Said:
    """What a file says of one trail, beside its records."""

    def __init__(self) -> None:
        self.after: int | None = None
        self.seals: list[str] = []
        self.head: Head | None = None

    def within(self, seals: Iterable[str]) -> list[str]:
        """Return those seals of elsewhere that this can be held against: all of them, unless it is a part."""
        if self.after is None:
            return list(seals)
        return [seal for seal in seals if self.after <= unproven(seal).seq <= self._end]

    def beyond(self, seals: Iterable[str], belief: Belief) -> int | None:
        """Return the furthest place that is known of from elsewhere and lies behind this, where it is a part."""
        places = [] if self.after is None else [unproven(seal).seq for seal in _believed(seals, belief)]
        return max((place for place in places if place > self._end), default=None)

    @property
    def _end(self) -> int:
        return 0 if self.head is None else self.head.seq


def _believed(seals: Iterable[str], belief: Belief) -> Iterator[str]:
    for seal in seals:
        with suppress(Unbelieved):
            belief.read(seal)
            yield seal


def verify_file(file: BinaryIO, belief: Belief, outside: Mapping[str, list[str]]) -> list[Verdict]:
    """Return a verdict of each trail in a file, which is read twice. Raises ``NotExported``, ``OSError``."""
    said = _said(file)
    verifiers = {
        trail: Verifier(
            trail,
            about.head,
            inside=about.seals,
            outside=about.within(outside.get(trail, [])),
            belief=belief,
            after=about.after,
            indexed=False,
        )
        for trail, about in said.items()
    }
    file.seek(0)
    trail, places, is_export = next(iter(said), ""), defaultdict[str, int](int), bool(said)
    for line in _lines(file):
        if line.startswith(_OURS):
            continue
        body = line.decode("utf-8", "replace")
        found = _record(body)
        if found is None:
            place, kind = places[trail] + 1, ""  # it stands where a record should: what it was is not known
        else:
            trail, place, kind = found
            is_export = True
        if trail not in verifiers:
            verifiers[trail] = Verifier(trail, None, belief=belief, indexed=False)
        places[trail] = place
        verifiers[trail].take(Kept(trail, place, body, hash_of(body), 0.0, kind, None, None))
    if not is_export:
        raise NotExported("it has no record of one")
    verdicts = [verifiers[trail].verdict() for trail in sorted(verifiers)]
    return [
        replace(each, beyond=said[each.trail].beyond(outside.get(each.trail, ()), belief))
        if each.trail in said
        else each
        for each in verdicts
    ]


def _record(body: str) -> tuple[str, int, str] | None:
    """Return trail, place and kind of a line that is a record."""
    try:
        found = read_body(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found["trail"], str) or type(found["seq"]) is not int:
        return None
    return found["trail"], found["seq"], str(found["kind"])


def _said(file: BinaryIO) -> dict[str, _Said]:
    found: dict[str, _Said] = defaultdict(_Said)
    for number, line in enumerate(_lines(file), start=1):
        if not line.startswith(_OURS):
            continue
        try:
            members = json.loads(line)
            about = found[str(members["trail"])]
            match members["export"]:
                case "part":
                    _require(about.after is None, number, "says again which part it is")
                    about.after = _place(members["after"], number)
                case "checkpoint":
                    about.seals.append(str(members["seal"]))
                case "head":
                    _require(about.head is None, number, "says again where the trail ends")
                    seal = members["seal"]
                    about.head = Head(
                        str(members["trail"]), _place(members["seq"], number), str(members["hash"]), seal and str(seal)
                    )
                case other:
                    raise NotExported(f"line {number} is of a kind that is not known: {other}")
        except (LookupError, TypeError, RecursionError) as error:
            raise NotExported(f"line {number} does not read: {type(error).__name__}") from None
        except ValueError as error:
            raise error if isinstance(error, NotExported) else NotExported(f"line {number} does not read") from None
    return found


def _place(value: Any, number: int) -> int:
    _require(type(value) is int and value >= 0, number, "names a place where no record can be")
    return int(value)


def _require(is_so: bool, number: int, otherwise: str) -> None:
    if not is_so:
        raise NotExported(f"line {number} {otherwise}")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MOST_LINE + 1):
        number += 1
        if len(line) > _MOST_LINE:
            raise NotExported(f"line {number} is longer than any record")
        if line := line.rstrip(b"\r\n"):
            yield line

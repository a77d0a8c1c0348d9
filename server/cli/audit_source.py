"""Where ``guideway audit`` reads: the store of this configuration, whose trails, and which records of them."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from guideway.interpreter.audit.chain import BEGINNING, read_body, trail_words
from guideway.interpreter.audit.exported import span
from guideway.interpreter.audit.keeping import Head, Kept, Oddity, TrailReader
from guideway.interpreter.audit.privacy import PSEUDONYM, Pseudonyms
from guideway.interpreter.audit.verifying import PAGE, pages
from guideway.interpreter.records import StoreUnavailable
from guideway.server.audit_section import AuditSection
from guideway.server.cli.command import Complaint
from guideway.server.cli.console import RED, Console
from guideway.server.config import Config
from guideway.server.stores import NoStore, is_there, open_configured

_MOST_FAULTS: Final = 5

EVERY: Final = object()
"""Every trail that there is."""

UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What is raised by what reads a record whose facts are not those of its kind."""


def unreadable(record: Kept) -> Complaint:
    """Return the complaint about a record that somebody else must have written."""
    where = f"record {record.seq} of {trail_words(record.trail)}"
    return Complaint(f"{where} does not read: guideway audit verify", code="record")


@asynccontextmanager
async def reading(config: Config) -> AsyncIterator[TrailReader]:
    """Give the trails of a configuration's store, which is not made here. Raises ``Complaint``.

    Nothing is written, so that who reads needs no key.
    """
    if not is_there(config):
        yield _Nothing()
        return
    store, leases = open_configured(replace(config, audit=AuditSection()))
    if isinstance(store, NoStore):
        raise Complaint(f"the store cannot be used: {store.why}", code="store_unavailable")
    try:
        yield store
    except StoreUnavailable as error:
        raise Complaint(f"the store cannot be used: {error}", code="store_unavailable") from None
    finally:
        await leases.close()
        await store.close()


class _Nothing:
    """What there is to read where no store is yet (``TrailReader``)."""

    # ruff: noqa: ARG002  # it takes what a store takes

    async def trails(self) -> list[Head]:
        """Return none."""
        return []

    async def names(self) -> list[str]:
        """Return none."""
        return []

    async def oddities(self, *, passed_over: bool = False) -> list[Oddity]:
        """Return none."""
        return []

    async def records(self, trail: str, **_: Any) -> list[Kept]:
        """Return none."""
        return []

    async def checkpoints(self, trail: str) -> Sequence[str]:
        """Return none."""
        return ()


async def heads(reader: TrailReader, trail: str | object) -> tuple[list[Head], int]:
    """Return the heads of the trails that were asked for, and how many others there are.

    Where the store has none any more, or one that is not so, the last record stands in for it: what is there can be
    looked at.
    """
    stated = {head.trail: head for head in await reader.trails()}
    names = {*stated, *await reader.names()}
    chosen = [name for name in sorted(names) if trail is EVERY or name == trail]
    return [await _end(reader, name, stated.get(name)) for name in chosen], len(names) - len(chosen)


async def _end(reader: TrailReader, name: str, head: Head | None) -> Head:
    last = await reader.records(name, most=1, newest=True)
    end = last[0].seq if last else 0
    if head is not None and head.seq <= end:
        now = head if head.seq == end else next((now for now in await reader.trails() if now.trail == name), head)
        if now.seq >= end:  # else it is not that records were added meanwhile
            return head
    return Head(name, end, last[0].hash if last else BEGINNING, None, stated=False)


async def warn(reader: TrailReader, chosen: Sequence[Head], trail: str | object, console: Console) -> None:
    """Say of which of some trails the store does not state the end, or has rows that are not shown."""
    faults = [
        f"the store does not say any more where {trail_words(head.trail)} ends" for head in chosen if not head.stated
    ]
    oddities = await reader.oddities(passed_over=True)
    faults += [f"{trail_words(odd.trail)}: {odd.words}" for odd in oddities if trail is EVERY or odd.trail == trail]
    for fault in faults[:_MOST_FAULTS]:
        console.line((f"{fault}: guideway audit verify", RED))
    if len(faults) > _MOST_FAULTS:
        console.line((f"and {len(faults) - _MOST_FAULTS} more such faults", RED))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted; what is not given is no bound.

    ``kinds`` are kinds, or what kinds begin with. A caller is found by their own name where it became a pseudonym, if
    the key of that is there.
    """

    kinds: Sequence[str] = ()
    service: str | None = None
    caller: str | None = None
    pseudonyms: Pseudonyms | None = None
    since: float | None = None
    until: float | None = None

    def takes(self, record: Kept) -> bool:
        """Say whether a record is wanted."""
        if self.kinds and not any(record.kind == kind or record.kind.startswith(f"{kind}.") for kind in self.kinds):
            return False
        if self.caller is None and self.service is None:
            return True
        body = body_of(record)
        return (self.caller is None or self._is_callers(body)) and (
            self.service is None or self.service in services_in(body)
        )

    def _is_callers(self, body: Mapping[str, Any]) -> bool:
        for key in ("caller", "by"):
            who = body.get(key)
            if not isinstance(who, dict):
                continue
            subject = str(who.get("subject"))
            if subject == self.caller:
                return True
            if self.pseudonyms is not None and self.caller is not None and subject.startswith(PSEUDONYM):
                return subject == self.pseudonyms.of(str(who.get("issuer")), self.caller)
        return False


def body_of(record: Kept) -> dict[str, Any]:
    """Return what a record says; nothing for one that does not read, which ``audit verify`` is for."""
    try:
        return read_body(record.body)
    except (ValueError, RecursionError):
        return {}


def line_of(record: Kept) -> str:
    """Return what a record says as a line of JSON; one that reads otherwise than it was written says that alone."""
    if record.body.isascii() and record.body.isprintable() and body_of(record):
        return record.body
    return json.dumps({"trail": record.trail, "seq": record.seq, "unreadable": record.body})


def services_in(body: Mapping[str, Any]) -> set[str]:
    """Return all that a record names: what was restarted, and what a program would do."""
    found = {str(body["service"])} if isinstance(body.get("service"), str) else set()
    for key in ("commands", "worst_case", "steps"):
        listed = body.get(key)
        if isinstance(listed, list):
            found |= {str(each["target"]) for each in listed if isinstance(each, dict) and "target" in each}
    return found


async def every(reader: TrailReader, chosen: Sequence[Head], wanted: Filter) -> AsyncIterator[Kept]:
    """Yield the records of trails that are wanted, in the order of their times, however many there are."""
    streams = []
    for head in chosen:
        stream = _of_trail(reader, head, wanted)
        first = await anext(stream, None)
        if first is not None:
            streams.append((first, stream))
    while streams:
        at = min(range(len(streams)), key=lambda index: streams[index][0].at)
        record, stream = streams[at]
        yield record
        following = await anext(stream, None)
        if following is None:
            del streams[at]
        else:
            streams[at] = (following, stream)


async def last(reader: TrailReader, chosen: Sequence[Head], wanted: Filter, most: int) -> list[Kept]:
    """Return the last so many records that are wanted, in the order of their times."""
    found: list[Kept] = []
    for head in chosen:
        found += await _last_of_trail(reader, head, wanted, most)
    return sorted(found, key=lambda record: (record.at, record.trail, record.seq))[-most:]


async def _of_trail(reader: TrailReader, head: Head, wanted: Filter) -> AsyncIterator[Kept]:
    first, end = await span(reader, head, wanted.since, wanted.until)
    if first is None:
        return
    async for record in pages(reader, head.trail, after=first - 1, last=end):
        if _in_time(record, wanted) and wanted.takes(record):
            yield record


async def _last_of_trail(reader: TrailReader, head: Head, wanted: Filter, most: int) -> list[Kept]:
    """Return the last records of one trail that are wanted, looked for from its end on."""
    first, end = await span(reader, head, wanted.since, wanted.until)
    found: list[Kept] = []
    while first is not None and end >= first and len(found) < most:
        after = max(first - 1, end - PAGE)
        page = await reader.records(head.trail, after=after, most=end - after)
        taken = [record for record in page if _in_time(record, wanted) and wanted.takes(record)]
        found = taken + found
        end = after
    return found[-most:]


def _in_time(record: Kept, wanted: Filter) -> bool:
    """Say whether a record is of a time: between its first and last there may be others, by another clock."""
    return (wanted.since is None or record.at >= wanted.since) and (wanted.until is None or record.at < wanted.until)

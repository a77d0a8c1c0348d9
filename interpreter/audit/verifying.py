"""Verifies what a store has: each trail page by page, and the trails that should be there and are not."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace

from guideway.interpreter.audit.chain import trail_words
from guideway.interpreter.audit.findings import Finding, Verdict, What
from guideway.interpreter.audit.keeping import Head, Kept, Oddity, TrailReader
from guideway.interpreter.audit.proofs import Where
from guideway.interpreter.audit.sealed import Belief, Unbelieved, unproven
from guideway.interpreter.audit.verify import Verifier

PAGE = 1_000
"""Records that are read at once."""

_TRIES = 3  # of a trail that goes on while it is read


def by_trail(seals: Iterable[str]) -> dict[str, list[str]]:
    """Return checkpoints by the trail that they name. Raises ``Unbelieved`` for what is none."""
    found: dict[str, list[str]] = defaultdict(list)
    for seal in seals:
        found[unproven(seal).trail].append(seal)
    return found


async def verify_store(
    reader: TrailReader, belief: Belief, outside: Mapping[str, list[str]], trail: str | None = None
) -> AsyncIterator[Verdict]:
    """Yield a verdict of each trail of which anything is there, or should be; or of one.

    Raises ``StoreUnavailable``.
    """
    heads = {head.trail: head for head in await reader.trails()}
    odd = {found.trail: found for found in reversed(await reader.oddities())}
    names = {*heads, *odd, *outside, *await reader.names()}
    for name in sorted(names if trail is None else names & {trail}):
        verdict = await _verify(reader, name, heads.get(name), belief, outside.get(name, ()))
        yield _with_oddity(verdict, odd.get(name))


def _with_oddity(verdict: Verdict, odd: Oddity | None) -> Verdict:
    """Return a verdict with what comes first in the trail: what was found, or an odd row."""
    found = verdict.finding
    if odd is None or (found is not None and found.seq is not None and (odd.seq is None or found.seq < odd.seq)):
        return verdict
    return replace(verdict, finding=Finding(odd.seq, What.ODD, odd.words), proven=False, proof="not proven")


async def pages(reader: TrailReader, trail: str, *, after: int = 0, last: int | None = None) -> AsyncIterator[Kept]:
    """Yield the records of a trail behind a place, up to another or to the end."""
    while last is None or after < last:
        page = await reader.records(trail, after=after, most=PAGE if last is None else min(PAGE, last - after))
        for record in page:
            if last is not None and record.seq > last:
                return
            yield record
        if not page:
            return
        after = page[-1].seq


async def _verify(
    reader: TrailReader, trail: str, head: Head | None, belief: Belief, outside: Iterable[str]
) -> Verdict:
    """Verify a trail. One that was added to, or shortened as it is configured, meanwhile, is read again."""
    for _ in range(_TRIES):
        verdict = await _verify_once(reader, trail, head, belief, list(outside))
        if verdict.sound:
            break
        now = await _head(reader, trail)
        if now is None or now == head:
            break
        head = now
    return verdict


async def _verify_once(
    reader: TrailReader, trail: str, head: Head | None, belief: Belief, outside: list[str]
) -> Verdict:
    inside = list(await reader.checkpoints(trail))
    if head is None and not await reader.records(trail, most=1):
        return _deleted(trail, belief, inside, outside)
    verifier = Verifier(trail, head, inside=inside, outside=outside, belief=belief)
    async for record in pages(reader, trail, last=None if head is None else head.seq):
        verifier.take(record)
        if verifier.is_over:
            return verifier.verdict()
    beyond = [] if head is None else await reader.records(trail, after=head.seq, most=1)
    if beyond:
        now = await _head(reader, trail)
        if now is None or now.seq < beyond[0].seq:
            verifier.take(beyond[0])
    return verifier.verdict()


async def _head(reader: TrailReader, trail: str) -> Head | None:
    return next((head for head in await reader.trails() if head.trail == trail), None)


def _deleted(trail: str, belief: Belief, inside: list[str], outside: list[str]) -> Verdict:
    """Return the verdict of a trail that only checkpoints name."""
    believed = []
    finding = Finding(None, What.DELETED, f"{trail_words(trail)} is missing")
    for text, where in (*((text, Where.OUTSIDE) for text in outside), *((text, Where.STORE) for text in inside)):
        try:
            believed.append((belief.read(text), where))
        except Unbelieved as error:
            finding = Finding(None, What.SEAL, f"{where.value} {error}")
    if believed:
        last, where = max(believed, key=lambda found: found[0].seq)
        words = f"{trail_words(trail)} is missing: {where.value} of {last.at} names its record {last.seq}"
        finding = Finding(None, What.DELETED, words)
    return Verdict(trail, 0, None, None, finding, False, "not proven", len(inside), len(outside))

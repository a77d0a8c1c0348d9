"""Verifies what a store has: each trail page by page, and the trails that should be there and are not."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping

from guideway.interpreter.audit.findings import Finding, Verdict, What
from guideway.interpreter.audit.keeping import Head, Kept, TrailReader
from guideway.interpreter.audit.sealed import Belief, Unbelieved, unproven
from guideway.interpreter.audit.verify import Verifier, trail_words

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
    """Yield a verdict of each trail, or of one. Raises ``StoreUnavailable``."""
    heads = {head.trail: head for head in await reader.trails()}
    names = heads.keys() | outside.keys() if trail is None else {trail} & (heads.keys() | outside.keys())
    for name in sorted(names):
        if name in heads:
            yield await _verify(reader, heads[name], belief, outside.get(name, ()))
        else:
            yield _deleted(name, belief, outside[name])


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


async def _verify(reader: TrailReader, head: Head, belief: Belief, outside: Iterable[str]) -> Verdict:
    """Verify a trail. One that was added to, or shortened as it is configured, meanwhile, is read again."""
    for _ in range(_TRIES):
        verdict = await _verify_once(reader, head, belief, list(outside))
        now = await _head(reader, head.trail)
        if verdict.whole or now is None or now == head:
            break
        head = now
    return verdict


async def _verify_once(reader: TrailReader, head: Head, belief: Belief, outside: list[str]) -> Verdict:
    inside = await reader.checkpoints(head.trail)
    verifier = Verifier(head.trail, head, inside=inside, outside=outside, belief=belief)
    async for record in pages(reader, head.trail, last=head.seq):
        verifier.take(record)
        if verifier.is_over:
            return verifier.verdict()
    beyond = await reader.records(head.trail, after=head.seq, most=1)
    if beyond:
        now = await _head(reader, head.trail)
        if now is None or now.seq < beyond[0].seq:
            verifier.take(beyond[0])
    return verifier.verdict()


async def _head(reader: TrailReader, trail: str) -> Head | None:
    return next((head for head in await reader.trails() if head.trail == trail), None)


def _deleted(trail: str, belief: Belief, outside: list[str]) -> Verdict:
    """Return the verdict of a trail that only checkpoints of elsewhere name."""
    believed = []
    broken: Finding | None = None
    for text in outside:
        try:
            believed.append(belief.read(text))
        except Unbelieved as error:
            broken = broken or Finding(None, What.SEAL, f"the checkpoint kept outside {error}")
    if believed:
        last = max(believed, key=lambda seal: seal.seq)
        words = f"{trail_words(trail)} is missing: the checkpoint kept outside of {last.at} names its record {last.seq}"
        broken = Finding(None, What.DELETED, words)
    return Verdict(trail, 0, None, None, broken, False, "not proven", 0, len(outside))

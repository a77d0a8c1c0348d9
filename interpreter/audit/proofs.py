"""The seals that there are of one trail: what each proves, and what they prove together of its end."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from guideway.interpreter.audit.findings import Finding, What
from guideway.interpreter.audit.keeping import Head
from guideway.interpreter.audit.sealed import Belief, Seal, Unbelieved, unproven


class Where(StrEnum):
    """Where a seal is kept."""

    STORE = "the checkpoint"
    OUTSIDE = "the checkpoint kept outside"
    END = "the seal of the end"


@dataclass(frozen=True, slots=True)
class Proof:
    """A seal that is believed, and where it is kept."""

    seal: Seal
    where: Where

    def __str__(self) -> str:
        return f"{self.where.value} of {self.seal.at}"


class Proofs:
    """The seals of a trail, by the place that they name. ``end`` is the one that signs the head."""

    def __init__(
        self, trail: str, head: Head | None, inside: Sequence[str], outside: Sequence[str], belief: Belief
    ) -> None:
        self._trail = trail
        self._believes = bool(belief.kids)
        self._by_place: dict[int, list[Proof]] = defaultdict(list)
        self._broken: list[Finding] = []
        self.inside, self.outside = len(inside), len(outside)
        self.end: Seal | None = None
        self._checkpoint = 0 if head is None else head.checkpoint
        self._read(inside, Where.STORE, belief)
        self._read(outside, Where.OUTSIDE, belief)
        if head is not None and head.seal is not None:
            self._read([head.seal], Where.END, belief)

    def at(self, seq: int) -> Sequence[Proof]:
        """Return the seals that name a place."""
        return self._by_place.get(seq, ())

    def signs(self, seq: int, digest: str) -> bool:
        """Say whether a seal names a record's hash."""
        return any(proof.seal.hash == digest for proof in self.at(seq))

    def finding(self, last: int, first: int, proven: int) -> Finding | None:
        """Say what the seals show of a trail in which each record fits the next; ``proven`` is the last they name."""
        return (
            self._cut_off(last)
            or next(iter(self._broken), None)
            or self._end_unsigned(last, proven)
            or self._lost(first)
            or self._unkept(first)
        )

    def _read(self, seals: Iterable[str], where: Where, belief: Belief) -> None:
        for text in seals:
            try:
                seal = belief.read(text)
            except Unbelieved as error:
                self._broken.append(_broken(text, where, str(error)))
                continue
            if seal.trail != self._trail:
                self._broken.append(_broken(text, where, "is of another trail"))
                continue
            self._by_place[seal.seq].append(Proof(seal, where))
            if where is Where.END:
                self.end = seal

    def _cut_off(self, last: int) -> Finding | None:
        beyond = [proof for seq, proofs in self._by_place.items() if seq > last for proof in proofs]
        if not beyond:
            return None
        furthest = max(beyond, key=lambda proof: proof.seal.seq)
        words = (
            f"records {last + 1} to {furthest.seal.seq} are missing: {furthest} names the last of them. The end was "
            "cut off, or an old copy put back"
        )
        return Finding(last + 1, What.CUT_OFF, words)

    def _end_unsigned(self, last: int, proven: int) -> Finding | None:
        """Find what is not signed at the end. Where nobody is believed that is no finding: nothing can be proven."""
        if not self._believes or proven >= last:
            return None
        stretch = f"record {last} is" if proven + 1 == last else f"records {proven + 1} to {last} are"
        if self.end is None:
            words = f"{stretch} not signed, and keys are given: whoever can write the store can have written that"
            return Finding(proven + 1, What.UNSIGNED, words)
        words = f"{stretch} not signed: {Where.END.value} is that of record {self.end.seq}"
        return Finding(proven + 1, What.REWRITTEN, words)

    def _unkept(self, first: int) -> Finding | None:
        """Find that the last checkpoint is missing of which the head says that it was kept."""
        seq = self._checkpoint
        if seq < max(first, 1) or any(proof.where is Where.STORE for proof in self.at(seq)):
            return None
        return Finding(seq, What.CHECKPOINT, f"{Where.STORE.value} of record {seq}, the last one, is missing")

    def _lost(self, first: int) -> Finding | None:
        """Find a checkpoint that is kept outside, and no more beside the records that it names."""
        for seq in sorted(self._by_place):
            places = {proof.where for proof in self._by_place[seq]}
            if Where.OUTSIDE in places and Where.STORE not in places and seq >= first:
                words = f"{self._by_place[seq][0]}, of record {seq}, is missing in the store"
                return Finding(seq, What.CHECKPOINT, words)
        return None


def _broken(text: str, where: Where, why: str) -> Finding:
    try:
        place = unproven(text).seq
    except Unbelieved:
        return Finding(None, What.SEAL, f"{where.value} {why}")
    return Finding(place, What.SEAL, f"{where.value} of record {place} {why}")

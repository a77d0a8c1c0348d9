"""Verifies a trail: record by record, in bounded memory, and against every seal that there is of it.

Names the first record that is not as it was written, as exactly as can be known. A hash chain without a key proves no
more than that somebody took the trouble: whoever can write the store can compute it anew. Seals prove it, up to the
place that they name; those that are kept outside of the store also prove that what they name was not lost since.
"""

from collections.abc import Sequence
from typing import Any, Final

from guideway.interpreter.audit.chain import BEGINNING, hash_of, moment, read_body, trail_words
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.findings import Finding, Verdict, What
from guideway.interpreter.audit.index import run_in, subject_in
from guideway.interpreter.audit.keeping import Head, Kept
from guideway.interpreter.audit.proofs import Proofs
from guideway.interpreter.audit.sealed import Belief, Nobody

NOT_SIGNED: Final = "not signed: whoever can write the store can write it anew"


class _Record:
    """A record that was read: what its body says, None where it says nothing, and the hash that the body really has."""

    __slots__ = ("body", "hash", "kept", "place", "prev", "seq")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.seq = kept.seq
        self.hash = hash_of(kept.body)
        try:
            self.body: dict[str, Any] | None = read_body(kept.body)
        except (ValueError, RecursionError):
            self.body = None
        self.prev = self.body and self.body["prev"]
        self.place = self.body and self.body["seq"]


class Verifier:
    """Verifies one trail: takes its records in the order in which they are kept, and then gives a verdict.

    ``head`` is where the trail says to have come to. ``inside`` are the checkpoints that are kept beside the records,
    ``outside`` those of elsewhere. ``after`` is set where only a part is there to be looked at: the records behind that
    place, up to the head. Records that are not ``indexed`` have nothing beside their bodies.
    """

    def __init__(
        self,
        trail: str,
        head: Head | None,
        *,
        inside: Sequence[str] = (),
        outside: Sequence[str] = (),
        belief: Belief | None = None,
        after: int | None = None,
        indexed: bool = True,
    ) -> None:
        self._trail = trail
        self._indexed = indexed
        self._head = head
        self._belief = belief or Nobody()
        self._after = after
        self._proofs = Proofs(trail, head, inside, outside, self._belief)
        self._count = 0
        self._first: int | None = None
        self._begins_after = 0  # what the last record that tells of a removal says
        self._removed_by: int | None = None
        self._removal_is_broken = False
        self._unsigned_to: object = None  # what the last record says from which on the trail is signed
        self._last: _Record | None = None  # the last that was looked at
        self._held: _Record | None = None  # the one behind it, which is looked at once its successor is known
        self._proven = 0  # the place of the last record that a seal names as it is
        self._finding: Finding | None = None

    def take(self, kept: Kept) -> None:
        """Take the next record. After the first finding nothing more is looked for, but for how the trail begins."""
        self._count += 1
        if self._first is None:
            self._first = kept.seq
        if self._finding is not None:
            self._take_removal(kept)
            return
        record = _Record(kept)
        if self._held is not None:
            self._accept(self._held, record)
        self._held = record

    @property
    def is_over(self) -> bool:
        """Whether nothing that is still to come could be found before what was found."""
        return self._finding is not None and (self._first == 1 or self._after is not None)

    @property
    def _ends_proven(self) -> bool:
        return self._last is not None and self._proven == self._last.seq

    def verdict(self) -> Verdict:
        """Return what was found."""
        if self._held is not None and self._finding is None:
            self._accept(self._held, None)
        finding = self._beginning() or self._finding or self._end()
        return Verdict(
            trail=self._trail,
            records=self._count,
            first=self._first,
            last=self._last.seq if self._last else None,
            finding=finding,
            proven=finding is None and self._ends_proven and bool(self._belief.kids),
            proof=self._proof(finding),
            checkpoints=self._proofs.inside,
            outside=self._proofs.outside,
            after=self._after,
        )

    # One record

    def _accept(self, record: _Record, following: _Record | None) -> None:
        self._finding = self._look(record, following)
        if self._finding is None:
            self._take_removal(record.kept)
            if record.kept.kind == Kind.TRAIL_SIGNED and record.body is not None:
                self._unsigned_to = record.body.get("unsigned_to")
        elif record.kept.kind == Kind.TRAIL_PRUNED:
            self._removal_is_broken = True
        self._last = record

    def _look(self, record: _Record, following: _Record | None) -> Finding | None:
        """Look at a record with what is before it and what is behind it."""
        return (
            self._look_at_place(record, following)
            or self._look_at_text(record, following)
            or self._look_at_chain(record, following)
            or (_look_at_index(record) if self._indexed else None)
            or (self._look_at_last(record) if following is None else None)
            or self._look_at_seals(record)
        )

    def _look_at_place(self, record: _Record, following: _Record | None) -> Finding | None:
        last = self._last.seq if self._last else self._base(record)
        expected = last + 1
        if record.seq > expected:
            if record.place == expected:
                return Finding(expected, What.MOVED, f"record {expected} stands at place {record.seq}")
            if following is not None and following.seq < record.seq:
                return Finding(expected, What.MOVED, f"record {record.seq} stands before record {following.seq}")
            return Finding(expected, What.DROPPED, _missing(expected, record.seq - 1))
        if record.seq < expected:
            return Finding(record.seq, What.MOVED, f"record {record.seq} stands again, behind record {last}")
        return None

    def _look_at_text(self, record: _Record, following: _Record | None) -> Finding | None:
        seq = record.seq
        if record.hash != record.kept.hash:
            if self._names(record, following) == record.hash:
                words = f"the hash that is kept with record {seq} is not that of its text, which is as it was"
            else:
                words = f"the text of record {seq} was changed: it does not have the hash that is kept with it"
            return Finding(seq, What.CHANGED, words)
        if record.body is None:
            return Finding(seq, What.CHANGED, f"record {seq} does not read: it was changed")
        if record.body["trail"] != self._trail:
            where = f"record {record.place} of {trail_words(record.body['trail'])}"
            return Finding(seq, What.MOVED, f"at place {seq} stands {where}")
        if record.place != seq:
            return self._misplaced(record, following)
        return None

    def _misplaced(self, record: _Record, following: _Record | None) -> Finding:
        """Say what was done where a record says to be another one of this trail."""
        seq, place = record.seq, record.place
        if type(place) is not int:
            return Finding(seq, What.CHANGED, f"record {seq} was changed: it names no place")
        follows = following is not None and following.place == place + 1
        if self._last is not None and place == self._last.seq and record.prev == self._last.prev and follows:
            return Finding(place, What.ADDED, f"record {place} was added: the one that was there stands behind it now")
        if place > seq and follows:
            words = f"{_missing(seq, place - 1)}, and those behind them have been moved up"
            return Finding(seq, What.DROPPED, words)
        return Finding(seq, What.MOVED, f"at place {seq} stands record {place}")

    def _look_at_chain(self, record: _Record, following: _Record | None) -> Finding | None:
        before = self._last.hash if self._last else self._named_before(record)
        if before is None or record.prev == before:
            return None
        seq, names = record.seq, self._names(record, following)
        if names is not None and names != record.hash:
            words = f"record {seq} was changed: it fits neither what is before it nor what is behind it"
            return Finding(seq, What.CHANGED, words)
        if self._last is None:
            return Finding(
                seq, What.CHANGED, f"record {seq} was changed: it is not the one that the trail goes on with"
            )
        last = self._last.seq
        words = f"record {last} was changed: record {seq}, behind it, names another hash"
        if names is None:
            words = f"record {last} or {seq} was changed: they do not fit together"
        elif last - 1 > self._proven:
            words += f". Whether more before it, from {self._proven + 1} on, were changed with it cannot be told"
        return Finding(last, What.CHANGED, words)

    def _look_at_seals(self, record: _Record) -> Finding | None:
        proofs = self._proofs.at(record.seq)
        for proof in proofs:
            if proof.seal.hash == record.hash:
                continue
            first = self._proven + 1
            if first == record.seq:
                words = f"record {first} was changed, and what is behind it written anew: {proof} names another hash"
            else:
                words = (
                    f"records were written anew, from one of {first} to {record.seq} on: {proof} names another hash "
                    f"of record {record.seq}"
                )
            return Finding(first, What.REWRITTEN, words)
        if proofs:
            self._proven = record.seq
        return None

    def _names(self, record: _Record, following: _Record | None) -> Any:
        """Return which hash of a record is named by what is behind it, None where nothing is."""
        if following is not None:
            return following.prev if following.seq == record.seq + 1 else None
        return self._head.hash if self._head is not None and self._head.seq == record.seq else None

    # The beginning

    def _base(self, record: _Record) -> int:
        """Return the place behind which the trail begins as it is here."""
        if self._after is not None:
            return self._after
        return record.seq - 1 if record.seq > 1 else 0  # where it begins later is looked at when all is read

    def _named_before(self, record: _Record) -> str | None:
        """Return the hash of what was before the first record, by a seal; None where nobody can know it."""
        if record.seq == 1:
            return BEGINNING
        return next((proof.seal.hash for proof in self._proofs.at(record.seq - 1)), None)

    def _take_removal(self, kept: Kept) -> None:
        """Take what a record says of the removal of all that were before a place."""
        if kept.kind != Kind.TRAIL_PRUNED:
            return
        try:
            self._begins_after = int(read_body(kept.body)["removed_to"])
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return  # behind a finding a record can be anything
        self._removed_by = kept.seq

    def _beginning(self) -> Finding | None:
        """Look at how the trail begins: with its first record, or behind what was removed and is said to be."""
        if self._first is None or self._after is not None or self._removal_is_broken:
            return None
        before, said = self._first - 1, self._begins_after
        if before < said:
            words = (
                f"records from {before + 1} on stand there, and record {self._removed_by} says that they were removed"
            )
            return Finding(before + 1, What.ADDED, words)
        if before > said:
            words = "no record says that they were removed"
            if said:
                words = f"record {self._removed_by} says only that those up to {said} were removed"
            return Finding(said + 1, What.DROPPED, f"{_missing(said + 1, before)}, and {words}")
        if before and self._belief.kids and not self._proofs.at(before):
            return Finding(1, What.DROPPED, f"{_missing(1, before)}, and no seal proves what they were")
        return None

    # The end

    def _end(self) -> Finding | None:
        last = self._last.seq if self._last else self._after or 0
        if self._head is None:
            what = What.HEAD if self._indexed else What.CUT_OFF
            return Finding(last + 1, what, f"nothing says that the trail ends with record {last}")
        return self._look_at_head(self._head, last) or self._proofs.finding(last, self._first or 1, self._proven)

    def _look_at_head(self, head: Head, last: int) -> Finding | None:
        if head.seq > last:
            words = f"the end is cut off: {_missing(last + 1, head.seq)}"
            return Finding(last + 1, What.CUT_OFF, words)
        if head.seq < last:
            words = f"record {head.seq + 1} was added: the store says that the trail ends with record {head.seq}"
            return Finding(head.seq + 1, What.ADDED, words)
        return None

    def _look_at_last(self, record: _Record) -> Finding | None:
        head, last = self._head, record.seq
        if head is None or head.seq != last or head.hash == record.hash:
            return None
        if self._proofs.signs(last, record.hash):
            words = f"the store says another hash of record {last}, the last one, than it has by a seal"
            return Finding(last, What.HEAD, words)
        words = f"record {last}, the last one, was changed: the store says another hash of it"
        return Finding(last, What.CHANGED, words)

    def _proof(self, finding: Finding | None) -> str:
        if finding is not None:
            return f"proven up to record {self._proven}" if self._proven and self._belief.kids else "not proven"
        if self._count == 0:
            return "empty"
        seal = next((proof.seal for proof in self._proofs.at(self._proven)), None)
        if seal is None or not self._ends_proven:
            return NOT_SIGNED
        if not self._belief.kids:
            return f"not proven: it says to be signed by the key {seal.kid}, which was not given"
        unsigned = "" if self._unsigned_to is None else f"; up to record {self._unsigned_to} it was not signed before"
        return f"signed {seal.at} by {seal.kid}{unsigned}"


def _look_at_index(record: _Record) -> Finding | None:
    """Hold what a record is found by against what it says."""
    kept, body = record.kept, record.body or {}
    found = {"time": moment(kept.at), "kind": kept.kind, "run": kept.run_id, "subject": kept.subject}
    says = {"time": body["time"], "kind": body["kind"], "run": run_in(body), "subject": subject_in(body)}
    for column, value in found.items():
        if value != says[column]:
            words = f"record {record.seq} would be found by another {column} ({value}) than it has ({says[column]})"
            return Finding(record.seq, What.INDEX, words)
    return None


def _missing(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"

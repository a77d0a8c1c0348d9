"""What a verifier says of a trail: that it is whole, or the first thing that is wrong; and how well that is proven."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """What was done to a trail. The list is closed."""

    CHANGED = "changed"  # a record is not what was written
    DROPPED = "dropped"  # records are missing, with others behind them
    ADDED = "added"  # a record stands there that was not written by this program
    MOVED = "moved"  # a record stands in another one's place, of this trail or of another
    INDEX = "index"  # the columns by which a record is found are not what it says
    REWRITTEN = "rewritten"  # a stretch of records was written anew, each with its hash
    CUT_OFF = "cut_off"  # the end is missing, also where an old copy was put back
    HEAD = "head"  # what is kept of where the trail has come to is not so, or missing
    ODD = "odd"  # what stands there is no value that this program writes
    SEAL = "seal"  # a seal that proves nothing
    UNSIGNED = "unsigned"  # nothing signs the end, and somebody should
    CHECKPOINT = "checkpoint"  # a checkpoint is missing that was kept elsewhere too
    DELETED = "deleted"  # the whole trail is missing


@dataclass(frozen=True, slots=True)
class Finding:
    """The first thing that is wrong with a trail; ``seq`` is the record's place, as exactly as it can be known."""

    seq: int | None
    what: What
    words: str

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {"seq": self.seq, "what": self.what.value, "words": self.words}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one trail, or of a part of it.

    ``first`` and ``last`` are the places of the records that were read, None where there are none. ``proven`` says
    that believed keys signed the end, ``proof`` by what that is so, or what of it cannot be proven. ``checkpoints`` and
    ``outside`` count the seals that were held against the records, from the store and from elsewhere. ``after`` is set
    where only a part was there to be looked at: the records behind that place. ``beyond`` is the furthest place behind
    it that a checkpoint from elsewhere names, None where none does.
    """

    trail: str
    records: int
    first: int | None
    last: int | None
    finding: Finding | None
    proven: bool
    proof: str
    checkpoints: int
    outside: int
    after: int | None = None
    beyond: int | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with what was there to be looked at."""
        return self.finding is None

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong, and nothing is missing: of a part nobody can say that."""
        return self.sound and self.after is None

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "trail": self.trail,
            "whole": self.whole,
            "sound": self.sound,
            "records": self.records,
            "first": self.first,
            "last": self.last,
            "finding": self.finding and self.finding.to_json(),
            "proven": self.proven,
            "proof": self.proof,
            "checkpoints": self.checkpoints,
            "checkpoints_outside": self.outside,
            "part_after": self.after,
            "beyond_part": self.beyond,
        }

"""Whether a trail may be gone on with: what is signed next vouches for all that is before it.

Whoever can write the store can write a history of their own into it, and a head that fits. Were records added to that,
this program would sign it. So a head is gone on with only where a believed key has sealed it, and only if the trail is
not shorter than it is known to have been: by what this process has written, or seen, or by what is kept outside.
"""

import logging
import threading
from collections.abc import Iterable
from typing import Final, Protocol

from guideway.interpreter.audit.chain import trail_words
from guideway.interpreter.audit.keeping import Head, Keeping
from guideway.interpreter.audit.sealed import Seal, Unbelieved
from guideway.interpreter.records import StoreUnavailable

_log = logging.getLogger(__name__)


class Place(Protocol):
    """A record's place and hash."""

    @property
    def trail(self) -> str:
        """The trail's name."""
        ...

    @property
    def seq(self) -> int:
        """The place, from 1."""
        ...

    @property
    def hash(self) -> str:
        """SHA-256 of the body, in hexadecimal."""
        ...


class KnownHeads:
    """Where trails are known to have come to. One for a process; of any thread.

    What is kept outside is looked at once, before the first record is added.
    """

    def __init__(self, keeping: Keeping) -> None:
        self.keeping: Final = keeping
        self._belief: Final = None if keeping.sealer is None else keeping.belief
        self._outside = keeping.reached
        self._places: dict[str, Place] = {}
        self._told = set[str]()
        self._lock = threading.Lock()

    def knows(self, trail: str) -> bool:
        """Say whether a trail is known to have a record."""
        with self._lock:
            return trail in self._known()

    def require(self, head: Head) -> None:
        """Take a trail's head for one that is gone on with. Raises ``StoreUnavailable`` where it is none."""
        with self._lock:
            known = self._known().get(head.trail)
            if known is not None and (known.seq, known.hash) == (head.seq, head.hash):
                return
            self._require_sealed(head)
            if known is not None:
                self._require_reached(head, known)
            self._places[head.trail] = head

    def refuse(self, trail: str, why: str) -> StoreUnavailable:
        """Return the error of a trail that cannot be gone on with."""
        words = f"{trail_words(trail)} cannot be gone on with: {why} (docs/audit.md, when a trail is not gone on with)"
        self.tell(f"no record is added to the audit trail: {words}")
        return StoreUnavailable(words)

    def tell(self, words: str) -> None:
        """Let the log say something, once."""
        if words not in self._told:
            self._told.add(words)
            _log.error("%s", words)

    def believes(self, trail: str, seq: int, digest: str, seal: str) -> Seal | None:
        """Return what a seal says that the store has for a record, None where it is not to be believed."""
        try:
            said = None if self._belief is None else self._belief.read(seal)
        except Unbelieved:
            said = None
        if said is None or (said.trail, said.seq, said.hash) != (trail, seq, digest):
            return None
        return said

    def reached(self, places: Iterable[Place]) -> None:
        """Take what this process has committed."""
        with self._lock:
            for place in places:
                known = self._places.get(place.trail)
                if known is None or known.seq < place.seq:
                    self._places[place.trail] = place

    def _known(self) -> dict[str, Place]:
        if self._outside is not None:
            try:
                found = self._outside()
            except OSError as error:
                words = f"the checkpoints that are kept outside cannot be read: {error}"
                raise StoreUnavailable(words) from error
            self._outside = None
            for place in found.values():
                self._places.setdefault(place.trail, place)
        return self._places

    def _require_sealed(self, head: Head) -> None:
        """Hold a head against its seal: somebody else may have written it, another replica or whoever."""
        if self._belief is None:
            if head.seal is not None:
                raise self.refuse(head.trail, "it is signed, and this process has no key")
            return
        if head.seal is None:
            raise self.refuse(head.trail, f"its end, record {head.seq}, is not signed, and it was before")
        if self.believes(head.trail, head.seq, head.hash, head.seal) is None:
            raise self.refuse(head.trail, f"no key that is believed has sealed its end, record {head.seq}, as it is")

    def _require_reached(self, head: Head, known: Place) -> None:
        if head.seq < known.seq:
            why = f"it ends with record {head.seq}, and had record {known.seq}: an old copy of it was put back"
            raise self.refuse(head.trail, why)
        if head.seq == known.seq:
            raise self.refuse(head.trail, f"record {head.seq}, the last one, is another than it was")

"""What a seal says, whoever signed it. Loads nothing that could check a signature: that is ``seal``'s."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final, Protocol

from guideway.interpreter.audit.index import is_text

_MOST_CHARACTERS: Final = 4_096
_MOST_RECORDS: Final = 2**63 - 1  # the last place that a database can count to


@dataclass(frozen=True, slots=True)
class Seal:
    """What a seal says. ``kid`` is the thumbprint of the key by which it says to be signed (RFC 7638)."""

    trail: str
    seq: int
    hash: str
    at: str
    kid: str


class Unbelieved(ValueError):  # noqa: N818  # it is an answer, not a fault
    """A seal proves nothing; the message says why, as what follows "the seal"."""


class Belief(Protocol):
    """Whose seals are believed."""

    @property
    def kids(self) -> list[str]:
        """The keys' thumbprints; none where nobody is believed."""
        ...

    def read(self, text: str) -> Seal:
        """Return what a seal says that was signed by a believed key. Raises ``Unbelieved``."""
        ...


class Nobody:
    """Nobody is believed, and nothing is proven: seals are read for what they say (``Belief``)."""

    @property
    def kids(self) -> list[str]:
        """None."""
        return []

    def read(self, text: str) -> Seal:
        """Return what a seal says. Raises ``Unbelieved`` for what is none."""
        return unproven(text)


def unproven(text: str) -> Seal:
    """Return what a seal says, whoever signed it. Raises ``Unbelieved`` for what is none."""
    if len(text) > _MOST_CHARACTERS:
        raise Unbelieved("is none: it is too long")
    try:
        header, payload, _ = text.split(".")
        said = _decoded(payload)
        seal = Seal(said["trail"], said["seq"], said["hash"], said["at"], _decoded(header)["kid"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Unbelieved("is none: it does not read") from None
    if type(seal.seq) is not int or not 1 <= seal.seq <= _MOST_RECORDS:
        raise Unbelieved("is none: it names no record")
    # A trail that a store cannot be asked for would keep all else unread.
    if not all(is_text(each) for each in (seal.trail, seal.hash, seal.at, seal.kid)):
        raise Unbelieved("is none: it does not read")
    return seal


def _decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))

"""Answers that are kept for who asks the same again: a bounded number of them, the oldest dropped first."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")


class Kept(Generic[_Key, _Answer]):
    """At most ``most`` answers by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[_Key, _Answer] = {}

    def get(self, key: _Key) -> _Answer | None:
        """Return the answer of a key, or None."""
        return self._answers.get(key)

    def keep(self, key: _Key, answer: _Answer) -> _Answer:
        """Keep an answer, and return it."""
        if key not in self._answers and len(self._answers) >= self._most:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = answer
        return answer

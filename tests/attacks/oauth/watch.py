"""Looks for secrets in what was written: whole, and by any piece of sixteen characters in a row at a multiple of it.

So whatever shows more than twice that of a token, a key or a proof is found, wherever it begins.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_PIECE: Final = 16
_RUN: Final = re.compile(rf"[A-Za-z0-9_+/-]{{{_PIECE},}}")


def leaks(written: str, secrets: Iterable[str]) -> list[str]:
    """Return the pieces of secrets that stand in a text."""
    secrets = {text for text in secrets if len(text) >= 8}
    pieces = {piece for text in secrets for piece in _pieces(text)}
    runs = (match[0] for match in _RUN.finditer(written))
    found = {run[at : at + _PIECE] for run in runs for at in range(len(run) - _PIECE + 1)} & pieces
    return sorted(found | {text for text in secrets if text in written})


def _pieces(text: str) -> Iterable[str]:
    for run in (match[0] for match in _RUN.finditer(text)):
        yield from (run[at : at + _PIECE] for at in range(0, len(run) - _PIECE + 1, _PIECE))


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"{record.name} {self.format(record)} {record.args!r}")


@contextmanager
def listening() -> Iterator[list[str]]:
    """Give all that any logger says from now on, down to DEBUG, with tracebacks and arguments."""
    ear, root = _Ear(), logging.getLogger()
    before = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        yield ear.heard
    finally:
        root.setLevel(before)
        root.removeHandler(ear)

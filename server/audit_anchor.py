"""Brings checkpoints of the audit trail out of the store's reach: into the log, and into a file if one is configured.

Whoever can write the store can put an old copy of it back, and everything in it fits. What they cannot do is take back
what was written elsewhere: each checkpoint names how far a trail had come.
"""

import logging
import os
from collections import defaultdict
from pathlib import Path
from typing import Final

from guideway.interpreter.audit.sealed import Belief, Seal, Unbelieved, unproven

_log: Final = logging.getLogger(__name__)
_MOST_LINE: Final = 8_192


class Anchor:
    """Takes each checkpoint as it is made. ``file`` None is the log alone."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __call__(self, seal: str) -> None:
        """Write a checkpoint as a line of its own, on disk when this returns. Raises ``OSError``."""
        _log.info("checkpoint of the audit trail: %s", seal)
        if self._file is None:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        is_new = not self._file.exists()
        descriptor = os.open(self._file, flags, 0o600)
        try:
            # A line that was cut off, as by a lost machine, must not swallow this one.
            size = os.fstat(descriptor).st_size
            start = b"" if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else b"\n"
            _write(descriptor, start + seal.encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(self._file.parent)


def _write(descriptor: int, line: bytes) -> None:
    """Write a line in one call, so that of several processes none gets into another's. Raises ``OSError``."""
    written = os.write(descriptor, line)
    if written != len(line):
        raise OSError(f"{written} of {len(line)} bytes of a checkpoint were written")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def furthest(path: Path, belief: Belief) -> dict[str, Seal]:
    """Return the checkpoint of each trail that goes furthest, of those in a file that are believed.

    What else stands in the file proves nothing, and is passed over; a file that is not there has none. Raises
    ``OSError``.
    """
    try:
        kept, _ = read_checkpoints(path)
    except FileNotFoundError:
        return {}
    by_trail: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for seal in kept:
        said = unproven(seal)
        by_trail[said.trail].append((said.seq, seal))
    found: dict[str, Seal] = {}
    for trail, seals in by_trail.items():
        for _, seal in sorted(seals, reverse=True):  # a signature takes a tenth of a millisecond: as few as may be
            try:
                found[trail] = belief.read(seal)
            except Unbelieved:
                continue
            break
    return found


def read_checkpoints(path: Path) -> tuple[list[str], list[str]]:
    """Return the checkpoints of a file, and what else stands there, in words. Raises ``OSError``.

    A line may have other words before it, as a log's has. A last one that was cut off is none.
    """
    seals, faults = [], []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            words = line[:_MOST_LINE].decode("ascii", "replace").split()
            if not line.endswith(b"\n") or not words:
                continue
            try:
                unproven(words[-1])
            except Unbelieved:
                faults.append(f"line {number} is no checkpoint")
            else:
                seals.append(words[-1])
    return seals, faults

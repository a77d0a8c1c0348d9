"""Leases among the processes of one machine: a lock on a file for each place (flock).

The kernel gives a lock back when its holder dies, however it dies. A file has the name of the run that holds it, which
is blanked when it is given back: a name that stands in one that can be locked is that of a run whose process was lost.
Some files stay for the next hold. The rest are removed, by whoever has them locked: names that a pattern means have no
end.

The folder has to be on a file system of this machine: over NFS locks are another machine's business, and are lost where
its server restarts. SQLite beside them asks the same.
"""

import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from guideway.interpreter.leases import Full, Place, ProcessLeases, Waited
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.folder import private_folder

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
_NAME_BYTES: Final = 64
_MOST_IDLE: Final = 128


class _Locked(NamedTuple):
    """A file that is locked: its path, the open file, and the run that it had in it, whose process was lost."""

    path: str
    opened: int
    orphan: bytes


class FileLeases:
    """Leases by locks on files in a folder, which is made by the first hold.

    Among the programs of this process no file is asked: whoever waits for another of them is woken at once. For other
    processes it looks again and again, at least twice a second.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: str | None = None
        self._here = ProcessLeases()
        self._names: dict[str, str] = {}
        self._idle: dict[str, int] = {}  # open, and locked by nobody of this process; the last used one is the last

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place, once all are free. Raises ``Busy``, or ``StoreUnavailable``."""
        found = self._try(places, run_id)
        if isinstance(found, Full):

            async def take() -> list[_Locked] | Full:
                return self._try(places, run_id)

            taken, waited = await self._here.until_taken(take, found, wait, pause=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        else:
            taken, waited = found, Waited(0.0)
        orphans = {locked.path.rpartition(".")[0]: locked.orphan for locked in taken if locked.orphan}
        lost = next((orphans[name] for place in places if (name := self._name_of(place.key)) in orphans), None)
        try:
            yield waited if lost is None else replace(waited, orphan=lost.decode(errors="replace"))
        finally:
            self._unlock(taken)
            self._here.give_back(places)

    def _try(self, places: Sequence[Place], run_id: str) -> list[_Locked] | Full:
        """Take every place at once, or none; return the locked files. Nothing is awaited here."""
        full = self._here.take(places, run_id)
        if full is not None:
            return full
        taken: list[_Locked] = []
        try:
            for place in sorted(places, key=lambda each: each.key):
                found = self._lock(place, run_id)
                if isinstance(found, Full):
                    full = found
                    break
                taken.append(found)
        except OSError as error:
            full = Full("", None)
            why = error.strerror or type(error).__name__
            raise StoreUnavailable(f"no lock can be had in `{self._folder}`: {why.lower()}") from error
        except StoreUnavailable:
            full = Full("", None)
            raise
        finally:
            if full is not None:
                self._unlock(taken, was_held=False)
                self._here.give_back(places)
        return taken if full is None else full

    def _lock(self, place: Place, run_id: str) -> _Locked | Full:
        """Lock one file of a place and write into it who holds it. Raises ``OSError``."""
        name = self._name_of(place.key)
        holder = b""
        for slot in range(place.at_once):
            path = f"{name}.{slot}"
            opened, free = self._open(path)
            try:
                holder = os.pread(opened, _NAME_BYTES, 0).strip()
                if free:
                    os.pwrite(opened, _named(run_id.encode()), 0)
                    return _Locked(path, opened, holder)
            except OSError:
                os.close(opened)
                raise
            os.close(opened)
        return Full(place.label, holder.decode(errors="replace") or None)

    def _open(self, path: str) -> tuple[int, bool]:
        """Open a file, and say whether it could be locked: the one that stands there, which others lock too."""
        while True:
            opened = self._idle.pop(path, None)
            if opened is None:
                opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stands = os.fstat(opened).st_nlink > 0
            except BlockingIOError:
                return opened, False
            except OSError:
                os.close(opened)
                raise
            if stands:
                return opened, True
            os.close(opened)  # removed since: once, for what is opened next may have the same number

    def _name_of(self, key: str) -> str:
        """Return how the names of a place's files begin."""
        name = self._names.get(key)
        if name is not None:
            return name
        if self._path is None:
            self._path = str(private_folder(self._folder))
        if len(self._names) >= _MOST_IDLE:
            self._names.clear()
        name = self._names[key] = f"{self._path}/{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        return name

    def _unlock(self, taken: Iterable[_Locked], *, was_held: bool = True) -> None:
        """Give locks back. Some files stay open, so that the next hold need not open them.

        What was not held after all still has the name of the run that was lost with it.
        """
        for path, opened, orphan in taken:
            with suppress(
                OSError
            ):  # a disk that cannot be written now: then the run is taken to be lost, which it says
                os.pwrite(opened, _named(b"" if was_held else orphan), 0)
            fcntl.flock(opened, fcntl.LOCK_UN)  # at once, also where a child that is being started has the file too
            if path in self._idle:
                os.close(opened)
            else:
                self._idle[path] = opened
        while len(self._idle) > _MOST_IDLE:
            self._remove(next(iter(self._idle)))

    def _remove(self, path: str) -> None:
        """Close a file, and remove it where nobody holds it. Who has it open too sees that, once they lock it."""
        opened = self._idle.pop(path)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(opened).st_nlink > 0:
                os.unlink(path)
        except OSError:
            pass  # another process holds it, or it cannot be removed: it stays
        finally:
            os.close(opened)

    async def close(self) -> None:
        """Close the files that nobody holds."""
        for path in list(self._idle):
            self._remove(path)


def _named(run_id: bytes) -> bytes:
    return run_id[:_NAME_BYTES].ljust(_NAME_BYTES)

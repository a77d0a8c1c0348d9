"""Leases among the processes of one machine: a lock on a file for each place (flock).

The kernel gives a lock back when its holder dies, however it dies. The files stay: they are empty but for the run that
held one last, and there are as many as there are services, groups and tenants.

The folder has to be on a file system of this machine: over NFS locks are another machine's business, and are lost where
its server restarts. SQLite beside them asks the same.
"""

import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from guideway.interpreter.leases import Busy, Full, Place, ProcessLeases, Waited
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.folder import private_folder

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
_NAME_BYTES: Final = 64


class FileLeases:
    """Leases by locks on files in a folder, which is made by the first hold.

    Among the programs of this process no file is asked: whoever waits for another of them is woken at once. For other
    processes it looks again and again, at least twice a second.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: str | None = None
        self._here = ProcessLeases()

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place, once all are free. Raises ``Busy``, or ``StoreUnavailable``."""
        taken = self._try(places, run_id)
        waited = Waited(0.0)
        if isinstance(taken, Full):
            taken, waited = await self._wait(places, run_id, wait, taken)
        try:
            yield waited
        finally:
            _unlock(taken)
            self._here.give_back(places)

    async def _wait(self, places: Sequence[Place], run_id: str, wait: float, full: Full) -> tuple[list[int], Waited]:
        since, pause = anyio.current_time(), _FIRST_PAUSE
        with anyio.CancelScope(deadline=since + wait):
            while True:
                if full.here:
                    await self._here.freed()
                else:
                    with anyio.move_on_after(pause):
                        await self._here.freed()
                    pause = min(pause * 1.5, _LONGEST_PAUSE)
                taken = self._try(places, run_id)
                if not isinstance(taken, Full):
                    return taken, Waited(anyio.current_time() - since, full.label, full.holder)
                full = taken
        raise Busy(Waited(anyio.current_time() - since, full.label, full.holder))

    def _try(self, places: Sequence[Place], run_id: str) -> list[int] | Full:
        """Take every place at once, or none; return the open files. Nothing is awaited here."""
        full = self._here.take(places, run_id)
        if full is not None:
            return full
        taken: list[int] = []
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
                _unlock(taken)
                self._here.give_back(places)
        return taken if full is None else full

    def _lock(self, place: Place, run_id: str) -> int | Full:
        """Lock one file of a place and write into it who holds it; return it open. Raises ``OSError``."""
        if self._path is None:
            self._path = str(private_folder(self._folder))
        name = f"{self._path}/{hashlib.sha256(place.key.encode()).hexdigest()[:32]}"
        holder = b""
        for slot in range(place.at_once):
            opened = os.open(f"{name}.{slot}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(opened, run_id.encode()[:_NAME_BYTES].ljust(_NAME_BYTES), 0)
            except BlockingIOError:
                holder = os.pread(opened, _NAME_BYTES, 0)
                os.close(opened)
            except OSError:
                os.close(opened)
                raise
            else:
                return opened
        return Full(place.label, holder.decode(errors="replace").strip() or None)

    async def close(self) -> None:
        """Nothing is held open."""


def _unlock(taken: Iterable[int]) -> None:
    for opened in taken:
        fcntl.flock(opened, fcntl.LOCK_UN)  # at once, also where a child that is being started has the file too
        os.close(opened)

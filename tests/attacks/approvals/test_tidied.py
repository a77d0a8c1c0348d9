"""Somebody tidies up the folder of locks while a server runs, or fills it.

The story: a cleaner takes old files away, and then the folder. Nothing may be restarted without a lock that others
see, and no open file that belongs to something else may be closed by mistake. An agent restarts what a pattern means
under ever new names, each of which is a lock of its own: the folder must not fill up with them.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from guideway.interpreter.leases import Busy, Place
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.file_leases import FileLeases

pytestmark = pytest.mark.anyio
SERVICE = [Place("service database", 1, "service `database`")]


async def test_a_file_that_was_removed_is_not_what_is_locked(tmp_path: Path) -> None:
    one, other = FileLeases(tmp_path / "leases"), FileLeases(tmp_path / "leases")
    for each in (one, other):
        async with each.hold(SERVICE, "before", 0):
            pass
    for file in (tmp_path / "leases").iterdir():
        file.unlink()
    async with one.hold(SERVICE, "first", 0):
        with pytest.raises(Busy):
            async with other.hold(SERVICE, "second", 0):
                raise AssertionError
    await one.close()
    await other.close()


async def test_without_the_folder_there_is_no_lock_and_each_file_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = FileLeases(tmp_path / "leases")
    async with leases.hold(SERVICE, "before", 0):
        pass
    for file in (tmp_path / "leases").iterdir():
        file.unlink()
    (tmp_path / "leases").rmdir()
    closed: Counter[int] = Counter()
    close = os.close

    def counted(descriptor: int) -> None:
        closed[descriptor] += 1
        close(descriptor)

    monkeypatch.setattr(os, "close", counted)
    with pytest.raises(StoreUnavailable):
        async with leases.hold(SERVICE, "after", 0):
            raise AssertionError
    assert list(closed.values()) == [1]


async def test_ever_new_names_leave_no_more_files_than_are_kept(tmp_path: Path) -> None:
    one, other = FileLeases(tmp_path / "leases"), FileLeases(tmp_path / "leases")
    async with other.hold(SERVICE, "other", 0):
        for number in range(1_000):
            async with one.hold([Place(f"service web-{number}", 1, "")], "run", 0):
                pass
        assert len(list((tmp_path / "leases").iterdir())) < 150
        with pytest.raises(Busy):
            async with one.hold(SERVICE, "second", 0):
                raise AssertionError
        await one.close()
        assert len(list((tmp_path / "leases").iterdir())) == 1, "what is held stays"
    await other.close()


async def test_who_has_a_file_open_that_another_removed_locks_what_all_lock(tmp_path: Path) -> None:
    one, other, third = (FileLeases(tmp_path / "leases") for _ in range(3))
    for each in (one, other):
        async with each.hold(SERVICE, "before", 0):
            pass
    await one.close()  # removes the file, which the other one has open
    async with other.hold(SERVICE, "first", 0):
        with pytest.raises(Busy):
            async with third.hold(SERVICE, "second", 0):
                raise AssertionError
    await other.close()

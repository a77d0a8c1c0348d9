"""Leases of each kind: of one process, of one machine by files, and of replicas by rows. One behaviour."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from guideway.interpreter.leases import Busy, Leases, Place, ProcessLeases, Waited
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import open_store
from guideway.interpreter.store.file_leases import FileLeases
from guideway.interpreter.store.sql_leases import SqlLeases
from tests.attacks.cancelling import cancelled_at
from tests.store.conftest import Place as StorePlace
from tests.store.postgresql import Server

pytestmark = pytest.mark.anyio

A, B = Place("a", 1, "service `a`"), Place("b", 1, "service `b`")
THREE = Place("group", 3, "group `all`")
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["process", "files", "rows"])
async def leases(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Leases]:
    """Leases of each kind."""
    if request.param == "process":
        yield ProcessLeases()
        return
    if request.param == "files":
        store, made = open_store(folder=tmp_path / "store")
    else:
        store, made = open_store(url=request.getfixturevalue("server").database())
    yield made
    await made.close()
    await store.close()


async def test_one_at_a_time_and_whoever_waits_comes_next(leases: Leases) -> None:
    inside: list[str] = []
    waits: dict[str, Waited] = {}

    async def one(name: str) -> None:
        async with leases.hold([A], name, 60) as waited:
            waits[name] = waited
            assert not inside
            inside.append(name)
            await anyio.sleep(0.01)
            inside.remove(name)

    async with anyio.create_task_group() as tasks:
        for name in ("first", "second", "third"):
            tasks.start_soon(one, name)
    assert waits["first"] == Waited(0.0)
    assert (waits["second"].label, waits["second"].holder) == ("service `a`", "first")
    assert 0 < waits["second"].seconds < 5


async def test_so_many_of_a_group_and_no_more(leases: Leases) -> None:
    inside, most = 0, 0

    async def one(number: int) -> None:
        nonlocal inside, most
        async with leases.hold([Place(str(number), 1, ""), THREE], str(number), 60):
            inside += 1
            most = max(most, inside)
            await poll(lambda: most >= 3)  # so many fit, however slowly they come
            await anyio.sleep(0.02)
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(one, number)
    assert most == 3


async def test_no_place_is_held_while_another_is_waited_for(leases: Leases) -> None:
    async with anyio.create_task_group() as tasks:

        async def both() -> None:
            async with leases.hold([A, B], "both", 60):
                pass

        async with leases.hold([B], "one", 60):
            tasks.start_soon(both)
            await anyio.sleep(0.1)
            async with leases.hold([A], "two", 0) as waited:  # free: `both` holds nothing yet
                assert waited.seconds == 0


async def test_without_time_to_wait_it_is_busy_and_says_who_holds_it(leases: Leases) -> None:
    async with leases.hold([A], "one", 0):
        for wait in (0, 0.05):
            with pytest.raises(Busy) as busy:
                async with leases.hold([B, A], "two", wait):
                    pass
            assert (busy.value.waited.label, busy.value.waited.holder) == ("service `a`", "one")
            assert wait <= busy.value.waited.seconds < wait + 5
        async with leases.hold([B], "three", 0):
            pass
    async with leases.hold([A, B], "four", 0):
        pass


async def test_programs_that_want_the_same_in_another_order_all_end(leases: Leases) -> None:
    ended = Counter[str]()

    async def one(name: str, places: list[Place]) -> None:
        for _ in range(5):
            async with leases.hold(places, name, 60):
                await anyio.lowlevel.checkpoint()
            ended[name] += 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "there", [A, B, THREE])
            tasks.start_soon(one, "back", [THREE, B, A])
            tasks.start_soon(one, "other", [B, A])
    assert ended == {"there": 5, "back": 5, "other": 5}


async def test_an_error_inside_gives_everything_back(leases: Leases) -> None:
    with pytest.raises(ZeroDivisionError):
        async with leases.hold([A, B], "one", 0):
            raise ZeroDivisionError
    async with leases.hold([A, B], "two", 0):
        pass


@pytest.mark.parametrize("held", [False, True])
async def test_wherever_a_hold_is_cancelled_nothing_is_held(leases: Leases, held: bool) -> None:
    """At each point at which it waits: on its way in, while another holds it, inside, and on its way out."""

    async def hold() -> None:
        async with leases.hold([A, B], "mine", 60):
            await anyio.lowlevel.checkpoint()

    async def other(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with leases.hold([B], "other", 60):
            task_status.started()
            await anyio.sleep(0.01)

    cut, at = True, 0
    while cut:
        at += 1
        async with anyio.create_task_group() as tasks:
            if held:
                await tasks.start(other)
            cut = await cancelled_at(at, hold())
        async with leases.hold([A, B], "after", 0):
            pass
    assert at > 1


def holder(where: dict[str, Any], log: Path, times: int, *places: str) -> subprocess.Popen[bytes]:
    text = json.dumps({name: str(value) for name, value in where.items()})
    command = [sys.executable, "-m", "tests.store.holder", text, str(log), str(times), *places]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines()


async def test_processes_exclude_each_other_and_all_end(place: StorePlace, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    wanted = [("a=1", "group=2"), ("group=2", "b=1"), ("b=1", "a=1", "group=2"), ("c=1", "group=2")]
    processes = [holder(dict(place.where), log, 15, *each) for each in wanted]
    try:
        assert [process.wait(60) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    held = Counter[str]()
    for line in lines(log):
        sign, key = line.split()
        held[key] += 1 if sign == "+" else -1
        assert held[key] <= (2 if key == "group" else 1)
    assert len(lines(log)) == 2 * 15 * sum(map(len, wanted))


async def poll(reached: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not reached():
            await anyio.sleep(0.01)


async def test_a_killed_holder_of_files_frees_its_places_at_once(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "store"
    log.touch()
    process = holder({"folder": folder}, log, 0, "a=1", "b=1")
    try:
        await poll(lambda: len(lines(log)) == 2)
        leases = FileLeases(folder / "leases")
        with pytest.raises(Busy) as busy:
            async with leases.hold([A], "next", 0.05):
                pass
        assert busy.value.waited.holder == f"run-{process.pid}"
    finally:
        process.kill()
        process.wait()
    async with leases.hold([B], "other", 0) as other:
        assert other.orphan == f"run-{process.pid}"
        with pytest.raises(Busy):
            async with leases.hold([A, B], "next", 0):
                pass
    async with leases.hold([A, B], "next", 0) as found:  # what was not held after all still knows it
        assert found.orphan == f"run-{process.pid}"
    async with leases.hold([A, B], "next", 0) as found:
        assert found.orphan is None


async def test_a_killed_holder_of_rows_frees_its_places_when_they_run_out(server: Server, tmp_path: Path) -> None:
    log, url = tmp_path / "log", server.database()
    log.touch()
    process = holder({"url": url}, log, 0, "a=1")
    try:
        await poll(lambda: bool(lines(log)))
    finally:
        process.kill()
        process.wait()
    store, leases = open_store(url=url)
    with pytest.raises(Busy):
        async with leases.hold([A], "next", 0.2):
            pass

    await store.opened.change(lambda _, database: database.exec_driver_sql(PASSED))
    async with leases.hold([B], "next", 1) as found:
        assert found.orphan is None
    async with leases.hold([A], "next", 1) as found:
        assert found.orphan == f"run-{process.pid}"
    async with leases.hold([A], "next", 1) as found:
        assert found.orphan is None
    await leases.close()
    await store.close()


PASSED = "UPDATE guideway_leases SET expires_at = expires_at - 30"


async def test_rows_are_renewed_while_they_are_held_and_what_is_lost_is_said(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.database()
    stores = [open_store(url=url)[0] for _ in range(2)]
    mine, theirs = (SqlLeases(store.opened, seconds=0.6) for store in stores)
    async with mine.hold([A], "mine", 0):
        await anyio.sleep(1)
        with pytest.raises(Busy):
            async with theirs.hold([A], "theirs", 0.1):
                pass
        await stores[1].opened.change(lambda _, database: database.exec_driver_sql(PASSED))
        async with theirs.hold([A], "theirs", 0):
            await poll(lambda: "were lost while they were held" in caplog.text)
        # what goes on under the lost lease goes on, and gives back nothing of anybody else
    async with theirs.hold([A], "theirs", 0):
        pass
    for leases, store in zip((mine, theirs), stores, strict=True):
        await leases.close()
        await store.close()


async def test_where_rows_cannot_be_had_nothing_is_held_and_it_says_so() -> None:
    store, leases = open_store(url="postgresql://nobody@127.0.0.1:1/none")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="refused"):
            async with leases.hold([A], "one", 0):
                pass
    await leases.close()
    await store.close()


def test_a_child_that_is_being_started_keeps_no_lock(tmp_path: Path) -> None:
    """A process that was forked while a lock was held has the same open file."""

    async def main() -> int:
        leases = FileLeases(tmp_path)
        async with leases.hold([A], "one", 0):
            child = os.fork()
            if child == 0:
                signal.pause()
        async with leases.hold([A], "two", 0):
            return child

    child = anyio.run(main)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_place_has_one_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    async def main() -> None:
        leases = FileLeases(tmp_path / "leases")
        for _ in range(2):
            async with leases.hold([Place("service ../../etc", 1, ""), THREE], "run", 0):
                pass

    anyio.run(main)
    files = list((tmp_path / "leases").iterdir())
    assert len(files) == 2
    assert {file.stat().st_mode & 0o777 for file in [*files]} == {0o600}
    assert (tmp_path / "leases").stat().st_mode & 0o777 == 0o700

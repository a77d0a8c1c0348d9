"""What is left of a driver: counted in this process alone, when nothing more is about to go.

Other processes of the tests, and the loop's own next turns, have things that come and go too. So only folders for
sockets are counted that bear this process's number, and the count before waits until it holds still.
"""

import asyncio
import gc
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from tests.system.supervisord import wait_for

from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.store.folder import FILE

_TURNS = 10  # of the loop, in which nothing may change: more than any connection takes to be closed
_SECONDS = 5.0  # for a machine that is busy

_Driver = TypeVar("_Driver", bound=ServiceDriver)
_made: list[ServiceDriver] = []


def closed_later(driver: _Driver) -> _Driver:
    """Return a driver, which is closed before what is left is counted."""
    _made.append(driver)
    return driver


async def close_drivers() -> None:
    """Close the drivers that were made."""
    while _made:
        await _made.pop().close()


class Left(NamedTuple):
    """What a driver can leave in this process."""

    tasks: int
    sockets: int
    files: int
    folders: int


def open_sockets() -> int:
    """Return how many sockets this process has open."""
    return sum(link.startswith("socket:") for link in _open_files())


def left() -> Left:
    """Return what there is now."""
    files = _open_files()
    folders = sum(name.startswith(f"guideway-{os.getpid()}-") for name in os.listdir(tempfile.gettempdir()))
    return Left(len(asyncio.all_tasks()), sum(link.startswith("socket:") for link in files), len(files), folders)


async def in_quiet() -> Left:
    """Return what there is, once that has not changed for a while."""
    gc.collect()  # what nobody refers to any more, in circles
    counted, held = left(), 0
    with anyio.fail_after(_SECONDS):
        while held < _TURNS:
            await (anyio.lowlevel.checkpoint() if held else anyio.sleep(0.001))
            now = left()
            counted, held = now, held + 1 if now == counted else 0
    return counted


async def nothing_more_than(before: Left) -> None:
    """See that no more is left than before, of each kind, soon: what was ended is gone some turns of the loop later."""
    with anyio.move_on_after(_SECONDS):
        while _more(before):
            await anyio.sleep(0.002)
    assert not _more(before), f"left: {_more(before)}, of {sorted(_open_files())}"


@asynccontextmanager
async def leaving_nothing(*elsewhere: Callable[[], int]) -> AsyncIterator[None]:
    """See that nothing more is left than before: in this process, and of what each of ``elsewhere`` counts."""
    before = await in_quiet()
    far = [count() for count in elsewhere]
    yield
    await close_drivers()
    await nothing_more_than(before)
    for count, was in zip(elsewhere, far, strict=True):
        await anyio.to_thread.run_sync(_wait_for_no_more, count, was)


def _wait_for_no_more(count: Callable[[], int], was: int) -> None:
    wait_for(lambda: count() <= was, f"the other end to have no more than {was}", lambda: str(count()))


def _more(before: Left) -> dict[str, tuple[int, int]]:
    """Return what there is more of now than before: how many, and how many there were."""
    now = left()._asdict()
    return {kind: (now[kind], was) for kind, was in before._asdict().items() if now[kind] > was}


def _open_files() -> list[str]:
    """Return what is open, without stores in the state of other tests.

    Where such a test did not close its own, its threads take connections when they come to it.
    """
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing's own, and what another thread has closed
            continue
    mine = os.environ["XDG_STATE_HOME"]
    return [link for link in links if FILE not in link or link.startswith(mine)]

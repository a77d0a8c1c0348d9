"""Running a program within bounds, from the side of Guideway: started, waited for, and gone when the call is over."""

import itertools
import logging
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import RunVar

import guideway
from guideway.interpreter.children import system
from guideway.interpreter.children.cgroup import Group, delegation
from guideway.interpreter.children.order import END_SECONDS, ENVIRONMENT, Ended, How, Means, Order

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""How many programs run at the same time, in this process; others wait, within their own deadline."""

_PATIENCE_SECONDS: Final = END_SECONDS + 1.0  # for a launcher that was told to end
_MOST_REPORTED: Final = 1 << 20
_NUMBERS = itertools.count(1)
_ROOM: RunVar[anyio.CapacityLimiter] = RunVar("room for children")
# The folder that has ``guideway`` comes last, so that nothing in it stands in for the standard library.
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); from guideway.interpreter.children.launcher import main; main()"
)


async def run(order: Order) -> Ended:
    """Run a program, and return what became of it once nothing of it is left.

    That holds also where the call is cancelled, which then takes up to ``END_SECONDS`` and a second more; usually it
    takes milliseconds. The environment of this process is not the program's. What it waits for its turn is a part of
    its seconds. Raises ``OSError`` where the launcher cannot be started.
    """
    _close_to_others()
    until = time.monotonic() + order.bounds.seconds
    room = _room()
    with anyio.move_on_after(order.bounds.seconds) as scope:
        await room.acquire()
    if scope.cancelled_caught:
        return Ended(How.NO_ROOM)
    try:
        return await _run(replace(order, until=until))
    finally:
        room.release()


def _room() -> anyio.CapacityLimiter:
    try:
        return _ROOM.get()
    except LookupError:
        room = anyio.CapacityLimiter(AT_ONCE)
        _ROOM.set(room)
        return room


async def _run(order: Order) -> Ended:
    given = delegation()
    group, missing = None, {}
    if given.folder is not None and Means.CGROUP in order.means:
        group = f"{given.folder}/guideway-{os.getpid()}-{next(_NUMBERS)}"
    if given.lacking is not None or group is None:
        missing[Means.CGROUP] = given.lacking or "not used"
    launcher = await _Launcher.start(group)
    try:
        report = await launcher.carry_out(_complete(order, group))
    finally:
        with anyio.CancelScope(shield=True):
            await launcher.end()
    if not report.endswith(b"\n"):
        return Ended(How.NOT_STARTED, why="what was to start and watch it was ended from outside", missing=missing)
    ended = Ended.of_line(report)
    return replace(ended, missing={**missing, **ended.missing})


def _complete(order: Order, group: str | None) -> Order:
    return replace(order, group=group, environment={**order.environment, **ENVIRONMENT})


class _Launcher:
    """The process that starts and watches one program."""

    def __init__(self, process: Process, stdin: ByteSendStream, stdout: ByteReceiveStream, group: str | None) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._group = group

    @classmethod
    async def start(cls, group: str | None) -> "_Launcher":
        """Start one. Raises ``OSError``."""
        root = str(Path(guideway.__file__).parents[1])
        command = [sys.executable, "-I", "-S", "-c", _START, root]
        with anyio.CancelScope(shield=True) as scope:  # one that nobody knows of would be nobody's to end
            process = await anyio.open_process(
                command, stderr=None, cwd="/", env=dict(ENVIRONMENT), start_new_session=True
            )
        if scope.cancelled_caught or process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without its pipes")
        return cls(process, process.stdin, process.stdout, group)

    async def carry_out(self, order: Order) -> bytes:
        """Return all that it says: one line, and less where it was ended."""
        said = bytearray()
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._stdin.send(order.to_line())
            while len(said) < _MOST_REPORTED and not said.endswith(b"\n"):
                said += await self._stdout.receive()
        return bytes(said)

    async def end(self) -> None:
        """See that it has ended, and all that it started with it. Bounded, whatever a program does to it."""
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._stdin.aclose()
        with anyio.move_on_after(_PATIENCE_SECONDS) as scope:
            await self._process.wait()
        if scope.cancelled_caught:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._stdout.aclose()
        if self._process.returncode != 0:
            how = self._process.returncode
            logger.error("what watches a child process ended with %s; something of that child may live on", how)
            if self._group is not None:
                with suppress(OSError):
                    Group(self._group).remove(0.1)


def _close_to_others() -> None:
    """See that no program of this process's user can read its memory or environment (/proc/PID/mem, ptrace(2))."""
    global _closed  # noqa: PLW0603  # it is a fact about the process
    if system.LINUX and not _closed:
        system.set_dumpable(False)
        _closed = True


_closed = False

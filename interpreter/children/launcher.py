"""The process between Guideway and a program: it starts that within bounds, and ends when nothing of it is left.

It is a process of its own, so that what it takes from itself (limits, user, namespaces) is taken from a process with
one thread, and so that it goes on when Guideway cannot: an end of file on its standard input, which comes also when
Guideway is killed, ends the program. It reads what that writes, without end, and keeps the tail, so that a flood never
reaches Guideway. Standard library only: it is started for each check.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from guideway.interpreter.children import system, tree
from guideway.interpreter.children.cgroup import Group
from guideway.interpreter.children.descent import Descent
from guideway.interpreter.children.order import END_SECONDS, Ended, How, Means, Order
from guideway.interpreter.children.trust import distrust

_CONTROL: Final = 0
_CHUNK: Final = 65_536


class _Tail:
    """The end of what a pipe brings. ``open`` until its last writer is gone."""

    def __init__(self, most: int) -> None:
        self.reads, self.writes = os.pipe()
        os.set_blocking(self.reads, False)
        self.open = True
        self.cut = 0
        self.kept = b""
        self._most = most

    def take(self) -> None:
        """Read once what is there."""
        try:
            some = os.read(self.reads, _CHUNK)
        except BlockingIOError:
            return
        self.open = bool(some)
        kept = self.kept + some
        self.kept = kept[-self._most :]
        self.cut += len(kept) - len(self.kept)

    def drain(self) -> None:
        """Read what is there now; at most what a pipe can hold, where somebody goes on writing."""
        for _ in range(17):  # pipe-max-size is a megabyte (pipe(7)) unless root has raised it
            before = len(self.kept) + self.cut
            if self.open:
                self.take()
            if len(self.kept) + self.cut == before:
                return


class _Run:
    """One program, from its start until nothing of it is left."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._out, self._err = (_Tail(order.bounds.output_bytes) for _ in range(2))
        self._hears, self._tells = os.pipe()
        self._woken, wakes = os.pipe()
        for descriptor in (self._woken, wakes, self._hears):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._heard = b""
        self._missing: dict[Means, str] = {}
        self._failed: str | None = None
        self._status: int | None = None
        self._program: int | None = None

    def run(self) -> Ended:
        """Return what became of the program."""
        if self._order.checked and (why := distrust(self._order.program)) is not None:
            return Ended(How.NOT_STARTED, why=why)
        self._adopt()
        group = self._group()
        child = os.fork()
        if child == 0:
            Descent(self._order, group, self._tells, self._out.writes, self._err.writes).go()
        for descriptor in (self._tells, self._out.writes, self._err.writes):
            os.close(descriptor)
        how = self._watch(child)
        left = self._end(group)
        self._hear()
        out_of_memory = False
        if group is not None:
            out_of_memory = group.ran_out_of_memory()
            with suppress(OSError):  # what is in it is in ``left``
                group.remove(0.0 if left else END_SECONDS)
        return self._ended(how, out_of_memory, left)

    def _adopt(self) -> None:
        if not system.LINUX:
            self._missing |= {Means.SUBREAPER: "this system has none", Means.NO_NEW_PRIVS: "this system has none"}
        elif Means.SUBREAPER not in self._order.means:
            self._missing[Means.SUBREAPER] = "not used"
        else:
            try:
                system.adopt_orphans()
            except OSError as error:
                self._missing[Means.SUBREAPER] = str(error.strerror)

    def _group(self) -> Group | None:
        if self._order.group is None or Means.CGROUP not in self._order.means:
            return None
        group = Group(self._order.group)
        try:
            group.make(self._order.bounds)
        except OSError as error:
            self._missing[Means.CGROUP] = f"none can be made: {os.strerror(error.errno or 0).lower()}"
            with suppress(OSError):
                group.remove(0.0)
            return None
        return group

    def _watch(self, child: int) -> How:
        """Wait until the program ends or has to end. Return which."""
        poll = select.poll()
        for descriptor in (_CONTROL, self._woken, self._hears, self._out.reads, self._err.reads):
            poll.register(descriptor, select.POLLIN)
        while self._status is None and self._failed is None and not _has_ended(child):
            left = self._order.until - time.monotonic()
            if left <= 0:
                return How.TIMED_OUT
            for descriptor, _ in poll.poll(left * 1000):
                if descriptor == _CONTROL:
                    return How.CANCELLED
                if not self._take(descriptor):
                    poll.unregister(descriptor)
        self._hear()  # what ended the child may have been told just before
        return How.EXITED

    def _take(self, descriptor: int) -> bool:
        """Take what a descriptor brings. Return whether more can come."""
        if descriptor == self._hears:
            return self._hear()
        if descriptor == self._woken:
            _empty(descriptor)
            return True
        tail = self._out if descriptor == self._out.reads else self._err
        tail.take()
        return tail.open

    def _end(self, group: Group | None) -> list[int]:
        """End everything that was started, and return what could not be."""
        if group is not None:
            group.kill()
        if self._program is not None and not system.LINUX:
            with suppress(OSError):
                os.killpg(self._program, signal.SIGKILL)
        left = tree.end_all(END_SECONDS)
        self._out.drain()
        self._err.drain()
        return left

    def _hear(self) -> bool:
        """Take in what the processes below tell. Return whether more can come."""
        while True:
            try:
                some = os.read(self._hears, _CHUNK)
            except BlockingIOError:
                return True
            if not some:
                return False
            *lines, self._heard = (self._heard + some).split(b"\n")
            for line in lines:
                self._told(json.loads(line))

    def _told(self, said: dict[str, Any]) -> None:
        if "missing" in said:
            means, why = said["missing"]
            self._missing[Means(means)] = why
        if "failed" in said:
            self._failed = said["failed"]
        if "program" in said:
            self._program = said["program"]
        if "status" in said:
            self._status = said["status"]

    def _ended(self, how: How, out_of_memory: bool, left: list[int]) -> Ended:
        number, why = 0, ""
        if self._failed is not None:
            how, why = How.NOT_STARTED, self._failed
        elif how is How.EXITED and self._status is None:
            how, number = How.SIGNALLED, int(signal.SIGKILL)  # what minded it is gone, and with that it
        elif how is How.EXITED and self._status is not None:
            code = os.waitstatus_to_exitcode(self._status)
            how, number = (How.EXITED, code) if code >= 0 else (How.SIGNALLED, -code)
        return Ended(
            how,
            number,
            why,
            self._out.kept,
            self._err.kept,
            (self._out.cut, self._err.cut),
            out_of_memory,
            self._missing,
            tuple(left),
        )


def _has_ended(child: int) -> bool:
    """Say whether a child has ended, and leave it to be reaped."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _empty(descriptor: int) -> None:
    with suppress(BlockingIOError):
        while os.read(descriptor, _CHUNK):
            pass


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Be there, so that the signal wakes."""


def main() -> None:
    """Read an order from standard input, carry it out, and write what became of it to standard output."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if system.LINUX:
        system.set_dumpable(False)  # a program of the same user must not look in here
    line = b""
    while not line.endswith(b"\n"):
        some = os.read(_CONTROL, _CHUNK)
        if not some:
            return  # nobody waits any more
        line += some
    report = _Run(Order.of_line(line)).run().to_line()
    with suppress(BrokenPipeError), open(sys.stdout.fileno(), "wb", closefd=False) as pipe:
        pipe.write(report)

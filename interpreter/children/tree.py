"""Ending a process with everything that it started. Standard library only: the launcher loads it.

Owns the order: stop all, so that nobody starts more, then kill all. Whoever ends a tree has adopted its orphans
(``system.adopt_orphans``), so that it has no child left exactly when the tree is gone.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

_PAUSE_SECONDS = 0.001
_STOP_PASSES = 4  # each finds what was started since; one that starts and ends all the time is never stopped


def end_all(seconds: float) -> list[int]:
    """Kill and reap every descendant of this process. Return those that are left after some seconds: none, usually.

    One is left where the kernel cannot end it yet, as in a system call on a file system that does not answer.
    """
    end = time.monotonic() + seconds
    while not reap():
        stopped: set[int] = set()
        for _ in range(_STOP_PASSES):
            more = set(descendants()) - stopped
            if not more:
                break
            _send(more, signal.SIGSTOP)
            stopped |= more
        _send(stopped, signal.SIGKILL)
        if reap():
            break
        if time.monotonic() > end:
            return sorted(descendants())
        time.sleep(_PAUSE_SECONDS)
    return []


def reap() -> bool:
    """Take note of every child that has ended. Return whether there is none any more."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def descendants() -> list[int]:
    """Return the children of this process, theirs, and so on, as far as the system tells."""
    parents: dict[int, list[int]] = {}
    for name in _listed():
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command's name, in parentheses, may hold anything; state and parent stand behind the last one.
                parent = int(file.read(4096).rpartition(b")")[2].split()[1])
            parents.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _listed() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):  # it has ended since
            os.kill(pid, number)

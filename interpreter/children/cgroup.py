"""A control group of its own for each child, where this process has been given a part of the tree (cgroup v2).

Owns where that part is and what it can bound. A part is given by systemd (``Delegate=``), which marks it, or is the
root of what a container sees. Nothing else is written to, even by root: those groups are somebody else's.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from guideway.interpreter.children.bounds import MEGABYTE, Bounds

_WANTED = ("memory", "pids")
_MARK = "user.delegate"  # systemd.resource-control(5), Delegate=
_HELPERS = 2  # processes of the launcher's own that are in the group
_PAUSE_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Delegation:
    """Where groups can be made, None where they cannot be, and what they can bound. ``lacking`` says what is not so."""

    folder: str | None
    controllers: tuple[str, ...] = ()
    lacking: str | None = None


@cache
def delegation() -> Delegation:
    """Return what this process has been given. Found out once: it does not change while a process lives."""
    mount = _mount()
    if mount is None:
        return Delegation(None, lacking="no cgroup v2 is mounted")
    own = _own()
    if own is None:
        return Delegation(None, lacking="this process is in no group of cgroup v2 that it can see")
    return examine(mount, own)


def examine(mount: str, own: str) -> Delegation:
    """Return what a process in the group ``own`` of a hierarchy has been given."""
    folder = mount + own.rstrip("/")
    parent = os.path.dirname(folder)
    if own != "/" and not _is_marked(folder) and _is_marked(parent):
        folder = parent
    elif own != "/" and not _is_marked(folder):
        return Delegation(None, lacking="its group is not its own: `Delegate=yes` in the unit gives it one")
    if not (os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)):
        return Delegation(None, lacking=f"its group `{folder}` cannot be written")
    if not os.path.exists(f"{folder}/cgroup.procs"):
        return Delegation(None, lacking=f"`{folder}` is no control group")
    there = _read(f"{folder}/cgroup.controllers").split()
    for name in _WANTED:
        if name in there and name not in _read(f"{folder}/cgroup.subtree_control").split():
            with suppress(OSError):  # EBUSY: there are processes in the group itself
                _write(f"{folder}/cgroup.subtree_control", f"+{name}")
    enabled = _read(f"{folder}/cgroup.subtree_control").split()
    controllers = tuple(name for name in _WANTED if name in enabled)
    missing = [name for name in _WANTED if name not in controllers]
    if not missing:
        return Delegation(folder, controllers)
    why = (
        "this process is in the group itself: `DelegateSubgroup=` in the unit moves it below"
        if all(name in there for name in missing)
        else "the hierarchy does not have them"
    )
    return Delegation(folder, controllers, f"it kills, and does not bound {' and '.join(missing)}: {why}")


def _mount() -> str | None:
    for line in _read("/proc/self/mountinfo").splitlines():
        # proc_pid_mountinfo(5): the type stands behind a lone dash, the mount point is the fifth field.
        before, _, behind = line.partition(" - ")
        if behind.split(" ")[:1] == ["cgroup2"]:
            return before.split(" ")[4].replace("\\040", " ")
    return None


def _own() -> str | None:
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            path = line[3:]
            return None if path.startswith("/..") else path
    return None


def _is_marked(folder: str) -> bool:
    try:
        return os.getxattr(folder, _MARK) == b"1"
    except (OSError, AttributeError):
        return False


@dataclass(frozen=True, slots=True)
class Group:
    """One control group. Made and removed by the launcher, whose children go into it; it stays outside itself."""

    folder: str

    def make(self, bounds: Bounds) -> None:
        """Make it, with its bounds. Raises ``OSError``."""
        os.mkdir(self.folder, 0o700)
        self.bound(bounds)

    def bound(self, bounds: Bounds) -> None:
        """State the bounds that its hierarchy can hold. Raises ``OSError``."""
        settings = {
            "memory.max": bounds.memory_mb * MEGABYTE,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "pids.max": bounds.processes + _HELPERS,
        }
        for name, value in settings.items():
            if os.path.exists(f"{self.folder}/{name}"):
                _write(f"{self.folder}/{name}", str(value))

    def enter(self) -> None:
        """Put this process into it. Raises ``OSError``."""
        _write(f"{self.folder}/cgroup.procs", "0")

    def kill(self) -> None:
        """Kill everything in it at once, whatever it forks meanwhile (Linux 5.14)."""
        with suppress(OSError):
            _write(f"{self.folder}/cgroup.kill", "1")

    def ran_out_of_memory(self) -> bool:
        """Say whether the kernel has killed something in it for want of memory."""
        return any(
            line.split()[0] == "oom_kill" and line.split()[1] != "0"
            for line in _read(f"{self.folder}/memory.events").splitlines()
        )

    def remove(self, seconds: float) -> None:
        """Kill what is in it and remove it, for which there are some seconds. Raises ``OSError`` where it stays."""
        end = time.monotonic() + seconds
        while True:
            self.kill()
            try:
                os.rmdir(self.folder)
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)

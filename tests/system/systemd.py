"""A real systemd for tests: process 1 of a container with a message bus of its own, asked from outside over that."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.system.machine import need
from tests.system.supervisord import wait_for

_BOX = """\
[Unit]
Requires=dbus.socket dbus.service
After=dbus.service
"""
_DBUS = "org.freedesktop.systemd1"
_MANAGER = (_DBUS, "/org/freedesktop/systemd1", f"{_DBUS}.Manager")
# Each container has control groups of its own: a systemd takes every process in the one of a unit's name for the
# unit's, and kills it too. The hierarchies of a hybrid system, and the one of a unified system.
_CGROUPS = (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_ENTER = 'n=$1; shift; while [ $n -gt 0 ]; do echo $$ >"$1/cgroup.procs"; shift; n=$((n-1)); done; exec "$@"'
# What a system does at its start and this one has no use for.
_UNWANTED = (
    *("systemd-firstboot", "systemd-machine-id-commit", "systemd-update-utmp", "systemd-remount-fs"),
    *("systemd-journal-flush", "systemd-journald", "systemd-udevd", "systemd-logind"),
)


def need_containers() -> None:
    """Skip the test where no systemd can be started: it takes root and systemd-nspawn. In CI that is a failure."""
    need("a systemd for tests", {"systemd-nspawn": "systemd-container", "busctl": "systemd"})


class Systemd:
    """A context manager. Units are given by their files' text, by name; ``None`` masks one. Nothing starts by itself.

    The client here is busctl, not the product's: what the tests know of the world they know from elsewhere. ``rules``
    is JavaScript for polkit; the container has a polkit where that is given.
    """

    def __init__(self, units: Mapping[str, str | None], *, rules: str | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))  # a unix socket's path has at most 107 bytes
        self.units = self.folder / "units"
        self.bus = self.folder / "dbus/system_bus_socket"
        self.box: subprocess.Popen[bytes] | None = None
        self._name = f"gw-{uuid.uuid4().hex[:12]}"
        self._cgroups = [root / self._name for root in _CGROUPS if (root / "cgroup.procs").exists()]
        for name in ("units", "dbus", "rules"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        self.write("box.target", _BOX)
        for name in _UNWANTED:
            self.write(f"{name}.service", None)
        for name, text in units.items():
            self.write(name, text)
        self._binds = [f"--bind={self.units}:/run/systemd/system", f"--bind={self.bus.parent}:/run/dbus"]
        if rules is None:
            self.write("polkit.service", None)
        else:
            (self.folder / "rules/50-test.rules").write_text(rules)
            self._binds += [f"--bind-ro={self.folder / 'rules'}:/etc/polkit-1/rules.d"]
            self._binds += [f"--bind-ro={file}" for file in ("/etc/passwd", "/etc/group")]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        shutil.rmtree(self.folder)

    def write(self, name: str, text: str | None) -> None:
        """Put a unit's file there, None to mask it. systemd reads it at its start or by ``reload``."""
        file = self.units / name
        file.unlink(missing_ok=True)
        if text is None:
            file.symlink_to("/dev/null")
        else:
            file.write_text(text)

    def start(self) -> None:
        """Start systemd and wait until it answers."""
        for folder in self._cgroups:
            folder.mkdir(exist_ok=True)
        with (self.folder / "out").open("ab") as out:
            self.box = subprocess.Popen(
                [
                    *("sh", "-ec", _ENTER, "sh", str(len(self._cgroups)), *map(str, self._cgroups)),
                    *("systemd-nspawn", "-q", "-D", "/", "--volatile=yes", "--register=no", "--keep-unit"),
                    *(f"--machine={self._name}", "--console=pipe", "--kill-signal=SIGRTMIN+3"),
                    *self._binds,
                    *("/lib/systemd/systemd", "--unit=box.target", "--show-status=false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        wait_for(self._answers, "systemd to answer", (self.folder / "out").read_text)

    def end(self) -> None:
        """End systemd and everything in the container, stubborn units too."""
        if self.box is None:
            return
        # With process 1 everything in the container dies; systemd-nspawn then ends by itself, and takes nothing with it
        # where it is killed.
        if self.box.poll() is None:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(self.leader(), signal.SIGKILL)
        self.box.wait(10)
        self.box = None
        self.bus.unlink(missing_ok=True)
        wait_for(self._cgroups_are_gone, "the control groups to be empty")

    def leader(self) -> int:
        """Return the process id of the container's systemd, as this machine counts."""
        assert self.box is not None
        children = Path(f"/proc/{self.box.pid}/task/{self.box.pid}/children").read_text().split()
        for child in children:
            inner = Path(f"/proc/{child}/task/{child}/children").read_text().split()
            return int(inner[0] if inner and Path(f"/proc/{child}/comm").read_text() != "systemd\n" else child)
        raise AssertionError("the container is gone")

    def freeze(self, name: str, stop: bool = True) -> None:
        """Stop a process of the container's by its command name where it stands, or let it go on."""
        os.kill(self._outside(name), signal.SIGSTOP if stop else signal.SIGCONT)

    def _outside(self, name: str) -> int:
        leader = self.leader()
        if Path(f"/proc/{leader}/comm").read_text().strip() == name:
            return leader
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        return next(int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == name)

    # ---- what systemd says, and is asked to do, without the product

    def get(self, unit: str, name: str) -> Any:
        """Return a property of a unit."""
        interface = "Unit" if name in {"ActiveState", "SubState", "LoadState", "InvocationID", "Job"} else "Service"
        path = self.ask("LoadUnit", "s", unit)
        answer = self._busctl("get-property", _DBUS, path, f"{_DBUS}.{interface}", name)
        return answer["data"]

    def state(self, unit: str) -> str:
        """Return a unit's state in systemd's words, such as ``active``."""
        return str(self.get(unit, "ActiveState"))

    def pid(self, unit: str) -> int:
        """Return the unit's main process, as the container counts; 0 where it does not run."""
        return int(self.get(unit, "MainPID"))

    def run(self, unit: str) -> int:
        """Start a unit, wait until it is active, and return its main process."""
        self.ask("StartUnit", "ss", unit, "replace")
        self.wait_until(unit, "active")
        return self.pid(unit)

    def stop(self, unit: str, wait: bool = True) -> None:
        """Stop a unit."""
        self.ask("StopUnit", "ss", unit, "replace")
        if wait:
            wait_for(lambda: self.state(unit) in {"inactive", "failed"}, f"{unit} to stop", lambda: self.state(unit))

    def kill(self, unit: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a unit's processes."""
        self.ask("KillUnit", "ssi", unit, "all", str(int(number)))

    def forget(self, unit: str) -> None:
        """Forget that a unit failed, and how often it was started."""
        self.ask("ResetFailedUnit", "s", unit)

    def reload(self) -> None:
        """Have systemd read the units' files again."""
        self.ask("Reload", "")

    def wait_until(self, unit: str, state: str) -> None:
        """Wait until a unit is in a state, in systemd's words."""
        wait_for(lambda: self.state(unit) == state, f"{unit} to be {state}", lambda: self.state(unit))

    def ask(self, method: str, signature: str, *arguments: str) -> str:
        """Call a method of systemd's, and return the first part of its answer as text."""
        given = (signature, *arguments) if signature else ()
        answer = self._busctl("call", *_MANAGER, method, *given)
        return str(answer["data"][0]) if answer and answer["data"] else ""

    def clients(self) -> dict[str, list[str]]:
        """Return the match rules of each connection to the bus that has any."""
        answer = self._busctl(
            *("call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats"),
            "GetAllMatchRules",
        )
        found: dict[str, list[str]] = answer["data"][0]
        return {name: rules for name, rules in found.items() if rules}

    def connections(self) -> int:
        """Return how many connections the bus has, the one that asks among them."""
        answer = self._busctl(
            *("call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListNames")
        )
        return sum(name.startswith(":") for name in answer["data"][0])

    def _busctl(self, *words: str) -> Any:
        ran = subprocess.run(
            ["busctl", f"--address=unix:path={self.bus}", "--json=short", *words],
            check=False,
            capture_output=True,
            text=True,
        )
        if ran.returncode != 0:
            raise OSError(ran.stderr)
        return json.loads(ran.stdout) if ran.stdout.strip() else None

    def _cgroups_are_gone(self) -> bool:
        for folder in self._cgroups:
            for inner, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # the last processes are reaped in their own time
                    os.rmdir(inner)
        return not any(folder.exists() for folder in self._cgroups)

    def _answers(self) -> bool:
        assert self.box is not None
        assert self.box.poll() is None, (self.folder / "out").read_text()
        with contextlib.suppress(OSError):
            return self._busctl("get-property", *_MANAGER, "Version") is not None
        return False

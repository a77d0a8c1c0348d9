"""A real Docker or Podman for tests: an engine with folders, namespaces and control groups of its own; one image."""

import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.system.machine import need
from tests.system.supervisord import wait_for

KINDS: Final = ("docker", "podman")

_CGROUPS = Path("/sys/fs/cgroup")
_BUSYBOX = Path("/bin/busybox")
NEEDS: Final = {
    "docker": {"dockerd": "docker.io", "iptables": "iptables", "busybox": "busybox-static"},
    "podman": {"podman": "podman", "busybox": "busybox-static"},
}
_APPLETS = ("sh", "sleep", "true", "echo", "test", "touch", "printf", "tail", "head", "tr", "cat", "rm")

# Its processes end with process 1 of its namespace, which is what `unshare` becomes the parent of; what it mounts, and
# what it leaves in /run and /dev/shm, is seen by nobody else. Of a hybrid system Podman must see the old half only.
_ENTER: Final = (
    *("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child=SIGKILL", "--mount-proc", "sh", "-ec"),
    """\
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -p /run/docker/plugins
[ -z "$PLUGIN" ] || ln -s "$PLUGIN" /run/docker/plugins/gw.sock
[ "$1" = dockerd ] || ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
"$@" &
wait""",
    "sh",
)
_PODMAN_CONF: Final = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def need_engine(kind: str) -> None:
    """Skip the test where no such engine can be started: it takes root and Debian's packages. In CI it is a failure."""
    need(f"a {kind} for tests", NEEDS[kind])


class Engine:
    """A context manager. Containers are given by what the API creates them from, by name. Nothing starts by itself.

    The client here is the standard library's, not the product's: what the tests know of the world they know from
    elsewhere. ``plugin`` is the socket of an authorization plugin, for Docker.
    """

    def __init__(self, kind: str, containers: Mapping[str, Mapping[str, Any]], *, plugin: Path | None = None) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))  # a unix socket's path has at most 107 bytes
        self.socket = self.folder / "s"
        self.box: subprocess.Popen[bytes] | None = None
        self._containers = containers
        self._plugin = plugin
        self._image = ""
        self._cgroup = f"gw-{uuid.uuid4().hex[:12]}"
        (self.folder / "containers.conf").write_text(_PODMAN_CONF)

    def __enter__(self) -> Self:
        try:
            self.start()
            self._image = self._import()
            for name, what in self._containers.items():
                self.create(name, what)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start the engine and wait until it answers."""
        plugin = {"PLUGIN": str(self._plugin or "")}
        conf = {"CONTAINERS_CONF": str(self.folder / "containers.conf")}
        with (self.folder / "out").open("ab") as out:
            self.box = subprocess.Popen(
                [*_ENTER, *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=self.folder,  # where Podman's monitor notes that a container ran out of memory
                env={**os.environ, **plugin, **conf},
            )
        wait_for(self._answers, f"{self.kind} to answer", (self.folder / "out").read_text)

    def end(self) -> None:
        """End the engine and every container."""
        if self.box is None:
            return
        self.box.kill()
        self.box.wait(10)
        self.box = None
        self.socket.unlink(missing_ok=True)
        wait_for(self._cgroups_are_gone, "the control groups to be empty")

    # ---- what the engine says, and is asked to do, without the product

    def create(self, name: str, what: Mapping[str, Any]) -> str:
        """Make a container and return its id."""
        host = {"NetworkMode": "none", "CgroupParent": f"/{self._cgroup}", **what.get("HostConfig", {})}
        return str(
            self.ask("POST", f"/containers/create?name={name}", {"Image": self._image, **what, "HostConfig": host})[
                "Id"
            ]
        )

    def inspect(self, name: str) -> Any:
        """Return all that the engine says of a container."""
        return self.ask("GET", f"/containers/{name}/json")

    def state(self, name: str) -> str:
        """Return a container's state in the engine's words, such as ``running``."""
        return str(self.inspect(name)["State"]["Status"])

    def started(self, name: str) -> str:
        """Return when a container was last started: what is another after each start."""
        return str(self.inspect(name)["State"]["StartedAt"])

    def run(self, name: str) -> str:
        """Start a container, wait until it says that it is ready where it is one that does; return when it started."""
        before = self.log(name).count(b"ready")
        if self.ask("POST", f"/containers/{name}/start") is not None and self._says_ready(name):
            wait_for(lambda: self.log(name).count(b"ready") > before, f"{name} to be ready")
        return self.started(name)

    def stop(self, name: str) -> None:
        """Stop a container."""
        self.ask("POST", f"/containers/{name}/stop?t=5")

    def kill(self, name: str) -> None:
        """Kill a container's main process. Podman has no request for that while it stops one."""
        assert self.box is not None
        inside = ["nsenter", "--pid", "--mount", "--target", str(_children(self.box.pid)[0])]
        subprocess.run([*inside, "sh", "-c", f"kill -9 {self.inspect(name)['State']['Pid']}"], check=True)

    def wait_until(self, name: str, *states: str) -> None:
        """Wait until a container is in one of some states, in the engine's words."""
        wait_for(lambda: self.state(name) in states, f"{name} to be {states}", lambda: str(self.inspect(name)["State"]))

    def wait_for_health(self, name: str, health: str) -> None:
        """Wait until a container has that health. Podman checks by systemd's timers, and here there are none."""

        def is_so() -> bool:
            self.check_health(name)
            return str(self.inspect(name)["State"]["Health"]["Status"]) == health

        wait_for(is_so, f"{name} to be {health}", lambda: str(self.inspect(name)["State"]))

    def check_health(self, name: str) -> None:
        """Do what a timer would: with Podman run a container's health check."""
        if self.kind == "podman":
            self._ask("GET", f"/v4.0.0/libpod/containers/{name}/healthcheck", None)

    def log(self, name: str) -> bytes:
        """Return all that a container wrote, as the engine frames it."""
        return self._ask("GET", f"/v1.41/containers/{name}/logs?stdout=1&stderr=1", None)[1]

    def connections(self) -> int:
        """Return how many connections the engine has open."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        return sum(line.endswith(f" {self.socket}") and line.split()[5] == "03" for line in lines)

    def freeze(self, stop: bool) -> None:
        """Stop the engine where it stands, and not its containers, or let it go on."""
        assert self.box is not None
        (engine, *_) = _children(_children(self.box.pid)[0])
        os.kill(engine, signal.SIGSTOP if stop else signal.SIGCONT)
        if stop:  # one of its threads may answer still until all of them have stopped
            wait_for(lambda: all(_is_stopped(task) for task in Path(f"/proc/{engine}/task").iterdir()), "it to stop")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the engine's answer, None where nothing was to be done. Raises ``OSError`` for a refusal."""
        status, answer = self._ask(method, f"/v1.41{path}", None if body is None else json.dumps(body).encode())
        if status >= 400:
            raise OSError(f"{method} {path}: {status} {answer!r}")
        return None if status == 304 else json.loads(answer or b"{}")

    def _ask(self, method: str, path: str, body: bytes | None, kind: str = "application/json") -> tuple[int, bytes]:
        connection = Connection(self.socket)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _import(self) -> str:
        """Make an image of one program and return its id."""
        path = "/v1.41/images/create?fromSrc=-&repo=box&tag=1"
        status, answer = self._ask("POST", path, _image(), "application/x-tar")
        assert status == 200, answer
        (image,) = self.ask("GET", "/images/json")
        return str(image["Id"])

    def _command(self) -> Sequence[str]:
        data = str(self.folder / "data")
        if self.kind == "podman":
            return (
                *("podman", "--root", data, "--runroot", "/run/gw", "--tmpdir", "/run/gw-tmp"),
                *("system", "service", "--time=0", f"unix://{self.socket}"),
            )
        return (
            *("dockerd", "--data-root", data, "--exec-root", "/run/gw", "--pidfile", "/run/gw.pid"),
            *("-H", f"unix://{self.socket}", "--bridge=none", "--iptables=false", "--ip6tables=false"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--default-ulimit", "nofile=1024:1024"),
            *(("--authorization-plugin", "gw") if self._plugin else ()),
        )

    def _says_ready(self, name: str) -> bool:
        return "echo ready" in " ".join(self._containers.get(name, {}).get("Cmd", ()))

    def _answers(self) -> bool:
        assert self.box is not None
        assert self.box.poll() is None, (self.folder / "out").read_text()
        with contextlib.suppress(OSError):
            return self._ask("GET", "/_ping", None)[0] == 200
        return False

    def _cgroups_are_gone(self) -> bool:
        folders = [root / self._cgroup for root in (_CGROUPS, *_CGROUPS.iterdir()) if (root / self._cgroup).is_dir()]
        for folder in folders:
            for inner, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # the last processes are reaped in their own time
                    os.rmdir(inner)
        return not any(folder.exists() for folder in folders)


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


@cache
def _image() -> bytes:
    """Return a file system with one program in it, as a tar."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for folder in ("bin", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        tar.add(_BUSYBOX, "bin/busybox")
        for name in _APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return written.getvalue()


def _is_stopped(task: Path) -> bool:
    """Say whether a thread is stopped (proc_pid_stat(5): the state stands behind the name)."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

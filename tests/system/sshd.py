"""A real sshd for tests: on a free loopback port, with host keys and users' keys of its own, as an ordinary process."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.system.machine import need, program
from tests.system.supervisord import wait_for

from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import Way

_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {user} nobody
LogLevel VERBOSE
MaxSessions 0
MaxStartups 100
"""
ME = pwd.getpwuid(os.geteuid()).pw_name


def need_sshd() -> str:
    """Return the path of sshd; skip the test where there is none. In CI that is a failure."""
    need("a far machine", {"sshd": "openssh-server"}, root=False)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where it parts with its rights
    found = program("sshd")
    assert found is not None
    return found


class Sshd:
    """A context manager. ``settings`` are lines of its configuration, ``key_options`` what stands before the user's key
    in ``authorized_keys``. It lets in the user of the tests and, where that is root, ``nobody``.
    """

    def __init__(self, *settings: str, key_options: str = "restrict,port-forwarding") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.key, self.known_hosts = self.folder / "user", self.folder / "known_hosts"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        make_key(self.folder / "host")
        make_key(self.key)
        (self.folder / "authorized_keys").write_text(f"{key_options} {public(self.key)}")
        self.know(self.folder / "host")
        text = _CONFIG.format(port=self.port, folder=self.folder, user=ME)
        (self.folder / "config").write_text(text + "".join(f"{line}\n" for line in settings))
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        shutil.rmtree(self.folder)

    def know(self, key: Path) -> None:
        """Have the public half of a key be the one that is known of this host."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public(key)}")

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [need_sshd(), "-D", "-e", "-f", str(self.folder / "config")]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self._listens, "sshd to listen", self.log)

    def end(self) -> None:
        """End it and every connection."""
        if self.server is None:
            return
        self.server.send_signal(signal.SIGSTOP)  # who is cut off may be back at once
        self.cut()
        self.server.kill()
        self.server.wait(10)
        self.server = None

    def cut(self) -> None:
        """Kill whoever serves a connection, and not who listens."""
        pids = self.serving()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: all(map(_is_dead, pids)), "connections to be cut")  # not reaped: that takes their parent

    def freeze(self, stop: bool = True) -> None:
        """Stop everybody where they stand, who listens and who serves, or let them go on: the network is as if dead."""
        assert self.server is not None
        for pid in (self.server.pid, *self.serving()):
            os.kill(pid, signal.SIGSTOP if stop else signal.SIGCONT)

    def serving(self) -> list[int]:
        """Return the processes that serve connections."""
        assert self.server is not None
        found: list[int] = []
        left = [self.server.pid]
        while left:
            pid = left.pop()
            with suppress(FileNotFoundError, ProcessLookupError):
                inner = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
                inner = [child for child in inner if not _is_dead(child)]
                found += inner
                left += inner
        return found

    def connections(self) -> int:
        """Return how many connections it has."""
        assert self.server is not None
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split()
        return sum(not _is_dead(int(child)) for child in children)

    def accepted(self) -> int:
        """Return how many connections ever got in."""
        return self.log().count("Accepted publickey for ")

    def log(self) -> str:
        """Return all that it wrote."""
        return (self.folder / "log").read_text()

    def options(self, **more: Any) -> SshOptions:
        """Return what a configuration says of it."""
        given: Mapping[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": ME,
            "key_file": str(self.key),
            "known_hosts": str(self.known_hosts),
        }
        return SshOptions.model_validate({key: value for key, value in {**given, **more}.items() if value is not None})

    def way(self, **more: Any) -> Way:
        """Return the way to it, as a configuration makes it."""
        return self.options(**more).build()

    def _listens(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, self.log()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)], check=True)
    return path


def public(key: Path) -> str:
    """Return the public half of a key, as a line."""
    return key.with_name(f"{key.name}.pub").read_text()


def fingerprint(key: Path) -> str:
    """Return what people compare a key by."""
    ran = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True)
    return ran.stdout.split()[1]


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True

"""A real supervisord for tests: in a short folder of its own, reached over its unix socket, ended with its programs."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor.xmlrpc import SupervisorTransport

_HEAD = """\
[supervisord]
nodaemon=true
logfile={folder}/supervisord.log
loglevel=debug
pidfile={folder}/supervisord.pid
childlogdir={folder}
{identity}
[unix_http_server]
file={folder}/s
chmod=0700
{asks}
{inet}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""

_PROGRAM = """
[program:{name}]
command={command}
{settings}
"""

_DEFAULTS = {"autostart": "false", "autorestart": "false", "startsecs": "0", "startretries": "0"}


class Supervisord:
    """A context manager. A program is given by its argument list; ``settings`` are supervisord's own, by program;
    ``inet`` is the section that opens a TCP port; ``asks`` are the user and the password that the socket asks for.

    The client here is supervisor's, not the product's: what the tests know of the world they know from elsewhere.
    """

    def __init__(
        self,
        programs: Mapping[str, Sequence[str]],
        settings: Mapping[str, Mapping[str, str]] | None = None,
        *,
        inet: str = "",
        asks: tuple[str, str] | None = None,
    ) -> None:
        # Not under pytest's folders: a unix socket's path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))
        self.socket = self.folder / "s"
        self.server: subprocess.Popen[bytes] | None = None
        self._user: str | None = asks[0] if asks else None
        self._password: str | None = asks[1] if asks else None
        # supervisord warns about running as root unless it is told that this is meant.
        text = _HEAD.format(
            folder=self.folder,
            inet=inet,
            identity="user=root" if os.geteuid() == 0 else "",
            asks=f"username={self._user}\npassword={self._password}" if asks else "",
        )
        for name, arguments in programs.items():
            options = {**_DEFAULTS, **((settings or {}).get(name, {}))}
            command = shlex.join(arguments).replace("%", "%%")
            text += _PROGRAM.format(
                name=name, command=command, settings="\n".join(f"{key}={value}" for key, value in options.items())
            )
        (self.folder / "conf").write_text(text)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start supervisord and wait until it answers."""
        with (self.folder / "out").open("ab") as out:
            self.server = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-n", "-c", str(self.folder / "conf")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        wait_for(self._answers, "supervisord to answer", (self.folder / "out").read_text)

    def end(self) -> None:
        """End supervisord and every program of it, stubborn ones too."""
        if self.server is None:
            return
        for pid in self.pids():
            # supervisord makes each program the leader of a group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.server.send_signal(signal.SIGCONT)
        self.server.terminate()
        try:
            self.server.wait(5)
        except subprocess.TimeoutExpired:
            left = self.pids()
            self.server.kill()
            self.server.wait()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        self.server = None

    def pids(self) -> list[int]:
        """Return the processes of all programs, whether or not supervisord still answers."""
        assert self.server is not None
        try:
            found = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text()
        except FileNotFoundError:
            return []
        return [int(pid) for pid in found.split()]

    def info(self, program: str) -> dict[str, Any]:
        """Return what supervisord says of a program."""
        with self._client() as client:
            answer = client.supervisor.getProcessInfo(program)
        assert isinstance(answer, dict)
        return answer

    def state(self, program: str) -> str:
        """Return a program's state in supervisord's words, such as ``RUNNING``."""
        return str(self.info(program)["statename"])

    def pid(self, program: str) -> int:
        """Return a program's process id, 0 where it does not run."""
        return int(self.info(program)["pid"])

    def run(self, program: str) -> int:
        """Start a program, wait until it runs, and return its process id."""
        with self._client() as client:
            client.supervisor.startProcess(program)
        return self.pid(program)

    def stop(self, program: str, wait: bool = True) -> None:
        """Stop a program."""
        with self._client() as client:
            client.supervisor.stopProcess(program, wait)

    def shut_down(self) -> None:
        """Have supervisord end, when all its programs have."""
        with self._client() as client:
            client.supervisor.shutdown()

    def reload(self) -> None:
        """Have supervisord stop all its programs and begin anew, as the same process."""
        with self._client() as client:
            client.supervisor.restart()

    def wait_until(self, program: str, state: str) -> None:
        """Wait until a program is in a state, in supervisord's words."""
        wait_for(lambda: self.state(program) == state, f"{program} to be {state}", lambda: self.state(program))

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        transport = SupervisorTransport(self._user, self._password, f"unix://{self.socket}")
        with xmlrpc.client.ServerProxy("http://localhost", transport) as client:
            yield client

    def _answers(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, (self.folder / "out").read_text()
        try:
            with self._client() as client:
                return bool(client.supervisor.getState()["statename"] == "RUNNING")
        except OSError:
            return False


def wait_for(holds: Callable[[], bool], what: str, now: Callable[[], str] = str, seconds: float = 30) -> None:
    """Wait until a condition holds. The bound is for a machine that is busy, not a measure of anything."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"waited {seconds:g} s for {what}: {now()}"
        time.sleep(0.01)

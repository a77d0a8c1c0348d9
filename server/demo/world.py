"""The demo's world: a supervisord with four programs, and the configuration that names them, in one folder."""

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guideway.interpreter.extras import install
from guideway.server.demo.processes import LOOPBACK

_SUPERVISORD = """\
[supervisord]
nodaemon=true
directory={folder}
logfile={folder}/supervisord.log
pidfile={folder}/supervisord.pid
childlogdir={folder}

[unix_http_server]
file={socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""

_PROGRAM = """
[program:{name}]
command={python} -P -m guideway.server.demo.processes {arguments}
autostart=false
autorestart=false
startsecs=1
startretries=0
stopwaitsecs=5
stdout_logfile={folder}/{name}.log
redirect_stderr=true
"""

_CONFIGURATION = """\
# The demo's world. Point any guideway command at it with --config, from another terminal.
caller = "operator"

[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]

[callers.reader]
scopes = ["mcp:diag:read"]

[server]
port = {server_port}

[store]
folder = "{folder}/store"

[hosts."api.internal"]
probe = "http"
url = "http://127.0.0.1:{api}/health"

[hosts."database.internal"]
probe = "tcp"
address = "127.0.0.1"
port = {database}

[hosts."cache.internal"]
probe = "tcp"
address = "127.0.0.1"
port = {cache}

[services.database]
driver = "supervisord"
impact = "low"
reversibility = "easy"
socket = "{socket}"
program = "database"
health = {{ probe = "tcp", address = "127.0.0.1", port = {database} }}
restart_seconds = 15
settle_seconds = 0.5

[services.cache]
driver = "supervisord"
impact = "low"
reversibility = "easy"
socket = "{socket}"
program = "cache"
health = {{ probe = "tcp", address = "127.0.0.1", port = {cache} }}
restart_seconds = 15
settle_seconds = 0.5

[services.api]
driver = "supervisord"
impact = "low"
reversibility = "easy"
socket = "{socket}"
program = "api"
health = {{ probe = "http", url = "http://127.0.0.1:{api}/health" }}
restart_seconds = 6
settle_seconds = 0.5

[services.worker]
driver = "supervisord"
impact = "low"
reversibility = "easy"
socket = "{socket}"
program = "worker"
restart_seconds = 6
settle_seconds = 0.5
"""


# The same world, served to whoever has a token.
_ISSUER = """
[development_issuer]
people = {{ {person} = ["mcp:diag:read", "mcp:diag:write"] }}
port = {issuer_port}
state_folder = "{folder}/issuer"
"""

PROGRAMS = ("database", "cache", "api", "worker")
PERSON = "operator"
"""Who can sign in at the world's development issuer."""


class DemoError(Exception):
    """The world cannot be started; the message says what to do."""


@dataclass(frozen=True, slots=True)
class World:
    """A running world: its configuration file, its supervisord socket, and the port meant for a Guideway server.

    ``with_tokens`` is the same configuration with a development issuer.
    """

    folder: Path
    configuration: Path
    with_tokens: Path
    socket: Path
    server_port: int
    database_port: int

    @property
    def supervisord_output(self) -> Path:
        """The file with what supervisord printed."""
        return self.folder / "supervisord.out"

    def kill(self, program: str) -> int:
        """Kill a program as a crash would, wait until its supervisor has seen it, and return the process id it had."""
        pid = self.pid(program)
        os.kill(pid, signal.SIGKILL)
        self.wait_until(program, "EXITED")
        return pid

    def start(self, *programs: str) -> None:
        """Start programs, all at once, and wait until they run."""
        with self._supervisor() as supervisor:
            for program in programs:
                supervisor.startProcess(program, False)
        for program in programs:
            self.wait_until(program, "RUNNING")

    def stop(self, program: str) -> None:
        """Stop a program in the orderly way."""
        with self._supervisor() as supervisor:
            supervisor.stopProcess(program)

    def pid(self, program: str) -> int:
        """Return the process id of a program, 0 where it does not run."""
        return int(self._info(program)["pid"])

    def wait_until(self, program: str, state: str, seconds: float = 20) -> None:
        """Wait until supervisord reports a state, in its own words, such as ``RUNNING``."""
        until = time.monotonic() + seconds
        while (said := self._info(program)["statename"]) != state:
            if time.monotonic() > until:
                raise DemoError(f"{program} is {said} and not {state} after {seconds:g} s; see {self.folder}")
            time.sleep(0.05)

    def mend(self) -> None:
        """Start whatever does not run."""
        down = [program for program in PROGRAMS if self._info(program)["statename"] != "RUNNING"]
        self.start(*down)

    def _info(self, program: str) -> dict[str, Any]:
        with self._supervisor() as supervisor:
            info: dict[str, Any] = supervisor.getProcessInfo(program)
        return info

    @contextlib.contextmanager
    def _supervisor(self) -> Iterator[Any]:
        """Give supervisord's own client: the demo looks at its world by another way than Guideway does."""
        from supervisor.xmlrpc import SupervisorTransport  # noqa: PLC0415  # only where the demo is installed

        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        try:
            yield xmlrpc.client.ServerProxy(f"http://{LOOPBACK}", transport=transport).supervisor
        finally:
            transport.close()


@contextlib.contextmanager
def world() -> Iterator[World]:
    """Start a world, with every program running, and leave nothing of it behind."""
    if importlib.util.find_spec("supervisor") is None:
        raise DemoError(f"the demo needs the package `supervisor`: {install('demo')}")
    # A unix socket's path is limited to about 100 characters, so the folder stands in /tmp and not in TMPDIR.
    with tempfile.TemporaryDirectory(prefix="guideway-", dir="/tmp") as name:  # made with mode 0700
        folder = Path(name)
        made = _write(folder)
        command = [sys.executable, "-P", "-m", "supervisor.supervisord", "-c", str(folder / "supervisord.conf")]
        with (
            made.supervisord_output.open("wb") as output,
            subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) as process,  # noqa: S603
        ):
            try:
                _wait_for(made, process)
                made.start("database", "cache", "api")
                made.start("worker")  # it cannot start without the cache
                yield made
            finally:
                process.terminate()  # supervisord stops its programs, then itself
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def _wait_for(made: World, process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not made.socket.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise DemoError(f"supervisord did not start; it said: {made.supervisord_output.read_text().strip()}")
        time.sleep(0.02)


def _write(folder: Path) -> World:
    socket_path = folder / "supervisor.sock"
    database, cache, api, server_port, issuer_port = _free_ports(5)
    arguments = {
        "cache": f"store --port {cache}",
        "database": f"store --port {database}",
        "api": f"api --port {api} --needs {database}",
        "worker": f"worker --needs {cache}",
    }
    conf = _SUPERVISORD.format(folder=folder, socket=socket_path) + "".join(
        _PROGRAM.format(name=name, python=sys.executable, arguments=options, folder=folder)
        for name, options in arguments.items()
    )
    (folder / "supervisord.conf").write_text(conf)
    configuration = folder / "guideway.toml"
    text = _CONFIGURATION.format(
        folder=folder, socket=socket_path, database=database, cache=cache, api=api, server_port=server_port
    )
    configuration.write_text(text)
    with_tokens = folder / "tokens.toml"
    with_tokens.write_text(text + _ISSUER.format(person=PERSON, issuer_port=issuer_port, folder=folder))
    return World(folder, configuration, with_tokens, socket_path, server_port, database)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]

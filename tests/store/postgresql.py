"""A PostgreSQL server for tests: on a unix socket alone, unprivileged, from Debian's package or whichever is there."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.system import machine

_NOBODY = "nobody"


def _folder_of_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


def require_programs() -> Path:
    """Return where the server's programs are; skip the test where there are none, in CI install them or fail."""
    if _folder_of_programs() is None and machine.in_ci():
        machine.install("postgresql")
    found = _folder_of_programs()
    if found is None:
        (pytest.fail if machine.in_ci() else pytest.skip)("needs PostgreSQL (apt-get install postgresql)")
    return found


class Server:
    """A server of its own in a folder of its own. Its clients are trusted: nobody else reaches its socket."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._as = _NOBODY if os.geteuid() == 0 else None
        self._data = folder / "data"
        self._databases = 0
        if self._as is not None:
            shutil.chown(folder, self._as)
        self._run("initdb", "-D", str(self._data), "-U", "guideway", "-A", "trust", "--no-sync", "-E", "UTF8")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self._folder} -h '' -c fsync=off -c max_connections=60"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-w", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: ``immediate`` is as if it had crashed."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def database(self) -> str:
        """Make an empty schema, which costs less than a database of its own; return the URL of a store there."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(f"host={self._folder} user=guideway dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"postgresql://guideway@/postgres?host={self._folder}&options=-csearch_path%3D{name}"

    def _run(self, program: str, *arguments: str) -> None:
        who = {} if self._as is None else {"user": self._as, "group": pwd.getpwnam(self._as).pw_gid, "extra_groups": []}
        log = self._folder / "output"
        with log.open("ab") as output:  # a pipe would stay open in the server
            ended = subprocess.run(
                [self._programs / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                check=False,
                **who,  # type: ignore[call-overload]
            )
        assert ended.returncode == 0, log.read_text()


@contextmanager
def running() -> Iterator[Server]:
    """Give a server that runs. Its folder is outside of pytest's, into which nobody else may look."""
    programs = require_programs()
    folder = Path(tempfile.mkdtemp(prefix="guideway-postgresql-"))
    try:
        server = Server(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)

"""Programs that tests run as checks: how they say that they are up, and whether anything of one is left."""

import os
import shutil
import socket
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc

from guideway.interpreter.children import tree
from guideway.interpreter.children.bounds import Bounds
from guideway.interpreter.children.order import ENVIRONMENT, Ended, Means, Order
from guideway.interpreter.children.run import run

#: Ways to hold a tree of processes, as systems have them.
ALL = tuple(Means)
BARE = (Means.SUBREAPER, Means.NO_NEW_PRIVS)
HELD = {"all": ALL, "neither namespaces nor cgroup": BARE}

_UP = """
import os, socket, sys
def up(said=b'up'):
    with socket.create_connection(('127.0.0.1', int(sys.argv[2]))) as to:
        to.sendall(said)
"""


def python() -> str:
    """Return a Python that every user can run: the one of these tests may be in somebody's home."""
    found = shutil.which("python3", path=ENVIRONMENT["PATH"])
    assert found, "these tests need the system's own python3"
    return found


class Script:
    """A program in Python with a mark, by which its processes are found. It calls ``up()`` when it is where it wants to
    be; ``meet`` waits for that.
    """

    def __init__(self, text: str, bounds: Bounds | None = None, means: Sequence[Means] = ALL) -> None:
        self.mark = uuid.uuid4().hex
        self._text = text
        self._bounds = bounds or Bounds()
        self._means = means
        self._server = socket.create_server(("127.0.0.1", 0))

    async def run(self) -> Ended:
        """Run it, and return what became of it."""
        arguments = ("-c", _UP + self._text, self.mark, str(self._server.getsockname()[1]))
        try:
            order = Order(python(), arguments, bounds=self._bounds, means=tuple(self._means), checked=False)
            return await run(order)
        finally:
            self._server.close()

    async def meet(self) -> bytes:
        """Return what it says once it is up."""
        self._server.setblocking(False)
        await anyio.wait_readable(self._server)
        to, _ = self._server.accept()
        with to:
            to.setblocking(False)
            await anyio.wait_readable(to)
            return to.recv(4096)

    def alive(self) -> list[int]:
        """Return the processes of it that there are."""
        return marked(self.mark)


def marked(mark: str) -> list[int]:
    """Return the processes that have a mark in their command line, those among them that have ended left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it has ended meanwhile
                continue
    return found


def _own() -> set[int]:
    """Return this process's own children. What those of other tests start and end, as an engine does, is theirs."""
    own = set()
    for pid in tree.descendants():
        with suppress(OSError):  # it has ended meanwhile
            status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            if int(status.rpartition(")")[2].split()[1]) == os.getpid():
                own.add(pid)
    return own


@asynccontextmanager
async def nothing_left(*scripts: Script) -> AsyncIterator[None]:
    """See that what is run here leaves no process: none of the scripts', and no child of this process's own."""
    before = _own()
    yield
    assert [pid for script in scripts for pid in script.alive()] == []
    assert _own() <= before

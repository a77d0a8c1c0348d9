"""A terminal to run a command on: it is the command's controlling terminal, so that Ctrl-C is a real one."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.scripts.session import environment

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[[0-9;]+m")
PATIENCE = 60.0  # seconds; a busy machine is slow, and nothing here waits this long on one that is not

_GUIDEWAY = "from guideway.server.cli import main; sys.exit(main())"
_ON_ITS_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
"""


class Terminal:
    """What a command wrote to its terminal so far is ``screen``, control sequences and all."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.screen = ""
        self._master = master

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the screen holds a text."""
        until = time.monotonic() + PATIENCE
        while text not in self.screen:
            assert self._read(until), f"no {text!r} on {self.screen!r}"

    def wait_for_end(self) -> int:
        """Read until the command ends; return its exit code, negative for a signal."""
        until = time.monotonic() + PATIENCE
        while self._read(until):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, until: float) -> bool:
        """Read some more; say whether there was more in time."""
        if not select.select([self._master], [], [], max(0, until - time.monotonic()))[0]:
            return False
        try:
            more = os.read(self._master, 65_536)
        except OSError:  # EIO: nobody has the other end open any more
            return False
        self.screen += more.decode()
        return bool(more)


@contextmanager
def on_terminal(
    arguments: Sequence[str], folder: Path, *, columns: int = 80, program: str = _GUIDEWAY, **variables: str
) -> Iterator[Terminal]:
    """Run ``guideway``, or another program in Python, on a terminal of its own."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_ITS_TERMINAL + program, *arguments],
        cwd=folder,
        env={**environment(folder), **variables},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(master)

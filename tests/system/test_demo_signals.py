"""However the demo is told to end, none of its processes and none of its files is left."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GUIDEWAY = Path(sys.executable).with_name("guideway")


def programs_in(folder: str) -> list[int]:
    """Return the processes whose command line names a folder, or whose working folder it is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            where = os.readlink(process / "cwd")
        except OSError:
            continue  # it has ended
        if folder.encode() in words or where.startswith(folder):
            found.append(int(process.name))
    return found


def heed_every_signal() -> None:
    """Undo what a shell does to what it starts in the background: such a process is started with SIGINT ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("until", ["Four programs run", "The processes stay until"])
def test_a_signal_takes_everything_down(number: signal.Signals, until: str) -> None:
    with subprocess.Popen(
        [GUIDEWAY, "demo", "--keep"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=heed_every_signal,  # noqa: PLW1509  # nothing else runs in this process that could hold a lock
    ) as demo:
        try:
            assert demo.stdout is not None
            seen = ""
            while until not in seen:
                line = demo.stdout.readline()
                assert line, demo.communicate()
                seen += line
            folder = re.search(r"/tmp/guideway-\w+", seen)  # noqa: S108  # a text to look for
            assert folder is not None
            assert programs_in(folder[0])
            demo.send_signal(number)
            _, errors = demo.communicate(timeout=60)
        finally:
            demo.kill()
    kept = number is signal.SIGINT and until.startswith("The processes stay")
    assert demo.returncode == (0 if kept else 128 + number)
    assert "Traceback" not in errors
    assert not Path(folder[0]).exists()
    until_then = time.monotonic() + 10
    while programs_in(folder[0]) and time.monotonic() < until_then:
        time.sleep(0.1)
    assert programs_in(folder[0]) == []

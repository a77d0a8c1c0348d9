"""One signal more than what winding down may take: the process ends at once, with 128 and the signal's number.

What is wound down is real: a program that does not stop, which a cancelled restart waits for, twelve seconds long.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests.system.supervisord import Supervisord, wait_for

from guideway.server.tool import TOOL_NAME

GUIDEWAY = str(Path(sys.executable).with_name("guideway"))
STUBBORN = ["sh", "-c", "trap '' TERM; echo up; exec sleep 1000"]
PROGRAM = 'RESTART "stubborn"'
LONGEST = 6.0  # seconds from the first signal on; without the last one it would be twelve and more

pytestmark = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with Supervisord({"stubborn": STUBBORN}, {"stubborn": {"stopwaitsecs": "600"}}) as supervisord:
        pid = supervisord.run("stubborn")
        wait_for(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "it to be ready")
        (tmp_path / "guideway.toml").write_text(
            'caller = "me"\n[callers.me]\nscopes = ["mcp:diag:read", "mcp:diag:write"]\n'
            f'[services.stubborn]\ndriver = "supervisord"\nsocket = "{supervisord.socket}"\nprogram = "stubborn"\n'
            'impact = "low"\nreversibility = "easy"\n'
        )
        (tmp_path / "stubborn.diag").write_text(PROGRAM)
        (tmp_path / "socket").symlink_to(supervisord.folder)
        yield tmp_path


def ended(process: subprocess.Popen[str], number: signal.Signals, *, signals: int) -> str:
    """Send signals until a process has ended; return what it said to people.

    It must take so many, and none of the time that winding down takes.
    """
    began, sent = time.monotonic(), 0
    while process.poll() is None:
        assert time.monotonic() - began < LONGEST, "it winds down"
        process.send_signal(number)
        sent += 1
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 128 + number
    assert sent == signals
    assert process.stderr is not None
    return process.stderr.read()


def is_stopping(folder: Path) -> bool:
    return "waiting for stubborn to stop" in (folder / "socket" / "supervisord.log").read_text()


def test_a_second_signal_ends_a_run(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen([GUIDEWAY, "run", "stubborn.diag"], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: is_stopping(folder), "the restart to begin")
        assert "so that it ends at once" in ended(process, number, signals=2)


def test_a_third_signal_ends_a_server(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [GUIDEWAY, "serve", "--http", "127.0.0.1:0", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        told = ""
        while "}" not in told:
            told += server.stdout.readline()
        url = json.loads(told)["url"]

        async def call() -> None:
            async with Client(url) as client:
                await client.call_tool(TOOL_NAME, {"program": PROGRAM})

        def calls() -> None:
            try:
                anyio.run(call)
            except BaseException:  # noqa: BLE001  # the server goes away in the midst of it
                return

        caller = threading.Thread(target=calls)
        caller.start()
        try:
            wait_for(lambda: is_stopping(folder), "the restart to begin")
            assert "so that it ends at once" in ended(server, number, signals=3)
        finally:
            server.kill()
            caller.join(30)
        assert not caller.is_alive()

"""What ``guideway run --server`` says where the answer never comes: what was restarted is not known, and how to ask."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.scripts.terminal import on_terminal
from tests.server.sign_in.world import GUIDEWAY, INVENTORY, READ, WRITE, Place, Shell, free_port

RESTART = 'PING "api.internal"\nRESTART "slow"\n'
OPEN = f'caller = "me"\n[callers.me]\nscopes = ["{READ}", "{WRITE}"]\n[deadlines]\npipeline = 2000\n{INVENTORY}'
UNKNOWN = "whether `slow` was restarted, and how that ended, is not known"


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve to whoever asks, in a process of its own; give it and its URL."""
    (folder / "guideway.toml").write_text(OPEN)
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen([GUIDEWAY, "serve", "--http", address], cwd=folder, stderr=subprocess.PIPE, text=True) as one:
        assert one.stderr is not None
        assert "serving" in one.stderr.readline()
        try:
            yield one, f"http://{address}/mcp"
        finally:
            one.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home")


def test_a_server_that_goes_away_in_a_restart_leaves_what_is_not_known(tmp_path: Path, shell: Shell) -> None:
    with (
        served(tmp_path) as (server, url),
        on_terminal(["run", shell.program(RESTART), "--server", url], shell.home, columns=400) as terminal,
    ):
        terminal.wait_for("2 running   ")
        server.kill()
        assert terminal.wait_for_end() == 1
    assert UNKNOWN in terminal.screen
    asks = f"""see what is now: echo 'GET_STATUS "slow"' | guideway run - --server {url}"""
    assert asks in terminal.screen
    assert re.search(
        rf"fetch its result, .*: guideway run \S+ --server {url} --idempotency-key=[0-9a-f-]{{36}};", terminal.screen
    )
    assert "Traceback" not in terminal.screen


def test_the_machine_form_says_it_too_and_the_commands_that_it_names_work(tmp_path: Path, shell: Shell) -> None:
    with served(tmp_path) as (_, url):
        status = shell.program('GET_STATUS "slow"', "status.diag")
        with shell.start("run", shell.program(RESTART), "--server", url, "--json") as process:
            while "is running" in shell.run("run", status, "--server", url).stdout:
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (143, "")
        error = json.loads(out)["error"]
        assert error["unknown"] == ["slow"]
        assert UNKNOWN in error["message"]
        ran = pasted(shell, error["help"].partition("see what is now: ")[2])
        assert ran.returncode == 0
        assert 'GET_STATUS "slow": is ' in ran.stdout
        command = error["help"].partition("twice: ")[2].partition("; or ")[0]
        assert f"--idempotency-key={error['idempotency_key']}" in command
        for _ in range(2):
            ran = pasted(shell, command)
            assert ran.returncode == 1
            assert 'cancelled RESTART "slow"' in ran.stdout
            assert "by a call with the same idempotency key; nothing ran now" in ran.stdout


def pasted(shell: Shell, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line as it was shown."""
    path = f"PATH={Path(sys.executable).parent}:$PATH"
    line = ["bash", "-c", f"export {path}; {command}"]
    return subprocess.run(line, cwd=shell.home, capture_output=True, text=True, check=False)


def test_nothing_is_unknown_of_a_program_that_was_never_sent(shell: Shell) -> None:
    silent = f"http://127.0.0.1:{free_port()}/mcp"
    ran = shell.run("run", shell.program(RESTART), "--server", silent)
    assert ran.returncode == 4
    assert "not known" not in ran.stderr


@pytest.mark.parametrize("json_form", [False, True])
def test_who_declines_a_step_up_has_the_program_refused(place: Place, tmp_path: Path, json_form: bool) -> None:
    shell = Shell(tmp_path / "home")
    shell.has_browser("alice")
    assert shell.run("login", place.url).returncode == 0
    shell.has_browser("alice", decision="deny")
    arguments = ["run", shell.program('RESTART "database"'), "--server", place.url, *(["--json"] if json_form else [])]
    with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
        assert terminal.wait_for_end() == 2, terminal.screen
    assert "did not grant it: access_denied" in terminal.screen
    assert ('"help": "' in terminal.screen) == json_form
    assert ("error[insufficient_scope]" in terminal.screen) != json_form

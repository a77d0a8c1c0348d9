"""What a person at a terminal sees: colour where it is wanted, a list that lives, a Ctrl-C that ends things well."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from guideway.server.demo.world import world
from tests.scripts.session import environment
from tests.scripts.terminal import COLOR, CONTROL, on_terminal

CONFIGURATION = """
caller = "operator"
[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]
[hosts."api.internal"]
probe = "memory"
[services.slow]
driver = "memory"
impact = "low"
reversibility = "easy"
start_seconds = 600
restart_seconds = 900
[services.quick]
driver = "memory"
impact = "low"
reversibility = "easy"
start_seconds = 0.5
settle_seconds = 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guideway.toml").write_text(CONFIGURATION)
    (tmp_path / "slow.diag").write_text('PING "api.internal"\nRESTART "slow"\nPING "api.internal"\n')
    (tmp_path / "quick.diag").write_text('RESTART "quick"\n')
    (tmp_path / "wrong.diag").write_text('PIGN "a"\n')
    return tmp_path


def test_a_step_is_seen_while_it_runs_and_gives_way_to_its_outcome(folder: Path) -> None:
    with on_terminal(["run", "quick.diag"], folder) as terminal:
        terminal.wait_for("running")
        assert terminal.wait_for_end() == 0
    # What is on the screen in the end: of each line only what follows the last return to its start.
    lines = [CONTROL.sub("", line).rpartition("\r")[2] for line in terminal.screen.replace("\r\n", "\n").split("\n")]
    assert len(lines) == 3
    assert lines[0].startswith(' 1 ok        RESTART "quick": is running')
    assert lines[1].startswith("completed: 1 step")
    assert COLOR.search(terminal.screen)


def test_a_running_step_never_wraps(folder: Path) -> None:
    with on_terminal(["run", "quick.diag"], folder, columns=20) as terminal:
        assert terminal.wait_for_end() == 0
    drawn = [CONTROL.sub("", line) for line in terminal.screen.split("\r") if "running" in line and "is" not in line]
    assert drawn
    assert all(len(line) < 20 for line in drawn)


def test_no_color_leaves_the_colours_out(folder: Path) -> None:
    with on_terminal(["check", "wrong.diag"], folder) as terminal:
        assert terminal.wait_for_end() == 2
        assert COLOR.search(terminal.screen)
    with on_terminal(["check", "wrong.diag"], folder, NO_COLOR="1") as terminal:
        assert terminal.wait_for_end() == 2
        assert not CONTROL.search(terminal.screen)
    with on_terminal(["check", "--color", "always", "wrong.diag"], folder, NO_COLOR="1") as terminal:
        assert terminal.wait_for_end() == 2
        assert COLOR.search(terminal.screen)


def test_a_dumb_terminal_gets_plain_lines(folder: Path) -> None:
    with on_terminal(["run", "quick.diag"], folder, TERM="dumb") as terminal:
        assert terminal.wait_for_end() == 0
    assert not CONTROL.search(terminal.screen)
    assert terminal.screen.startswith(" 1 ok ")


def test_ctrl_c_cancels_and_says_what_was_done(folder: Path) -> None:
    with on_terminal(["run", "slow.diag"], folder) as terminal:
        terminal.wait_for('RESTART "slow"')
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130
    seen = CONTROL.sub("", terminal.screen)
    assert ' 1 ok        PING "api.internal"' in seen
    assert "\rcancelling: a restart under way still asks for the start\r\n" in seen
    assert ' 2 cancelled RESTART "slow"' in seen
    assert "cancelled: 2 steps" in seen
    assert "Traceback" not in seen


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_each_signal_that_ends_a_run_cancels_it_first(folder: Path, number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        ["guideway", "run", "slow.diag"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(" 1 ok")  # the second step follows, or is already there
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out.splitlines()[-1].startswith("cancelled: ")
    assert err == ""


def test_a_cancelled_run_has_a_machine_form(folder: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        (folder / "guideway.toml").open("a") as configuration,
    ):
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        configuration.write(f'[hosts.silent]\nprobe = "http"\nurl = "{url}"\nping_seconds = 600\n')
        configuration.flush()
        (folder / "silent.diag").write_text('PING "api.internal"\nPING "silent"\n')
        with subprocess.Popen(
            ["guideway", "run", "--json", "silent.diag"],
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            silent.settimeout(60)
            asked, _ = silent.accept()  # so the second step is running
            with asked:
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    report = json.loads(out)
    assert report["status"] == "cancelled"
    assert [step["outcome"] for step in report["steps"]] == ["ok", "cancelled"]


def test_a_reader_that_goes_away_stops_no_pipeline(folder: Path) -> None:
    (folder / "long.diag").write_text('RESTART "quick"\n' * 3 + 'RESTART "quick"\n')
    ran = subprocess.run(
        ["bash", "-c", "guideway run long.diag | head -1; echo ${PIPESTATUS[0]}"],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "0"
    assert ran.stderr == ""


def test_ctrl_c_amid_a_real_restart_leaves_the_service_running(tmp_path: Path) -> None:
    (tmp_path / "restart.diag").write_text('RESTART "database"\n')
    with world() as made:
        before = made.pid("database")
        with on_terminal(["run", "--config", str(made.configuration), "restart.diag"], tmp_path) as terminal:
            terminal.wait_for("running")
            terminal.type("\x03")
            assert terminal.wait_for_end() in (130, 0)  # 0: the restart was quicker than the key
        made.wait_until("database", "RUNNING")
        assert made.pid("database") not in (0, before) or "cancelled" in terminal.screen


def test_a_program_that_is_typed_is_asked_for(folder: Path) -> None:
    with on_terminal(["run", "-"], folder) as terminal:
        terminal.wait_for("reading a program from the terminal; Ctrl-D")
        terminal.type('PING "api.internal"\n\x04')
        assert terminal.wait_for_end() == 0
    assert "completed: 1 step" in terminal.screen


def test_a_log_line_stands_alone_amid_a_running_step(folder: Path) -> None:
    code = (
        "import logging, sys; from guideway.server.cli.logs import show_log; show_log();"
        "sys.stdout.write('1 running'); sys.stdout.flush(); logging.getLogger('x').warning('still stopping')"
    )
    with on_terminal([code], folder, program="exec(sys.argv[1])") as terminal:
        assert terminal.wait_for_end() == 0
    assert "1 running\r\x1b[KWARNING x: still stopping\r\n" in terminal.screen

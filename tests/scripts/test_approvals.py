"""What a person at a terminal sees of an approval: a countdown, the whole request, a question, and a Ctrl-C that loses
nothing.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.scripts.session import environment
from tests.scripts.terminal import CONTROL, Terminal, on_terminal

CONFIGURATION = """
caller = "operator"
[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]
[callers.ada]
scopes = ["mcp:diag:approve"]
[services.database]
driver = "memory"
settle_seconds = 0
[services.frozen]
driver = "memory"
impact = "low"
reversibility = "easy"
settle_seconds = 0
[freezes.always]
from = 2020-01-01T00:00:00Z
until = 2090-01-01T00:00:00Z
services = ["frozen"]
reason = "the shop sells"
[approvals]
lifetime_seconds = {lifetime}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guideway.toml").write_text(CONFIGURATION.format(lifetime=300))
    (tmp_path / "restart.diag").write_text('RESTART "database"\n')
    (tmp_path / "frozen.diag").write_text('RESTART "frozen"\n')
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["guideway", *arguments],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def asked(folder: Path, program: str = "restart.diag", *more: str) -> str:
    """Ask for a program; return its ticket."""
    ran = run(folder, "run", program, "--json", *more)
    assert ran.returncode == 3
    return str(json.loads(ran.stdout)["refusal"]["approval"]["ticket"])


def ticket_on(terminal: Terminal) -> str:
    terminal.wait_for(" s left")
    found = re.search(r"ticket ([A-Za-z0-9_-]{24}) waits", terminal.screen)
    assert found is not None
    return found[1]


def state(folder: Path, ticket: str) -> str:
    return str(json.loads(run(folder, "approvals", "show", ticket, "--as", "ada", "--json").stdout)["state"])


def last_lines(terminal: Terminal) -> list[str]:
    """Return what stands on the screen in the end: of each line what follows the last return to its start."""
    shown = terminal.screen.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [CONTROL.sub("", line).rpartition("\r")[2] for line in shown]


def test_a_run_that_waits_counts_down_and_goes_on_when_it_is_approved(folder: Path) -> None:
    with on_terminal(["run", "restart.diag", "--wait"], folder, columns=200) as terminal:
        ticket = ticket_on(terminal)
        first = re.findall(r"(\d+) s left", terminal.screen)[-1]
        terminal.wait_for(f"{int(first) - 2} s left")
        assert run(folder, "approvals", "approve", ticket, "--as", "ada", "--yes").returncode == 0
        assert terminal.wait_for_end() == 0
    shown = last_lines(terminal)
    first, how, step, end = [line for line in shown if line]
    assert first.startswith(f"approval: ticket {ticket} waits for a person, for ")
    assert how == f"  decide with: guideway approvals approve {ticket} --as ada"
    assert step.startswith(' 1 ok        RESTART "database"')
    assert end.startswith("completed: 1 step in ")


def test_who_is_refused_reads_why(folder: Path) -> None:
    with on_terminal(["run", "restart.diag", "--wait"], folder, columns=200) as terminal:
        ticket = ticket_on(terminal)
        run(folder, "approvals", "deny", ticket, "--as", "ada", "--reason", "not before noon")
        assert terminal.wait_for_end() == 2
    assert last_lines(terminal)[-1] == "refused: a person refused this: not before noon; nothing ran"


def test_a_ticket_that_expires_ends_the_wait_which_keeps_no_processor_busy(folder: Path) -> None:
    (folder / "guideway.toml").write_text(CONFIGURATION.format(lifetime=10))
    ran = subprocess.run(
        ["bash", "-c", "TIMEFORMAT='%U %S'; time guideway run restart.diag --wait"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3
    lines = ran.stdout.splitlines()
    assert re.fullmatch(r"waiting for a person's decision, ([6-9]|10) s left", lines[0])
    assert lines[-1] == "refused: this ticket expired before it was used; nothing ran"
    assert sum(map(float, ran.stderr.split()[-2:])) < 5, "of which starting is most"


def test_ctrl_c_while_it_waits_leaves_the_ticket_as_it_is(folder: Path) -> None:
    with on_terminal(["run", "restart.diag", "--wait"], folder, columns=200) as terminal:
        ticket = ticket_on(terminal)
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130
    shown = last_lines(terminal)
    assert any(line.startswith(f"not waiting any more: ticket {ticket} stays, for ") for line in shown)
    assert shown[-1] == f"  go on with: guideway run restart.diag --ticket={ticket}"
    assert state(folder, ticket) == "pending"


@pytest.mark.parametrize(("answer", "code", "then"), [("y", 0, "approved"), ("\n", 1, "pending"), ("no", 1, "pending")])
def test_who_approves_reads_the_request_and_is_asked(folder: Path, answer: str, code: int, then: str) -> None:
    ticket = asked(folder)
    with on_terminal(["approvals", "approve", ticket, "--as", "ada"], folder, columns=120) as terminal:
        terminal.wait_for("may this program run? [y/N]")
        seen = CONTROL.sub("", terminal.screen)
        assert ' !   1 RESTART "database"' in seen
        assert "by       operator at local" in seen
        terminal.type(f"{answer}\n")
        assert terminal.wait_for_end() == code
    assert state(folder, ticket) == then


def test_who_runs_into_a_freeze_is_told_how_it_is_broken(folder: Path) -> None:
    way = 'a person can let it run all the same: guideway run frozen.diag --break-glass "why"'
    ran = run(folder, "run", "frozen.diag")
    assert ran.returncode == 2
    assert ran.stderr.count(way) == 1
    said = json.loads(run(folder, "run", "frozen.diag", "--json").stdout)
    assert way in said["refusal"]["diagnostics"][0]["help"]


def test_who_breaks_a_freeze_is_asked_why(folder: Path) -> None:
    ticket = asked(folder, "frozen.diag", "--break-glass", "the shop is down")
    with on_terminal(["approvals", "approve", ticket, "--as", "ada"], folder, columns=120) as terminal:
        terminal.wait_for("why may this break the freeze?")
        assert "| the shop is down" in CONTROL.sub("", terminal.screen)
        terminal.type("nothing is sold anyway\n")
        terminal.wait_for("may this program run? [y/N]")
        terminal.type("yes\n")
        assert terminal.wait_for_end() == 0
    shown = json.loads(run(folder, "approvals", "show", ticket, "--as", "ada", "--json").stdout)
    assert (shown["state"], shown["reason"]) == ("approved", "nothing is sold anyway")


def test_ctrl_c_at_the_question_decides_nothing(folder: Path) -> None:
    ticket = asked(folder)
    with on_terminal(["approvals", "approve", ticket, "--as", "ada"], folder) as terminal:
        terminal.wait_for("may this program run? [y/N]")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130
    assert "Traceback" not in terminal.screen
    assert state(folder, ticket) == "pending"


def test_what_callers_write_steers_no_terminal(folder: Path) -> None:
    ticket = asked(folder, "frozen.diag", "--break-glass", "\x1b[2Jall is well\x1b]0;owned\x07\nstate    approved")
    shown = run(folder, "approvals", "show", ticket, "--as", "ada").stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert "\nstate    approved" not in shown
    assert "all is well" in shown

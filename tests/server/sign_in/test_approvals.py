"""Approving on a server from the shell: one person asks and waits, another one is signed in there and decides."""

import argparse
import json
import re
import time
from pathlib import Path

import httpx2
import pytest

from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source, Span
from guideway.server.cli.outcome import refused_unread
from guideway.server.cli.pending import Commands
from guideway.server.cli.remote import _in_our_words
from tests.scripts.terminal import on_terminal
from tests.server.sign_in.test_terminal import lines
from tests.server.sign_in.world import READ, WRITE, Place, Shell

RESTART = 'RESTART "payments"\n'


@pytest.fixture(scope="module")
def operator(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return a shell that is signed in to run programs."""
    shell = Shell(tmp_path_factory.mktemp("asking"))
    shell.has_browser()
    assert shell.run("login", place.url, "--scope", f"{READ} {WRITE}").returncode == 0
    shell.program(RESTART)
    return shell


@pytest.fixture(scope="module")
def approver(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return a shell that is signed in to approve."""
    shell = Shell(tmp_path_factory.mktemp("approving"))
    shell.has_browser("ada")
    assert shell.run("login", place.url, "--scope", Scope.APPROVE.value).returncode == 0
    return shell


def asked(place: Place, operator: Shell, *more: str) -> str:
    """Ask for the program; return the ticket."""
    ran = operator.run("run", "program.diag", "--server", place.url, "--json", *more)
    assert ran.returncode == 3, ran.stderr
    return str(json.loads(ran.stdout)["refusal"]["approval"]["ticket"])


def test_a_ticket_is_shown_approved_and_used_once(place: Place, operator: Shell, approver: Shell) -> None:
    ran = operator.run("run", "program.diag", "--server", place.url)
    assert ran.returncode == 3
    found = re.search(r"ticket ([A-Za-z0-9_-]{24}) waits", ran.stderr)
    assert found is not None
    ticket = found[1]
    assert f"guideway approvals approve {ticket} --server {place.url}" in ran.stderr
    assert f"guideway run program.diag --server {place.url} --ticket={ticket}" in ran.stderr
    listed = approver.run("approvals", "list", "--server", place.url, "--state", "pending")
    assert ticket in listed.stdout
    shown = approver.run("approvals", "show", ticket[:8], "--server", place.url)
    assert ' !   1 RESTART "payments"' in shown.stdout
    assert "calls itself `guideway " in shown.stdout
    done = approver.run("approvals", "approve", ticket, "--server", place.url, "--yes", "--reason", "go on")
    assert (done.returncode, done.stderr) == (0, "")
    again = approver.run("approvals", "deny", ticket, "--server", place.url)
    assert (again.returncode, again.stderr.splitlines()[0]) == (1, "error: this ticket was approved already")
    ran = operator.run("run", "program.diag", "--server", place.url, "--ticket", ticket)
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = operator.run("run", "program.diag", "--server", place.url, "--ticket", ticket)
    assert ran.returncode == 2
    assert "this ticket was used already" in ran.stderr


def test_a_run_there_waits_and_goes_on_when_it_is_approved(place: Place, operator: Shell, approver: Shell) -> None:
    arguments = ["run", "program.diag", "--server", place.url, "--wait"]
    with on_terminal(arguments, operator.home, columns=400, **operator.environment()) as terminal:
        terminal.wait_for(" s left")
        found = re.search(r"ticket ([A-Za-z0-9_-]{24}) waits", terminal.screen)
        assert found is not None
        done = approver.run("approvals", "approve", found[1], "--server", place.url, "--yes")
        assert done.returncode == 0, done.stderr
        assert terminal.wait_for_end() == 0, terminal.screen
    shown = [line for line in lines(terminal) if line]
    assert shown[-2].startswith(' 1 ok        RESTART "payments": is running')
    assert shown[-1].startswith("completed: 1 step")


def test_a_run_there_that_is_refused_says_by_which_words(place: Place, operator: Shell, approver: Shell) -> None:
    with operator.start("run", "program.diag", "--server", place.url, "--wait", "--json") as process:
        until = time.monotonic() + 60
        while not (found := approver.json("approvals", "list", "--server", place.url, "--state", "pending")["tickets"]):
            assert time.monotonic() < until
        denied = approver.run(
            "approvals", "deny", found[0]["ticket"], "--server", place.url, "--reason", "not before noon"
        )
        assert denied.returncode == 0, denied.stderr
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert json.loads(out)["refusal"]["code"] == "approval_denied"
    assert "not before noon" in json.loads(out)["refusal"]["message"]


def test_ctrl_c_while_a_run_there_waits_leaves_the_ticket(place: Place, operator: Shell, approver: Shell) -> None:
    arguments = ["run", "program.diag", "--server", place.url, "--wait"]
    with on_terminal(arguments, operator.home, columns=400, **operator.environment()) as terminal:
        terminal.wait_for(" s left")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130
    found = re.search(r"not waiting any more: ticket ([A-Za-z0-9_-]{24}) stays", terminal.screen)
    assert found is not None, terminal.screen
    shown = approver.json("approvals", "show", found[1], "--server", place.url)
    assert shown["state"] == "pending"
    assert approver.run("approvals", "deny", found[1], "--server", place.url).returncode == 0


def test_who_may_not_approve_is_told_what_is_missing(place: Place, operator: Shell, approver: Shell) -> None:
    ticket = asked(place, operator)
    ran = operator.run("approvals", "approve", ticket, "--server", place.url, "--yes")
    assert ran.returncode == 2
    assert "mcp:diag:approve" in ran.stderr
    ran = approver.run("approvals", "show", "A" * 24, "--server", place.url)
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (1, "error: there is no such ticket")
    assert approver.run("approvals", "deny", ticket, "--server", place.url).returncode == 0


def test_a_sign_in_to_approve_leaves_no_failure_in_the_servers_log(place: Place, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    shell.has_browser("ada")
    before = len(place.log.read_text())
    ran = shell.run("login", place.url, "--scope", Scope.APPROVE.value)
    assert (ran.returncode, place.log.read_text()[before:].count("insufficient_scope")) == (0, 0), ran.stderr
    with httpx2.Client(trust_env=False) as http:  # another client, that goes to the endpoint all the same
        token = shell.kept()["secrets"]["tokens"]["access_token"]
        answer = http.post(place.url, json={}, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 403
    assert 'not let in: insufficient_scope, a diagnostic scope is needed; subject="ada"' in place.log.read_text()
    assert "no run" not in place.log.read_text()[before:]


def test_a_freeze_there_is_told_in_the_words_of_the_shell() -> None:
    source = Source(RESTART)
    frozen = Diagnostic(Code.FROZEN, "`payments` is frozen", Span(8, 18), help='call again with "_break_glass"')
    report = refused_unread(Refusal([frozen], source))
    commands = Commands(argparse.Namespace(file="x.diag", server="https://g.example/mcp", config=None, caller=None))
    told, document = _in_our_words(report, report.to_json() | {"later": 1}, commands)
    assert told.refusal is not None
    help_ = told.refusal.diagnostics[0].help or ""
    assert help_.endswith('guideway run x.diag --server https://g.example/mcp --break-glass "why"')
    assert document == told.to_json() | {"later": 1}


def test_nobody_signed_in_is_told_how_to(place: Place, tmp_path: Path) -> None:
    ran = Shell(tmp_path / "home").run("approvals", "list", "--server", place.url)
    assert ran.returncode == 4
    assert f'guideway login {place.url} --scope "mcp:diag:approve"' in ran.stderr

"""What somebody at a terminal sees of a run on a server: a list that lives, the browser where one is needed, Ctrl-C."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from guideway.interpreter.store import open_store
from tests.scripts.terminal import CONTROL, Terminal, on_terminal
from tests.server.sign_in.world import READ, WRITE, Place, Shell
from tests.server.world import World

RESTART = 'RESTART "database"\n'


def lines(terminal: Terminal) -> list[str]:
    """Return what stands on the screen in the end: of each line what follows the last return to its start."""
    shown = terminal.screen.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [CONTROL.sub("", line).rpartition("\r")[2] for line in shown]


def test_a_missing_scope_opens_the_browser_and_the_program_runs(place: Place, shell: Shell) -> None:
    assert shell.run("login", place.url).returncode == 0
    arguments = ["run", shell.program(RESTART), "--server", place.url]
    with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
        assert terminal.wait_for_end() == 0, terminal.screen
    shown = lines(terminal)
    assert shown[0] == f"this needs `{READ}`, `{WRITE}`; the browser opens:"
    assert shown[1].strip() == shell.visits[-2], "the address is printed, too"
    assert shown[2].startswith("waiting for the browser")
    assert f"`guideway logout {place.url}`" in shown[3], "the client is an old one"
    assert shown[4].startswith(' 1 ok        RESTART "database": is running')
    assert shown[5].startswith("completed: 1 step")
    assert shell.kept()["secrets"]["tokens"]["scope"].split() == [READ, WRITE], "what was granted before is not lost"
    assert shell.run("run", "program.diag", "--server", place.url).returncode == 0, "and it is kept"


def test_who_is_not_signed_in_is_asked_to(place: Place, shell: Shell) -> None:
    arguments = ["run", shell.program('PING "api.internal"'), "--server", place.url]
    with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
        assert terminal.wait_for_end() == 0, terminal.screen
    assert lines(terminal)[0] == f"sign in for `{READ}`; the browser opens:"


def test_a_step_up_that_is_granted_less_ends_in_an_error_after_one_browser(place: Place, shell: Shell) -> None:
    """Bob may read and no more. The server challenges the new token as it did the old one: asking again is no use."""
    shell.has_browser("bob")
    assert shell.run("login", place.url).returncode == 0
    before = len(shell.visits)
    arguments = ["run", shell.program(RESTART), "--server", place.url]
    with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
        assert terminal.wait_for_end() == 2, terminal.screen
    assert len(shell.visits) == before + 2, "one address, one page"
    shown = lines(terminal)
    assert "program.diag:1:1: error[insufficient_scope]: operation requires scope 'mcp:diag:write'" in shown
    assert "note: the issuer granted less than it was asked for; ask whoever can grant you more" in shown
    assert shown[-1] == "refused: operation requires scope 'mcp:diag:write'; nothing ran"


def test_nobody_is_asked_who_does_not_want_to_be(place: Place, shell: Shell) -> None:
    arguments = ["run", shell.program('PING "api.internal"'), "--server", place.url, "--no-input"]
    with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
        assert terminal.wait_for_end() == 4
    assert f"error: not signed in at `{place.url}`" in lines(terminal)
    assert shell.visits == []


def test_ctrl_c_while_the_browser_is_open_ends_the_waiting(place: Place, shell: Shell) -> None:
    shell.variables["BROWSER"] = "true %s"
    program = shell.program('PING "api.internal"')
    for arguments in (["login", place.url], ["run", program, "--server", place.url]):
        with on_terminal(arguments, shell.home, columns=400, **shell.environment()) as terminal:
            terminal.wait_for("code_challenge_method")
            terminal.type("\x03")
            assert terminal.wait_for_end() == 128 + signal.SIGINT
        assert "Traceback" not in terminal.screen
    assert not list(shell.folder.glob("*.json"))


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[World, str, Shell]]:
    """Serve a world in this process to whoever asks, with a database that is slow to start."""
    store, _ = open_store(folder=tmp_path / "store")
    world = World(repeats=store.repeats)
    world.database.start_seconds = 600
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(world.serving()) as url:
        yield world, url, Shell(tmp_path)
        portal.call(store.close)


def test_a_running_step_is_seen_while_it_runs_there(slow: tuple[World, str, Shell]) -> None:
    world, url, shell = slow
    world.database.start_seconds = 0.5
    with on_terminal(["run", shell.program(RESTART), "--server", url], shell.home) as terminal:
        terminal.wait_for("running")
        assert terminal.wait_for_end() == 0
    shown = lines(terminal)
    assert len(shown) == 2
    assert shown[0].startswith(' 1 ok        RESTART "database": is running')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_run_on_the_server(slow: tuple[World, str, Shell], number: signal.Signals) -> None:
    world, url, shell = slow
    arguments = ["run", shell.program(f'PING "api.internal"\n{RESTART}'), "--server", url]
    with on_terminal(arguments, shell.home) as terminal:
        terminal.wait_for('2 running   RESTART "database"')
        if number is signal.SIGINT:
            terminal.type("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.wait_for_end() == 128 + number
    assert lines(terminal)[-1].startswith("cancelled: the server was told")
    assert "Traceback" not in terminal.screen
    deadline = 600
    while "start" not in world.database.calls and deadline:
        deadline -= 1
        signal.sigtimedwait([], 0.1)
    assert "start" in world.database.calls, "there, what was stopped is started again, as a cancelled restart does"

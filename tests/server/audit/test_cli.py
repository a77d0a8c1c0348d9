"""``guideway audit`` on a real store: which records it shows, in which form, and how it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.store import open_store
from guideway.server.cli.command import Exit
from guideway.server.cli.entry import main
from tests.interpreter.trails import CALLER, NOW, restarts
from tests.scripts.session import environment

Said = Callable[..., tuple[int, str, str]]
RUN = "00000002-0000-4000-8000-000000000000"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, and a store with the trails of the installation and of a tenant."""
    (tmp_path / "guideway.toml").write_text(
        '[store]\nfolder = "store"\n[callers.mona]\ntenant = "acme"\n[tenants.acme]\n'
    )
    append(tmp_path, *restarts(10), *restarts(3, tenant="acme"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def append(folder: Path, *entries: Entry) -> None:
    async def run() -> None:
        store, leases = open_store(folder=folder / "store")
        store.trail.put(entries)
        await store.trail.written()
        await leases.close()
        await store.close()

    anyio.run(run)


@pytest.fixture
def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["audit", *arguments, "--config", str(folder / "guideway.toml")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def bodies(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_tail_shows_the_last_records_of_ones_own_trail_and_says_that_there_are_others(said: Said) -> None:
    code, out, errors = said("tail", "-n", "5")
    assert code == Exit.OK
    assert len(out.splitlines()) == 5
    assert out.splitlines()[-1].endswith("00000009 mona restart service-2 ok")
    assert "1 more trail: --all" in errors
    assert len(said("tail")[1].splitlines()) == 20
    assert bodies(said("tail", "--as", "mona", "--json")[1])[0]["trail"] == "acme"
    assert bodies(said("tail", "--tenant", "acme", "--json")[1])[0]["trail"] == "acme"


def test_every_trail_together_is_in_the_order_of_time(said: Said) -> None:
    for count in ((), ("-n", "100")):
        found = bodies(said("tail", "--all", "--since", "2030-03-17", "--json", *count)[1])
        assert len(found) == 39
        assert [body["time"] for body in found] == sorted(body["time"] for body in found)
    assert " acme mona " in said("tail", "--all", "--since", "2030-03-17")[1]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--kind", "restart"), 20),
        (("--kind", "restart.ended"), 10),
        (("--kind", "restart.ended", "--kind", "run"), 20),
        (("--kind", "ticket"), 0),
        (("--service", "service-3", "--kind", "restart.ended"), 1),
        (("--caller", "mona"), 30),
        (("--caller", "eve"), 0),
        (("--until", "2030-03-17T17:46:45+00:00"), 15),
        (("--kind", "restart", "-n", "3"), 3),
    ],
)
def test_records_are_found_by_kind_service_person_and_time(options: tuple[str, ...], count: int, said: Said) -> None:
    code, out, _ = said("tail", "--since", "2030-03-17T17:46:40+00:00", "--json", *options)
    assert (code, len(out.splitlines())) == (Exit.OK, count)


def test_a_pseudonym_is_found_by_the_name_that_it_stands_for(
    folder: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    from guideway.interpreter.audit.privacy import Pseudonyms

    monkeypatch.setenv("PSEUDONYMS", "0123456789abcdef")
    with (folder / "guideway.toml").open("a") as file:
        file.write('[audit]\nprivate = ["subject"]\nprivate_key_env = "PSEUDONYMS"\n')
    named = Pseudonyms("0123456789abcdef").of(str(CALLER["issuer"]), "ada")
    append(folder, Entry(Kind.RUN_BEGUN, None, NOW, {"run": RUN, "caller": CALLER | {"subject": named}}))
    assert len(said("tail", "--caller", "ada")[1].splitlines()) == 1


def test_a_run_is_shown_by_how_its_id_begins(said: Said) -> None:
    code, out, _ = said("show", "00000002", "--json")
    found = json.loads(out)
    assert code == Exit.OK
    assert [record["kind"] for record in found["records"]] == ["run.begun", "restart.begun", "restart.ended"]
    assert {record["run"] for record in found["records"]} == {RUN}
    assert found["proof"]["sound"]
    assert not found["proof"]["proven"]
    assert "nothing proves it" in said("show", RUN)[1]


def test_nothing_that_others_wrote_steers_the_terminal(folder: Path, said: Said) -> None:
    words = "\x1b[2J\u202eadmin\nrun 1"
    facts = {"run": "ffffffff", "caller": CALLER | {"subject": words, "client": words}, "client_says": words}
    hostile = facts | {"program": words, "break_glass": words, "door": words}
    append(folder, Entry(Kind.RUN_BEGUN, None, NOW + 50, hostile | {"commands": [{"command": words, "target": words}]}))
    for _, out, _ in (said("tail", "-n", "1"), said("show", "ffffffff")):
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\nrun 1" not in out


def test_a_record_that_does_not_read_is_shown_as_what_is_left_of_it(folder: Path, said: Said) -> None:
    import sqlite3

    with sqlite3.connect(folder / "store" / "guideway.sqlite3") as connection:
        connection.execute("UPDATE guideway_trail SET body = '[' WHERE trail = '' AND seq = 30")
    assert said("tail", "-n", "1")[0] == Exit.OK
    assert said("verify")[0] == Exit.FAILED
    assert said("export")[0] == Exit.OK


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "ffffffff"), Exit.FAILED, "no record of such a run"),
        (("show", "database"), Exit.USAGE, "this is no run"),
        (("show",), Exit.USAGE, "needs a run"),
        (("show", "000000"), Exit.USAGE, "more than one run"),
        (("tail", "x"), Exit.USAGE, "takes no name"),
        (("tail", "-n", "0"), Exit.USAGE, "from 1 on"),
        (("tail", "--kind", "restarts"), Exit.USAGE, "no kind `restarts`"),
        (("tail", "--since", "soon"), Exit.USAGE, "--since is no time"),
        (("tail", "--since", "tomorrow", "--until", "today"), Exit.USAGE, "not after"),
        (("tail", "--follow", "--until", "today"), Exit.USAGE, "cannot go together"),
        (("tail", "--tenant", "acme", "--all"), Exit.USAGE, "cannot go together"),
        (("verify", "--since", "today"), Exit.USAGE, "--since is for tail and export"),
        (("verify", "--caller", "eve"), Exit.USAGE, "--caller is for tail"),
        (("verify", "guideway.toml"), Exit.USAGE, "no export of an audit trail"),
        (("verify", "nowhere"), Exit.USAGE, "cannot read `nowhere`"),
        (("verify", "--key", "nowhere"), Exit.USAGE, "cannot be read"),
        (("verify", "--key", "guideway.toml"), Exit.USAGE, "holds no Ed25519 key"),
        (("verify", "--checkpoints", "nowhere"), Exit.USAGE, "cannot read"),
        (("export", "--output", "guideway.toml"), Exit.USAGE, "there already"),
        (("export", "--output", "nowhere/file"), Exit.USAGE, "cannot write"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], code: Exit, words: str, said: Said) -> None:
    found, out, errors = said(*arguments)
    assert found == code
    assert words in errors
    assert out == ""


def test_following_goes_on_as_records_come_and_ends_at_ctrl_c(folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("guideway")), "audit", "tail", "-n", "1", "--follow", "--json"]
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["seq"] == 30
        append(folder, Entry(Kind.SERVER_STARTED, None, NOW, {}))
        assert json.loads(following.stdout.readline())["kind"] == "server.started"
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == Exit.INTERRUPTED


def test_a_run_says_how_much_of_it_its_record_left_out(folder: Path, said: Said) -> None:
    run = "00000000-0000-4000-8000-00000000abcd"
    begun = {"commands": [], "commands_left_out": {"allowed": 700}, "program": "PING", "program_left_out": 12_345}
    ended = {"status": "completed", "steps": [], "steps_left_out": {"ok": 900}}
    whose = {"run": run, "caller": CALLER}
    append(folder, Entry(Kind.RUN_BEGUN, None, NOW, whose | begun), Entry(Kind.RUN_ENDED, None, NOW, whose | ended))
    shown = " ".join(said("show", run)[1].split())
    assert "not in the record, which would be too long: 12,345 more characters of it" in shown
    assert "not listed in the record, which would be too long: 700 allowed; they only read" in shown
    assert "not listed in the record, which would be too long: 900 ok; they only read" in shown


def test_a_run_that_was_refused_says_how_much_of_that_its_record_left_out(folder: Path, said: Said) -> None:
    run = "00000000-0000-4000-8000-00000000abcd"
    commands = [{"command": "RESTART", "target": "database", "tier": 3, "source": "impact", "decision": "refused"}]
    left = {"refused": 4, "not_run": 700}
    refusal = {"code": "unknown_target", "reasons": [], "more": 31}
    facts = {"commands": commands, "commands_left_out": left, "refusal": refusal, "run": run, "caller": CALLER}
    append(folder, Entry(Kind.RUN_REFUSED, None, NOW, facts))
    shown = " ".join(said("show", run)[1].split())
    assert "which would be too long: 4 refused, 700 not_run; nothing of it ran" in shown
    assert "and 31 more reasons, which the record does not list" in shown
    assert "RESTART database and 704 more" in " ".join(said("tail", "-n", "1")[1].split())

"""``guideway run --server`` says, draws and returns what ``guideway run`` does."""

import re

import pytest

from tests.server.sign_in.world import INVENTORY, READ, WRITE, Place, Shell, free_port

NUMBER = re.compile(r"\d+\.\d+")
LOCAL = f"""
caller = "me"
[callers.me]
scopes = ["{READ}", "{WRITE}"]
{INVENTORY}"""
PROGRAMS = {
    "completed": 'PING "api.internal"\nPING "api.internal"\n',
    "contained": 'TRY RESTART "cache" CATCH PING "api.internal"\n',
    "failed": 'PING "api.internal" RESTART "cache" PING "api.internal"\n',
    "syntax": 'PING "api.internal"\nPIGN "api.internal"\nPING\n',
    "unknown": 'TRY {\n  PING "api.internl"\n} CATCH {\n  RESTART "databse"\n}\n',
    "warned": 'IF_RUNNING "slow" THEN IF_RUNNING "slow" THEN PING "api.internal" ELSE PING "api.internal"\n',
    "empty": "",
    "wide": '# ☃ snow\n\tPING "api.internal" ☃\n',
    "deep": "{" * 80 + "}" * 80,
}


@pytest.fixture(scope="module")
def reader(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return a shell that is signed in to read."""
    shell = Shell(tmp_path_factory.mktemp("reader"))
    shell.has_browser()
    assert shell.run("login", place.url).returncode == 0
    return shell


@pytest.fixture(scope="module")
def operator(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return a shell that is signed in for all, with a configuration of its own like the server's."""
    shell = Shell(tmp_path_factory.mktemp("operator"))
    shell.has_browser()
    assert shell.run("login", place.url, "--scope", f"{READ} {WRITE}").returncode == 0
    (shell.home / "guideway.toml").write_text(LOCAL)
    return shell


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_there_looks_like_one_here(place: Place, operator: Shell, name: str) -> None:
    program = operator.program(PROGRAMS[name], f"{name}.diag")
    here, there = operator.run("run", program), operator.run("run", program, "--server", place.url)
    assert NUMBER.sub("N", there.stdout) == NUMBER.sub("N", here.stdout)
    assert NUMBER.sub("N", there.stderr) == NUMBER.sub("N", here.stderr)
    assert there.returncode == here.returncode


@pytest.mark.parametrize("name", ["contained", "syntax"])
def test_json_gives_the_report_as_the_server_made_it(place: Place, operator: Shell, name: str) -> None:
    program = operator.program(PROGRAMS[name], f"{name}.diag")
    here, there = operator.json("run", program), operator.json("run", program, "--server", place.url)
    varying = {"run_id", "started", "seconds"}
    for report in (here, there):
        for part in (report, *report["steps"]):
            for key in varying & set(part):
                part[key] = None
    assert there == here


def test_a_program_comes_from_standard_input_too(place: Place, reader: Shell) -> None:
    ran = reader.run("run", "-", "--server", place.url, typed='PING "api.internal"')
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(' 1 ok        PING "api.internal"')


def test_what_cannot_be_read_is_refused_as_it_is_here(place: Place, reader: Shell) -> None:
    (reader.home / "latin.diag").write_bytes(b'PING "\xff"')
    ran = reader.run("run", "latin.diag", "--server", place.url)
    assert ran.returncode == 2
    assert "byte 0xFF is not UTF-8" in ran.stderr
    ran = reader.run("run", "missing.diag", "--server", place.url)
    assert ran.returncode == 4
    assert "cannot read `missing.diag`" in ran.stderr


def test_a_missing_scope_is_drawn_in_the_program_and_nobody_is_asked_without_a_terminal(
    place: Place, reader: Shell
) -> None:
    visits = len(reader.visits)
    program = reader.program('PING "api.internal"\nTRY PING "api.internal" CATCH RESTART "database"\n')
    ran = reader.run("run", program, "--server", place.url)
    assert ran.returncode == 2
    assert "program.diag:2:31: error[insufficient_scope]: operation requires scope 'mcp:diag:write'" in ran.stderr
    assert 'TRY PING "api.internal" CATCH RESTART "database"' in ran.stderr
    assert f'note: guideway login {place.url} --scope "{READ} {WRITE}"' in ran.stderr
    assert ran.stdout == "refused: operation requires scope 'mcp:diag:write'; nothing ran\n"
    assert len(reader.visits) == visits
    report = reader.json("run", program, "--server", place.url)
    assert report["status"] == "refused"
    assert report["refusal"]["code"] == "insufficient_scope"
    assert report["refusal"]["missing_scopes"] == [WRITE]


def test_who_is_not_signed_in_is_told_how(place: Place, shell: Shell) -> None:
    program = shell.program('PING "api.internal"')
    ran = shell.run("run", program, "--server", place.url)
    assert (ran.returncode, ran.stdout) == (4, "")
    expected = f"""error: not signed in at `{place.url}`\n  help: guideway login {place.url} --scope "{READ}"\n"""
    assert ran.stderr == expected
    error = shell.json("run", program, "--server", place.url)["error"]
    assert error["code"] == "not_signed_in"
    assert shell.visits == []


def test_a_server_that_is_not_there_is_said_to_be(shell: Shell) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    for command in (["run", shell.program("PING"), "--server", url], ["login", url]):
        ran = shell.run(*command)
        assert ran.returncode == 4
        assert ran.stderr.startswith(f"error: cannot connect to `{url[7:-4]}`: connection refused\n"), ran.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://guideway.example.com/mcp", "is not https"),
        ("ftp://127.0.0.1/mcp", "is not the URL of a server"),
        ("https://user:hidden@127.0.0.1/mcp", "holds no user"),
        ("https://127.0.0.1/mcp?token=hidden", "has no query"),
        ("guideway.example.com", "is not the URL of a server"),
        ("https://127.0.0.1:http/mcp", "is not the URL of a server"),
    ],
)
def test_an_address_that_is_not_private_or_none_is_wrong_usage(shell: Shell, url: str, words: str) -> None:
    ran = shell.run("run", shell.program("PING"), "--server", url)
    assert ran.returncode == 4
    assert words in ran.stderr
    assert "hidden" not in ran.stderr


@pytest.mark.parametrize("option", [["--as", "me"], ["--config", "x.toml"]])
def test_what_is_the_servers_to_know_is_not_said_to_it(shell: Shell, option: list[str]) -> None:
    ran = shell.run("run", "x.diag", "--server", "https://127.0.0.1/mcp", *option)
    assert ran.returncode == 4
    assert "--server cannot go with" in ran.stderr


@pytest.mark.parametrize("option", [["--no-input"], ["--ca-file", "x.pem"]])
def test_what_is_for_servers_is_not_said_without_one(shell: Shell, option: list[str]) -> None:
    ran = shell.run("run", "x.diag", *option)
    assert ran.returncode == 4
    assert "are for --server" in ran.stderr

"""``guideway login`` and ``logout`` against a real server and the development issuer."""

import json
import re
import shlex
import stat
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2

from guideway.server.cli import entry
from tests.server.development_issuer.browser import approve
from tests.server.development_issuer.world import CODE
from tests.server.sign_in.world import GUIDEWAY, READ, WRITE, Place, Shell, everything

THEIRS = "https://guideway.example.com"


def asked(shell: Shell) -> dict[str, str]:
    """Return the parameters of the address that the browser was last sent to."""
    return {name: values[0] for name, values in parse_qs(urlsplit(shell.visits[-2]).query).items()}


def tokens(shell: Shell) -> list[str]:
    """Return the tokens that are kept."""
    kept = shell.kept()["secrets"]["tokens"]
    return [kept["access_token"], kept["refresh_token"]]


def test_signing_in_asks_for_what_the_server_names_and_says_what_was_granted(place: Place, shell: Shell) -> None:
    ran = shell.run("login", place.url)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"signed in at {place.url}\n")
    assert f"issuer   {place.issuer}\n" in ran.stdout
    assert f"scopes   {READ}\n" in ran.stdout
    assert shell.visits[0] in ran.stderr, "the address is printed, too"
    assert shell.visits[1].startswith("200 ")
    assert "Signed in" in shell.visits[1]
    assert asked(shell)["scope"] == READ
    assert asked(shell)["resource"] == place.url
    assert asked(shell)["code_challenge_method"] == "S256"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", asked(shell)["redirect_uri"])


def test_scopes_are_asked_for_as_they_are_given(place: Place, shell: Shell) -> None:
    said = shell.json("login", place.url, "--scope", f"{READ} {WRITE}")
    assert said["scopes"] == said["asked"] == [READ, WRITE]
    assert said["missing"] == []
    assert said["renewable"]
    shell.run("login", place.url, "--scope", WRITE)
    assert asked(shell)["scope"] == WRITE


def test_what_is_granted_short_of_what_was_asked_is_said_and_is_exit_code_1(place: Place, shell: Shell) -> None:
    shell.has_browser("bob")
    ran = shell.run("login", place.url, "--scope", READ, "--scope", WRITE)
    assert ran.returncode == 1
    assert f"scopes   {READ}\n" in ran.stdout
    assert ran.stderr.endswith(f"granted less than was asked: without `{WRITE}`\n")


def test_who_declines_is_not_signed_in(place: Place, shell: Shell) -> None:
    shell.has_browser(decision="deny")
    ran = shell.run("login", place.url)
    assert ran.returncode == 1
    assert f"error: `{place.issuer}` did not grant it: access_denied" in ran.stderr
    assert "Not signed in" in shell.visits[-1]
    assert not list(shell.folder.glob("*.json"))


def test_who_may_grant_nothing_is_not_signed_in(place: Place, shell: Shell) -> None:
    shell.has_browser("carol")
    ran = shell.run("login", place.url)
    assert ran.returncode == 1
    assert "did not grant it: access_denied" in ran.stderr


def test_no_token_is_ever_shown(place: Place, shell: Shell) -> None:
    written, secrets = "", list[str]()
    program = shell.program('PING "api.internal"\n')
    for command in (
        ["login", place.url],
        ["login", place.url, "--json"],
        ["login", "--show"],
        ["run", program, "--server", place.url],
        ["run", program, "--server", place.url, "--json"],
        ["logout", place.url],
    ):
        ran = shell.run(*command)
        secrets = tokens(shell) if command[0] != "logout" else secrets
        written += ran.stdout + ran.stderr + place.log.read_text() + "".join(shell.visits)
        assert not [secret for secret in secrets if secret in written]


def test_tokens_are_kept_in_a_file_that_is_the_persons_alone(place: Place, shell: Shell) -> None:
    shell.run("login", place.url)
    assert stat.S_IMODE(shell.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in shell.folder.iterdir()} == {0o600}


def test_a_client_registers_once_and_for_every_scope_of_the_server(place: Place, shell: Shell) -> None:
    """An issuer may hold a client to the scopes that it registered for: a step-up would then be ``invalid_scope``."""
    shell.run("login", place.url)
    registered = shell.kept()["secrets"]["client"]
    assert set(registered["scope"].split()) >= {READ, WRITE}
    shell.run("login", place.url, "--scope", WRITE)
    assert shell.kept()["secrets"]["client"]["client_id"] == registered["client_id"]


def test_a_browser_elsewhere_is_served_by_pasting_the_address_where_it_ends(place: Place, shell: Shell) -> None:
    del shell.variables["BROWSER"]
    with shell.start("login", place.url, "--no-browser") as process:
        assert process.stderr is not None
        assert process.stdin is not None
        lines = [process.stderr.readline() for _ in range(3)]
        assert "open this in a browser" in lines[0]
        location = anyio.run(approve, lines[1].strip(), CODE, "alice")
        for pasted in ["nonsense", location.replace("state=", "state=x"), location]:
            process.stdin.write(pasted + "\n")
            process.stdin.flush()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith(f"signed in at {place.url}\n")
    assert err.count("this is not it") == 2


def test_where_nothing_can_be_pasted_that_is_said_at_once_and_a_browser_here_still_answers(
    place: Place, shell: Shell
) -> None:
    del shell.variables["BROWSER"]
    for ended in ("/dev/null", "-"):  # at its end, and closed
        command = f'exec "$@" <{"&" if ended == "-" else ""}{ended}'
        with subprocess.Popen(
            ["sh", "-c", command, "sh", GUIDEWAY, "login", place.url, "--no-browser"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=shell.home,
            env=shell.environment(),
            text=True,
        ) as process:
            assert process.stderr is not None
            lines = [process.stderr.readline() for _ in range(4)]
            while "nothing can be pasted" not in lines[-1]:
                assert lines[-1], lines
                lines.append(process.stderr.readline())
            location = anyio.run(approve, lines[1].strip(), CODE, "alice")
            with httpx2.Client(trust_env=False, timeout=30) as http:
                assert http.get(location).status_code == 200
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.startswith(f"signed in at {place.url}\n")


def test_a_client_that_the_issuer_knows_is_used_as_it_is(place: Place, shell: Shell) -> None:
    with httpx2.Client(trust_env=False) as http:
        redirect = "http://127.0.0.1:40999/callback"
        answer = http.post(f"{place.issuer}/register", json={"redirect_uris": [redirect]})
        client_id = answer.json()["client_id"]
    said = shell.json("login", place.url, "--client-id", client_id)
    assert said["client_id"] == client_id
    assert asked(shell)["client_id"] == client_id


def test_who_is_signed_in_where_can_be_listed(place: Place, shell: Shell) -> None:
    assert shell.run("login", "--show").stdout == "signed in nowhere\n"
    shell.run("login", place.url)
    (entry,) = shell.json("login", "--show")["servers"]
    assert (entry["server"], entry["issuer"], entry["scopes"]) == (place.url, place.issuer, [READ])


def test_signing_out_revokes_and_forgets(place: Place, shell: Shell) -> None:
    shell.run("login", place.url)
    access, refresh = tokens(shell)
    client_id = shell.kept()["secrets"]["client"]["client_id"]
    ran = shell.run("logout", place.url)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "signed out" in ran.stdout
    assert access not in everything(shell.folder)
    with httpx2.Client(trust_env=False) as http:
        form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": client_id, "resource": place.url}
        assert http.post(f"{place.issuer}/token", data=form).json()["error"] == "invalid_grant"
    assert shell.run("logout", place.url).stdout == f"not signed in at {place.url}\n"


def test_signing_out_forgets_also_where_the_issuer_cannot_be_told(place: Place, shell: Shell) -> None:
    shell.run("login", place.url)
    gone = json.loads(json.dumps(shell.kept()["metadata"]).replace(place.issuer, "http://127.0.0.1:9"))
    shell.change(metadata=gone)
    ran = shell.run("logout", "--all")
    assert ran.returncode == 1
    assert "not revoked: cannot connect to `127.0.0.1:9`" in ran.stdout
    assert not list(shell.folder.glob("*.json"))


def test_one_bad_file_stops_neither_the_list_nor_signing_out_everywhere(place: Place, shell: Shell) -> None:
    shell.run("login", place.url)
    bad = shell.folder / f"{'0' * 32}.json"
    bad.write_text("{}")
    bad.chmod(0o600)
    shown = shell.run("login", "--show")
    assert f"signed in at {place.url}" in shown.stdout
    assert f"error: `{bad}` does not hold a sign-in of this version\n  help: remove it" in shown.stderr
    assert shown.returncode == 4
    said = shell.json("login", "--show")
    assert [len(said["servers"]), len(said["unreadable"])] == [1, 1]
    ended = shell.run("logout", "--all")
    assert ended.returncode == 1
    assert f"signed out of {place.url}" in ended.stdout
    assert f"signed out of {bad}" in ended.stdout
    assert "does not hold a sign-in" in ended.stdout
    assert list(shell.folder.iterdir()) == [], "no lock either"


def test_the_examples_of_the_help_work_with_a_server_in_the_place_of_theirs(place: Place, shell: Shell) -> None:
    shell.program('PING "api.internal"\n', "restart.diag")
    ran = 0
    for command in ("login", "run", "logout"):
        for example in entry.load(command).examples:
            if THEIRS in example:
                here = example.replace(THEIRS, place.url.removesuffix("/mcp"))
                done = shell.run(*shlex.split(here)[1:])
                assert done.returncode == 0, (here, done.stderr)
                ran += 1
    assert ran == 4


def test_a_server_that_asks_nobody_needs_no_signing_in(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "guideway.toml").write_text('caller = "me"\n[callers.me]\nscopes = ["mcp:diag:read"]\n')
    server = Shell(folder)
    with server.start("serve", "--http", "127.0.0.1:0", "--json") as process:
        assert process.stdout is not None
        said = ""
        while "}" not in said:
            said += process.stdout.readline()
        url = json.loads(said)["url"]
        ran = shell.run("login", url)
        process.terminate()
        process.communicate(timeout=60)
    assert (ran.returncode, ran.stdout) == (0, f"{url} asks nobody to sign in\n")

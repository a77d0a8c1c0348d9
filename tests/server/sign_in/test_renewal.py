"""A token that ends is renewed once, by one shell, whoever asks at the same time; nobody is asked to sign in again."""

import json
import subprocess
import sys

import httpx2
import pytest

from tests.server.sign_in.world import PATIENCE, READ, Place, Shell

RUN_OUT = 1.0  # an end long ago, in seconds since the epoch

# One process that has loaded everything, and then that many copies of it, which all begin at once.
SHELLS = """
import json, os, sys
from pathlib import Path
import anyio
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.store import TokenStore

server, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
start, go = os.pipe()
answers, answer = os.pipe()
for _ in range(count):
    if os.fork() == 0:
        os.close(go)
        os.read(start, 1)
        entry = anyio.run(Session(server, TokenStore(folder, uses_keyring=False)).current)
        os.write(answer, (json.dumps(entry and entry.tokens.access_token) + chr(10)).encode())
        os._exit(0)
os.close(go)
os.close(answer)
for _ in range(count):
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
sys.stdout.write(os.read(answers, 65_536).decode())
"""


@pytest.fixture
def signed_in(place: Place, shell: Shell) -> Shell:
    """Return a shell that is signed in, and whose access token has ended; its browser is gone."""
    assert shell.run("login", place.url).returncode == 0
    shell.change(expires_at=RUN_OUT)
    del shell.variables["BROWSER"]
    return shell


def spoil(shell: Shell, **tokens: str) -> None:
    """Change the tokens that are kept."""
    secrets = shell.kept()["secrets"]
    shell.change(secrets=secrets | {"tokens": secrets["tokens"] | tokens})


def test_twenty_shells_renew_one_token_once_and_nothing_is_revoked(place: Place, signed_in: Shell) -> None:
    """An issuer that sees one refresh token twice takes it for stolen, and revokes all that ever came from it."""
    before = signed_in.kept()["secrets"]["tokens"]
    ran = subprocess.run(
        [sys.executable, "-c", SHELLS, place.url, str(signed_in.folder), "20"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    got = [json.loads(line) for line in ran.stdout.splitlines()]
    after = signed_in.kept()["secrets"]["tokens"]
    assert got == [after["access_token"]] * 20
    assert after["refresh_token"] != before["refresh_token"]
    signed_in.change(expires_at=RUN_OUT)
    assert signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url).returncode == 0


def test_a_token_that_has_ended_is_renewed_before_it_is_sent(place: Place, signed_in: Shell) -> None:
    before = signed_in.kept()["secrets"]["tokens"]
    assert signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url).returncode == 0
    after = signed_in.kept()
    assert after["secrets"]["tokens"]["access_token"] != before["access_token"]
    assert after["expires_at"] > RUN_OUT
    assert after["secrets"]["tokens"]["scope"] == READ


def test_a_token_that_the_server_refuses_is_renewed_too(place: Place, signed_in: Shell) -> None:
    """It ended by the server's clock, or its key was withdrawn."""
    signed_in.change(expires_at=None)
    spoil(signed_in, access_token="spoilt")  # noqa: S106
    assert signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url).returncode == 0
    assert signed_in.kept()["secrets"]["tokens"]["access_token"] != "spoilt"  # noqa: S105


def test_who_was_signed_out_by_the_issuer_is_told_to_sign_in(place: Place, signed_in: Shell) -> None:
    spoil(signed_in, refresh_token="revoked")  # noqa: S106
    ran = signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url, "--no-input")
    assert ran.returncode == 4
    assert ran.stderr.startswith(f"error: the sign-in at `{place.url}` has ended\n")
    assert f"guideway login {place.url}" in ran.stderr
    assert "refresh_token" not in signed_in.kept()["secrets"]["tokens"], "it is not tried again and again"


def test_a_registration_that_the_issuer_forgot_is_forgotten_here(place: Place, signed_in: Shell) -> None:
    secrets = signed_in.kept()["secrets"]
    signed_in.change(secrets=secrets | {"client": {"client_id": "nobody", "redirect_uris": []}})
    ran = signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url)
    assert ran.returncode == 4
    assert f"guideway login {place.url}" in ran.stderr
    assert not list(signed_in.folder.glob("*.json"))
    signed_in.has_browser()
    assert signed_in.run("login", place.url).returncode == 0


def test_an_issuer_that_is_down_costs_no_sign_in(place: Place, signed_in: Shell) -> None:
    kept = signed_in.kept()
    away = json.loads(json.dumps(kept["metadata"]).replace(place.issuer, "http://127.0.0.1:9"))
    signed_in.change(metadata=away)
    ran = signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url)
    assert ran.returncode == 4
    assert ran.stderr.startswith("error: cannot connect to `127.0.0.1:9`")
    assert signed_in.kept()["secrets"] == kept["secrets"]


def test_a_refresh_token_goes_to_its_issuer_whatever_the_server_says_by_then(place: Place, signed_in: Shell) -> None:
    """A server that was taken over names another issuer. It must not get what the first one gave."""
    kept = signed_in.kept()
    assert kept["metadata"]["token_endpoint"] == f"{place.issuer}/token"
    elsewhere = "https://evil.example.com/token"
    signed_in.change(metadata=kept["metadata"] | {"token_endpoint": elsewhere.replace("https", "http")})
    ran = signed_in.run("run", signed_in.program('PING "api.internal"'), "--server", place.url)
    assert ran.returncode == 4
    assert "`http://evil.example.com/token` is not https" in ran.stderr


def test_a_renewal_is_kept_before_it_is_used(place: Place, signed_in: Shell) -> None:
    """The old refresh token is spent once the issuer has answered: a shell that ends then must have the new one."""
    ran = signed_in.run("run", signed_in.program("PIGN"), "--server", place.url)
    assert ran.returncode == 2, ran.stderr
    kept = signed_in.kept()["secrets"]
    form = {
        "grant_type": "refresh_token",
        "refresh_token": kept["tokens"]["refresh_token"],
        "client_id": kept["client"]["client_id"],
        "resource": place.url,
    }
    with httpx2.Client(trust_env=False) as http:
        assert http.post(f"{place.issuer}/token", data=form).status_code == 200

"""What ``guideway serve`` logs: who ran what, and which tokens were refused, at the level that is the default."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from guideway.dsl.scopes import scope_list
from guideway.interpreter.principal import Principal
from guideway.server.oauth.refusal_log import MOST, SECONDS, RefusalLog
from guideway.server.run_log import who
from tests.server.oauth.door import NO_AUTHORITIES, a_call, bearer
from tests.server.oauth.issuer import Issuer
from tests.server.world import BOTH, World

LEVELS = [("", "info"), ('log_level = "warning"', "warning"), ('log_level = "error"', "debug")]


@contextmanager
def serving(folder: Path, issuer: Issuer, keys: str, level: str | None = None) -> Iterator[tuple[str, Path]]:
    """Serve by the command; give the URL, and the file with what it logs."""
    stdio = World().command(folder)
    file = folder / "guideway.toml"
    file.write_text(f'{file.read_text()}\n[server]\n{keys}\n[issuers.corp]\nissuer = "{issuer.url}"\n')
    options = ["--log-level", level] if level else []
    log = folder / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [stdio.command, "serve", "--http", "127.0.0.1:0", "--config", str(file), *options],
            stderr=errors,
            text=True,
        ) as server,
    ):
        try:
            while not (found := re.search(r"serving (\S+) ", log.read_text())):
                assert server.poll() is None, log.read_text()
            yield found[1], log
        finally:
            server.terminate()
            assert server.wait(30) == 0


def run(url: str, program: str, token: str) -> httpx2.Response:
    body, headers = a_call(program)
    with httpx2.Client(verify=NO_AUTHORITIES, trust_env=False) as http:
        return http.post(url, json=body, headers=headers | bearer(token))


@pytest.mark.parametrize(("keys", "level"), LEVELS)
def test_what_is_logged_at_a_level(tmp_path: Path, keys: str, level: str) -> None:
    """And at none of them a token, or the text of a program."""
    program = 'GET_STATUS "ledger"  # a-word-of-the-program'
    with Issuer() as issuer, serving(tmp_path, issuer, keys, level if level == "debug" else None) as (url, log):
        good = issuer.token(aud=url, scope=scope_list(BOTH), sub="alice", client_id="shell")
        reader = issuer.token(aud=url, sub="bob")
        stale = issuer.token(aud=url, exp=1)
        assert run(url, program, good).status_code == 200
        assert run(url, 'RESTART "database"', reader).status_code == 403
        for token in [stale, *(f"junk-token-of-a-stranger-{number}" for number in range(40))]:
            assert run(url, program, token).status_code == 401
    written = log.read_text()
    lines = [line for line in written.splitlines() if line.startswith(("INFO ", "DEBUG "))]
    runs = [line for line in lines if ": run " in line or ": no run:" in line]
    refused = [line for line in lines if " refused a token from 127.0.0.1: " in line]
    if level == "warning":
        assert lines == []
    else:
        assert len(runs) == 2
        ran, not_run = runs
        about = f'subject="alice" issuer="{issuer.url}" tenant=- client="shell"'
        assert re.search(rf"run [0-9a-f-]+: completed, 1 steps, [\d.]+ s; {re.escape(about)}$", ran), ran
        assert 'no run: insufficient_scope, mcp:diag:write is needed; subject="bob"' in not_run
        assert refused[0].endswith("the token has expired")
        assert len(refused) == 1 + MOST, "one by one, and no flood"
        assert "are only counted" in refused[-1]
    assert any(line.startswith("DEBUG ") for line in lines) == (level == "debug")
    assert "a-word-of-the-program" not in written
    for token in (good, reader, stale):
        assert token[-20:] not in written
        assert token[:60] not in written
    assert "junk-token" not in written


def test_refusals_that_were_only_counted_are_told_with_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "guideway")
    now = 0.0
    log = RefusalLog(lambda: now)
    for _ in range(MOST + 3):
        log.note("a token", "the token has expired", "192.0.2.1")
    log.note("a token", "the token is malformed", "192.0.2.1")
    now = SECONDS
    log.note("a token", "the token has expired", "192.0.2.1")
    assert len(caplog.messages) == MOST + 2
    assert caplog.messages[-2] == "refused a token from 192.0.2.1: the token is malformed"
    assert caplog.messages[-1].endswith("the token has expired; 3 more before it were only counted")


def test_an_issuers_words_cannot_pass_for_other_fields_or_lines() -> None:
    odd = Principal('al"ice" issuer="x\nERROR y', frozenset(), issuer="i" * 500, client="\x1b[31m\u202e")
    line = who(odd)
    assert line.isascii()
    assert line.isprintable()
    assert line.startswith('subject="al\\"ice\\" issuer=\\"x\\nERROR y" issuer="iiii')
    assert len(line) < 400

"""Webhooks as they are configured: a command tells on its way out, and what it cannot tell a server does."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from guideway.server import config as configuration
from guideway.server.config_errors import ConfigError
from guideway.server.webhooks.configured import configured
from tests.scripts.session import environment
from tests.server.webhooks.notices import SECRET
from tests.server.webhooks.receiver import receiving, wait_until

CONFIGURATION = """
caller = "operator"
[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]
[callers.ada]
scopes = ["mcp:diag:approve"]
[server]
url = "https://guideway.example.com/mcp"
[services.database]
driver = "memory"
settle_seconds = 0
[approvals.webhooks.ops]
url = "{url}"
secret_env = "HOOK"
"""


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["guideway", *arguments],
        cwd=folder,
        env={**environment(folder), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    """Serve over standard input and output, by whoever can read the secret."""
    with subprocess.Popen(
        ["guideway", "serve", "--stdio"],
        cwd=folder,
        env={**environment(folder), "HOOK": SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_a_command_tells_and_a_server_tells_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "restart.diag").write_text('RESTART "database"\n')
    with receiving() as receiver:
        (tmp_path / "guideway.toml").write_text(CONFIGURATION.format(url=receiver.url))
        ran = run(tmp_path, "run", "restart.diag", "--json")  # by somebody who cannot sign
        assert ran.returncode == 3
        assert "who is to be told is left for a server to tell" in ran.stderr
        assert "what `secret_env` names is empty or not set" in ran.stderr
        assert receiver.received == []
        with serving(tmp_path):
            receiver.wait_for(1)
        ticket = json.loads(ran.stdout)["refusal"]["approval"]["ticket"]
        ran = run(tmp_path, "approvals", "deny", ticket, "--as", "ada", "--reason", "at noon", HOOK=SECRET)
        assert (ran.returncode, ran.stderr) == (0, "")
        first, second = receiver.wait_for(2)
    for told, kind in ((first, "approval.pending"), (second, "approval.decided")):
        document = Verifier(SECRET).verify(told.body, told.headers)
        assert (document["type"], document["data"]["ticket"]) == (kind, ticket)
    assert json.loads(second.body)["data"]["reason"] == "at noon"


def test_what_did_not_arrive_is_told_by_the_list_and_by_doctor(tmp_path: Path) -> None:
    (tmp_path / "restart.diag").write_text('RESTART "database"\n')
    with receiving(410, 500) as receiver:
        (tmp_path / "guideway.toml").write_text(CONFIGURATION.format(url=receiver.url))
        ran = run(tmp_path, "run", "restart.diag", "--json", HOOK=SECRET)
        ticket = json.loads(ran.stdout)["refusal"]["approval"]["ticket"]
        assert "is undeliverable: it answered HTTP 410" in ran.stderr
        run(tmp_path, "approvals", "deny", ticket, "--as", "ada", HOOK=SECRET)
        wait_until(lambda: len(receiver.received) == 2)
    listed = json.loads(run(tmp_path, "approvals", "list", "--as", "ada", "--json").stdout)
    assert [(each["event"], each["given_up"], each["ticket"]) for each in listed["undelivered"]] == [
        ("decided", False, ticket),
        ("pending", True, ticket),
    ]
    shown = run(tmp_path, "approvals", "list", "--as", "ada").stdout
    assert f"undeliverable: `pending` of {ticket} to webhook ops: it answered HTTP 410" in shown
    found = json.loads(run(tmp_path, "doctor", "--json", HOOK=SECRET).stdout)["findings"]
    (finding,) = [each for each in found if each["about"] == "webhook ops"]
    assert finding["grade"] == "wrong"
    assert finding["message"].startswith("1 undeliverable, 1 not delivered yet, the last one: it answered HTTP 500")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('url = "http://hooks.example.com/"\nformat = "slack"', "must be `https`, except on loopback"),
        ('url = "https://169.254.169.254/"\nformat = "slack"', "link-local, where clouds keep credentials"),
        ('url = "https://hooks.example.com/"', "needs `secret_file` or `secret_env`"),
        ('format = "slack"', "needs one of `url`, `url_file` and `url_env`"),
        ('url = "https://a.example/"\nurl_env = "B"\nformat = "slack"', "and has `url` and `url_env`"),
        ('url = "https://a.example/"\nformat = "slack"\nevents = ["all"]', "events"),
    ],
)
def test_mistakes_are_told_when_the_configuration_is_read(tmp_path: Path, keys: str, words: str) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(f"[approvals.webhooks.ops]\n{keys}\n")
    with pytest.raises(ConfigError, match="webhooks") as error:
        configuration.load(file)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("url", "secret", "words"),
    [
        ("ftp://hooks.example.com/S3CRET", SECRET, "what `url_env` names holds no https URL"),
        ("https://user:S3CRET@hooks.example.com/", SECRET, "what `url_env` names holds no https URL"),
        ("https://hooks.example.com/x", "S3CRET", "what `secret_env` names is no secret of a webhook"),
    ],
)
def test_what_is_wrong_with_a_secret_is_told_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, secret: str, words: str
) -> None:
    monkeypatch.setenv("HOOK_URL", url)
    monkeypatch.setenv("HOOK", secret)
    file = tmp_path / "guideway.toml"
    file.write_text('[approvals.webhooks.ops]\nurl_env = "HOOK_URL"\nsecret_env = "HOOK"\n')
    with pytest.raises(ConfigError) as error:
        configured(configuration.load(file))
    assert words in str(error.value)
    assert "S3CRET" not in str(error.value)
    assert "S3CRET" not in repr(configuration.load(file))

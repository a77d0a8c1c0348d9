"""An operator's shell (`guideway login`, `guideway run --server`) at providers that nobody here wrote."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.oauth import browser
from tests.interop.oauth.django_provider import Site
from tests.interop.oauth.guideway_server import PROGRAM, Guideway
from tests.interop.oauth.oidc_provider import Provider
from tests.interop.oauth.processes import environment
from tests.interop.oauth.stories import BOTH, READ

ROOT = str(Path(__file__).parents[3])
Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a function that types a command in the shell of somebody with a browser."""
    opens = f"{sys.executable} {browser.__file__} %s"
    variables = environment(HOME=str(tmp_path), BROWSER=opens, GUIDEWAY_TOKENS="file", PYTHONPATH=ROOT)

    def shell(*words: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAM), *words]
        return subprocess.run(
            command, cwd=tmp_path, env=variables, input=program, capture_output=True, text=True, check=False, timeout=60
        )

    return shell


def told_to(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the command that somebody is told to type, without the program's name."""
    [line] = [line for line in ended.stderr.splitlines() if "guideway login" in line]
    return shlex.split(line.partition("guideway ")[2])


def restarts(shell: Shell, guideway: Guideway) -> None:
    """Restart a service as somebody who signed in for less: they are told what to type, do so, and try again."""
    program = f'RESTART "{guideway.stopped_service()}"'
    refused = shell("run", "--server", guideway.url, "-", program=program)
    assert refused.returncode == 2
    assert "operation requires scope 'mcp:diag:write'" in refused.stderr
    more = shell(*told_to(refused))
    assert more.returncode == 0, more.stderr
    ended = shell("run", "--server", guideway.url, "-", program=program)
    assert ended.returncode == 0, ended.stderr


def test_a_shell_steps_up_where_clients_are_held_to_what_they_registered_for(
    shell: Shell, guideway: Guideway, provider: Provider
) -> None:
    provider.set(registers="scopes-it-named")
    asked = shell("run", "--server", guideway.url, "-", program='PING "api.internal"')
    assert asked.returncode == 4
    signed_in = shell(*told_to(asked))
    assert signed_in.returncode == 0, signed_in.stderr
    assert provider.asked.scopes == [READ]
    restarts(shell, guideway)
    assert provider.asked.scopes == [READ, BOTH]
    assert provider.asked.registrations == 1


def test_a_shell_that_is_granted_less_says_what_is_missing(
    shell: Shell, guideway: Guideway, provider: Provider
) -> None:
    provider.set(consents=[*READ, "offline_access"])
    ended = shell("login", guideway.url, "--scope", " ".join(sorted(BOTH)))
    assert ended.returncode == 1
    assert "granted less than was asked: without `mcp:diag:write`" in ended.stderr
    assert provider.asked.scopes == [BOTH]


def test_a_shell_steps_up_with_opaque_tokens(shell: Shell, asking_guideway: Guideway, site: Site) -> None:
    port = str(urlsplit(browser.REDIRECT).port)
    signed_in = shell("login", asking_guideway.url, "--client-id", site.client["client_id"], "--port", port)
    assert signed_in.returncode == 0, signed_in.stderr
    restarts(shell, asking_guideway)

"""``guideway serve --http`` with the development issuer: the whole of it, seen by the official client."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from guideway.server.tool import TOOL_NAME
from tests.scripts.session import environment
from tests.server.development_issuer.browser import TLS, approve, parameters
from tests.server.development_issuer.world import READ, REDIRECT, WRITE, opened
from tests.server.world import Era

pytestmark = pytest.mark.anyio

GUIDEWAY = str(Path(sys.executable).with_name("guideway"))
CONFIGURATION = """
[server]
port = {server}

[development_issuer]
port = {issuer}
people = {{ alice = ["mcp:diag:read", "mcp:diag:write"], bob = ["mcp:diag:read"] }}
state_folder = "state"

[hosts."api.internal"]
probe = "memory"

[services.database]
driver = "memory"
impact = "low"
reversibility = "easy"
settle_seconds = 0
"""
RESTART = {"program": 'RESTART "database"'}
LOOK = {"program": 'GET_STATUS "database"'}

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@dataclass
class Served:
    """What ``guideway serve`` has said of itself, and what it said at last."""

    url: str
    issuer: str
    code: str
    folder: Path
    said: list[str] = field(default_factory=list)


@contextmanager
def served(folder: Path, *, server: int = 0, issuer: int = 0) -> Iterator[Served]:
    """Run ``guideway serve --http``, and end it as Ctrl-C does."""
    (folder / "guideway.toml").write_text(CONFIGURATION.format(server=server, issuer=issuer))
    command = [GUIDEWAY, "serve", "--http"]
    with subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = [process.stderr.readline() for _ in range(3)]
            found = re.fullmatch(
                r"serving (http://127\.0\.0\.1:\d+/mcp) to those with a token of (http://127\.0\.0\.1:\d+); "
                r"Ctrl-C stops it\npeople approve at (http://127\.0\.0\.1:\d+/approvals)\n"
                r"the sign-in code of (.*) is ([-A-Z2-9]{19}), until this server stops\n",
                "".join(lines),
            )
            assert found, "".join(lines) + process.stderr.read()
            assert found[3] == found[1].replace("/mcp", "/approvals")
            assert found[2] == found[4]
            made = Served(found[1], found[2], found[5], folder)
            yield made
        finally:
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
            if sys.exc_info()[0] is None:
                made.said.append(rest)
                assert process.returncode == 0


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as made:
        yield made


class Kept:
    """What a client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Somebody who signs in whenever a client sends them, and gives what they can. ``asked`` are the scopes."""

    def __init__(self, here: Served, name: str, **changed: str) -> None:
        self.here, self.name, self.changed = here, name, changed
        self.asked: list[str] = []
        self.answer: dict[str, str] = {}

    async def open(self, url: str) -> None:
        self.asked.append(httpx2.URL(url).params["scope"])
        self.answer = {**parameters(await approve(url, self.here.code, self.name)), **self.changed}

    async def come_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self.answer)


@asynccontextmanager
async def connected(person: Person, kept: Kept, era: Era) -> AsyncIterator[tuple[Client, OAuthClientProvider]]:
    """Connect the official client, which registers and signs in by itself."""
    metadata = OAuthClientMetadata(client_name="the official client", redirect_uris=[AnyUrl(REDIRECT)])
    auth = OAuthClientProvider(person.here.url, metadata, kept, person.open, person.come_back)
    async with (
        httpx2.AsyncClient(verify=TLS, auth=auth, timeout=30) as http,
        Client(streamable_http_client(person.here.url, http_client=http), mode=era) as client,
    ):
        yield client, auth


async def grammar(client: Client) -> str:
    return (await client.list_tools()).tools[0].description or ""


@eras
async def test_a_client_signs_in_and_steps_up_by_itself(here: Served, era: Era) -> None:
    person, kept = Person(here, "alice"), Kept()
    async with connected(person, kept, era) as (client, auth):
        assert "RESTART" not in await grammar(client)
        assert person.asked == [READ]
        looked = await client.call_tool(TOOL_NAME, LOOK)
        assert not looked.is_error
        restarted = await client.call_tool(TOOL_NAME, RESTART)
        assert not restarted.is_error
        assert person.asked == [READ, f"{READ} {WRITE}"]
        assert "RESTART" in await grammar(client)

        assert kept.tokens is not None
        before = kept.tokens
        auth.context.token_expiry_time = 1.0  # long ago
        assert not (await client.call_tool(TOOL_NAME, RESTART)).is_error
        assert kept.tokens.refresh_token != before.refresh_token
        assert len(person.asked) == 2  # renewing asks nobody
    assert kept.client is not None
    assert kept.client.client_secret is None
    claims = opened(kept.tokens.access_token)[1]
    assert (claims["iss"], claims["aud"], claims["sub"]) == (here.issuer, here.url, "alice")


@eras
async def test_a_step_up_that_grants_less_ends_in_an_error_and_no_loop(here: Served, era: Era) -> None:
    person, kept = Person(here, "bob"), Kept()
    async with connected(person, kept, era) as (client, _):
        await client.list_tools()
        with pytest.raises((MCPError, httpx2.HTTPError)):
            await client.call_tool(TOOL_NAME, RESTART)
        assert person.asked == [READ, f"{READ} {WRITE}"]
        assert kept.tokens is not None
        assert kept.tokens.scope == READ
        assert not (await client.call_tool(TOOL_NAME, LOOK)).is_error


async def test_a_client_sees_that_the_answer_is_another_issuers(here: Served) -> None:
    """Mix-up: the browser comes back from another issuer, with a code that the client would take to this one."""
    person = Person(here, "alice", iss="http://127.0.0.1:1")
    with pytest.RaisesGroup(pytest.RaisesExc(OAuthFlowError), flatten_subgroups=True):
        async with connected(person, Kept(), "legacy"):
            pass  # pragma: no cover


def test_a_token_of_the_shell_is_believed(here: Served) -> None:
    ports = {"server": here.url.split(":")[2].partition("/")[0], "issuer": here.issuer.rpartition(":")[2]}
    file = here.folder / "named.toml"
    file.write_text(CONFIGURATION.format(**ports))
    command = [GUIDEWAY, "token", "--config", str(file), "--person", "bob"]
    token = subprocess.run(command, env=environment(here.folder), capture_output=True, text=True, check=True).stdout
    with httpx2.Client(verify=TLS) as http:
        address = here.url.replace("/mcp", "/grammar")
        answer = http.get(address, headers={"Authorization": f"Bearer {token.strip()}"})
        assert answer.status_code == 200
        assert '"GET_STATUS"' in answer.text
        assert '"RESTART"' not in answer.text
        assert http.get(address).status_code == 401


def test_each_start_has_a_code_of_its_own_and_nothing_more_is_said(tmp_path: Path) -> None:
    codes = []
    for _ in range(2):
        with served(tmp_path) as made:
            codes.append(made.code)
        assert made.said == [""]
    assert len(set(codes)) == 2
    for file in (tmp_path / "state").iterdir():
        assert codes[1].encode() not in file.read_bytes()


def serve(folder: Path, **ports: int) -> subprocess.CompletedProcess[str]:
    """Run ``guideway serve --http`` where it cannot start."""
    (folder / "guideway.toml").write_text(CONFIGURATION.format(**{"server": 0, "issuer": 0, **ports}))
    command = [GUIDEWAY, "serve", "--http"]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = serve(tmp_path, issuer=port)
    assert (ran.returncode, ran.stderr) == (
        4,
        (
            f"error: the development issuer cannot listen on port {port}: address already in use\n"
            "  help: name another `port` in [development_issuer]\n"
        ),
    )


def test_a_state_folder_that_others_can_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    ran = serve(tmp_path)
    assert (ran.returncode, ran.stderr) == (
        4,
        (
            f"error: the development issuer cannot start: `{tmp_path}/state` can be used by others\n"
            f"  help: chmod 700 {tmp_path}/state\n"
        ),
    )


@pytest.mark.parametrize("package", ["authlib"])
def test_a_package_that_is_missing_is_told(tmp_path: Path, package: str) -> None:
    (tmp_path / "guideway.toml").write_text(CONFIGURATION.format(server=0, issuer=0))
    code = f"""
import sys
sys.modules["{package}"] = None
from guideway.server.cli import main
sys.exit(main(["serve", "--http"]))
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (
        4,
        (
            f"error: the development issuer needs `{package}`, which is not installed\n"
            "  help: pip install '.[issuer]' in guideway's repository\n"
        ),
    )

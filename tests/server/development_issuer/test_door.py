"""The issuer cannot be reached from elsewhere: each test is one way in which that could happen by accident."""

import logging
import socket
from pathlib import Path

import anyio
import httpx2
import pytest

from guideway.server.config import load
from guideway.server.config_errors import ConfigError
from guideway.server.development_issuer.folder import StateError, default_folder
from guideway.server.development_issuer.serving import serve
from guideway.server.sections import DevelopmentIssuerSection
from tests.server.development_issuer.browser import Browser
from tests.server.development_issuer.world import CODE, PEOPLE, RESOURCE, Client, running

pytestmark = pytest.mark.anyio
METADATA = "/.well-known/oauth-authorization-server"


def section(folder: Path, port: int = 0) -> DevelopmentIssuerSection:
    return DevelopmentIssuerSection(people=PEOPLE, port=port, state_folder=folder)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::1", "localhost", "10.0.0.1", "127.0.0.2", ""])  # noqa: S104
async def test_it_is_served_at_one_address_and_no_other(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match=r"is served on 127\.0\.0\.1 only"):
        await serve(section(tmp_path / "i"), resource=RESOURCE, sign_in_code=CODE, host=host)
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("resource", ["https://guideway.example.com/mcp", "http://10.0.0.1/mcp", "", "nonsense"])
async def test_it_is_not_served_for_a_server_that_is_elsewhere(tmp_path: Path, resource: str) -> None:
    with pytest.raises(ValueError, match="is reached from elsewhere"):
        await serve(section(tmp_path / "i"), resource=resource, sign_in_code=CODE)


@pytest.mark.parametrize(
    "server",
    [
        'host = "0.0.0.0"\nurl = "https://guideway.example.com/mcp"\nproxies = ["10.0.0.0/8"]',
        'url = "https://guideway.example.com/mcp"',
        'proxies = ["127.0.0.1"]',
    ],
)
def test_a_configuration_that_is_reached_from_elsewhere_cannot_have_it(tmp_path: Path, server: str) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(f'[server]\n{server}\n[development_issuer]\npeople = {{ alice = ["mcp:diag:read"] }}\n')
    with pytest.raises(ConfigError, match="is for loopback only"):
        load(file)


def test_it_is_off_unless_the_configuration_names_it(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text("[server]\nport = 1\n")
    assert load(file).development_issuer is None
    assert load(None).development_issuer is None


async def test_it_listens_on_loopback_alone(issuer: str) -> None:
    port = int(issuer.rpartition(":")[2])
    own = socket.gethostbyname(socket.gethostname())
    for host in {own, "127.0.0.2", "::1"} - {"127.0.0.1"}:
        with pytest.raises(OSError):  # noqa: PT011  # refused or unreachable, as the machine is
            await anyio.connect_tcp(host, port)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "localhost:{port}",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "127.1:{port}",
        "",
    ],
)
async def test_a_page_of_another_name_that_points_here_is_turned_away(
    issuer: str, http: httpx2.AsyncClient, host: str
) -> None:
    """DNS rebinding: a page's name is made to point to this machine, and its scripts then ask us."""
    sent = {"Host": host.format(port=issuer.rpartition(":")[2])}
    for path in (METADATA, "/authorize", "/jwks"):
        answer = await http.get(f"{issuer}{path}", headers=sent)
        assert answer.status_code == 421
    assert (await http.post(f"{issuer}/token", headers=sent)).status_code == 421


@pytest.mark.parametrize(
    "header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"]
)
async def test_a_request_that_a_front_end_hands_on_is_refused(
    issuer: str, http: httpx2.AsyncClient, header: str
) -> None:
    """Somebody puts a reverse proxy in front of this port, and the machine's network is at the sign-in page."""
    for value in ("203.0.113.7", "127.0.0.1", ""):
        answer = await http.get(f"{issuer}{METADATA}", headers={header: value})
        assert answer.status_code == 403


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1:6274", "http://[::1]:1"])
async def test_a_client_in_a_page_of_this_machine_may_read_what_programs_read(
    issuer: str, client: Client, origin: str
) -> None:
    asks = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    allowed = await client.http.request("OPTIONS", f"{issuer}/register", headers=asks)
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == origin
    for answer in (
        await client.http.get(f"{issuer}{METADATA}", headers=asks),
        await client.http.post(f"{issuer}/token", data={}, headers=asks),
    ):
        assert answer.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answer.headers
    page = await client.http.get(f"{issuer}/authorize", headers=asks)
    assert "access-control-allow-origin" not in page.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "http://[x"]
)
async def test_a_page_of_another_machine_may_read_nothing(issuer: str, http: httpx2.AsyncClient, origin: str) -> None:
    asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/register"), ("OPTIONS", "/token"), ("GET", METADATA), ("GET", "/jwks")):
        answer = await http.request(method, f"{issuer}{path}", headers=asks)
        assert "access-control-allow-origin" not in answer.headers


async def test_a_second_start_at_the_same_port_says_so(tmp_path: Path, issuer: str) -> None:
    port = int(issuer.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        await serve(section(tmp_path / "second", port), resource=RESOURCE, sign_in_code=CODE)


@pytest.mark.parametrize(("name", "mode"), [("", 0o755), ("", 0o770), ("key.json", 0o644), ("state.sqlite", 0o640)])
async def test_state_that_others_can_use_is_not_used(tmp_path: Path, name: str, mode: int) -> None:
    folder = tmp_path / "issuer"
    async with running(folder):
        pass
    (folder / name).chmod(mode)
    with pytest.raises(StateError, match="can be used by others") as caught:
        await serve(section(folder), resource=RESOURCE, sign_in_code=CODE)
    assert caught.value.help == f"chmod {700 if not name else 600} {folder / name}".removesuffix("/")


async def test_state_of_another_kind_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "issuer"
    async with running(folder):
        pass
    for content in (b"no database", b"SQLite format 3\0" + b"\0" * 500):
        (folder / "state.sqlite").write_bytes(content)
        with pytest.raises(StateError, match="is of another kind or version"):
            await serve(section(folder), resource=RESOURCE, sign_in_code=CODE)


async def test_a_key_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "issuer"
    folder.mkdir(mode=0o700)
    (tmp_path / "elsewhere").write_text("{}")
    (folder / "key.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="is no file"):
        await serve(section(folder), resource=RESOURCE, sign_in_code=CODE)


def test_the_state_is_looked_for_where_state_is() -> None:
    assert default_folder({"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/guideway/issuer")
    assert default_folder({"XDG_STATE_HOME": "here", "HOME": "/home/a"}) == Path("/home/a/.local/state/guideway/issuer")
    assert default_folder({"HOME": "/home/a"}) == Path("/home/a/.local/state/guideway/issuer")


async def test_no_secret_is_logged_whatever_is_asked_to_be_logged(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Authlib logs the tokens that it issues, at a level that somebody may turn on while they look for something."""
    caplog.set_level(logging.DEBUG)
    code = await client.code()
    tokens = (await client.redeem(code)).json()
    await client.redeem(code)
    async with Browser() as browser:
        await browser.consent(client.url(), CODE, "alice")
        cookie = next(iter(browser.http.cookies.jar)).value
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx2", "httpcore2"))]
    said = "\n".join([*ours, *capfd.readouterr()])
    for secret in (code, tokens["access_token"], tokens["refresh_token"], client.verifier, CODE, str(cookie)):
        assert secret not in said

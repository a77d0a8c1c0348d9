"""A real nginx in front of the server, configured as docs/tls.md has it."""

import contextlib
import ipaddress
import logging
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.server.certificates import Authority, Pair
from tests.server.oauth.issuer import Issuer
from tests.server.oauth.serving import Proving, bound, serving, token
from tests.server.world import Era, World
from tests.system.machine import need, program
from tests.system.supervisord import wait_for

from guideway.server.tool import TOOL_NAME

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "tls.md").read_text(encoding="utf-8")
PROXIES = [ipaddress.ip_network("127.0.0.1")]
_WHOLE = """\
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


@pytest.fixture(scope="module")
def nginx() -> str:
    """Return the program. A machine without it skips; in CI it is installed."""
    need("a reverse proxy", {"nginx": "nginx-light"}, root=False)
    found = program("nginx")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
        return number


Proxy = Callable[..., contextlib.AbstractContextManager[None]]


@pytest.fixture
def proxy(nginx: str, tmp_path: Path, port: int, authority: Authority) -> Proxy:
    """Return what runs nginx on the port in front of a server, with TLS unless it is not to have it."""

    @contextlib.contextmanager
    def running(server: str, *, listens: str = "ssl") -> Iterator[None]:
        (tmp_path / "nginx.conf").write_text(_WHOLE.format(folder=tmp_path, server=_server(server, listens)))
        command = [nginx, "-p", str(tmp_path), "-c", f"{tmp_path}/nginx.conf", "-e", f"{tmp_path}/error.log"]
        with subprocess.Popen(command) as process:
            try:
                wait_for(lambda: process.poll() is not None or _accepts(port), "nginx to listen")
                assert process.poll() is None, (tmp_path / "error.log").read_text()
                yield
            finally:
                process.terminate()

    def _server(url: str, listens: str) -> str:
        block: str = re.findall(r"^```nginx\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
        pair: Pair = authority.server()
        for shown, here in [
            ("listen 443 ssl", f"listen 127.0.0.1:{port} {listens}".rstrip()),
            ("guideway.example.com", "localhost"),
            ("/etc/nginx/guideway.pem", str(pair.certificate)),
            ("/etc/nginx/guideway.key", str(pair.key)),
            ("http://127.0.0.1:8765", url.removesuffix("/mcp")),
        ]:
            assert shown in block
            block = block.replace(shown, here)
        return block

    return running


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_calls_and_reads_progress_through_it(  # noqa: PLR0917  # fixtures
    world: World, issuer: Issuer, authority: Authority, proxy: Proxy, port: int, era: Era
) -> None:
    """Progress comes while the program runs: the second program waits for what never stops."""
    url, told = f"https://localhost:{port}/mcp", anyio.Event()

    async def tell(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        told.set()

    headers = {"Authorization": f"Bearer {token(issuer)}"}
    async with (
        serving(world, issuer, url, proxies=PROXIES) as inside,
        httpx2.AsyncClient(verify=authority.trusting(), headers=headers) as http,
    ):
        with proxy(inside):
            async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                assert (await client.list_tools()).tools
                result = await client.call_tool(TOOL_NAME, {"program": 'RESTART "database"'})
                with anyio.fail_after(20):
                    async with anyio.create_task_group() as tasks:
                        program = {"program": 'PING "api.internal" RESTART "stuck"'}
                        tasks.start_soon(partial(client.call_tool, TOOL_NAME, program, progress_callback=tell))
                        await told.wait()
                        tasks.cancel_scope.cancel()
    assert result.structured_content is not None
    assert result.structured_content["status"] == "completed"


async def test_clients_are_challenged_with_the_public_url(
    world: World, issuer: Issuer, authority: Authority, proxy: Proxy, port: int
) -> None:
    url = f"https://localhost:{port}/mcp"
    async with (
        serving(world, issuer, url, proxies=PROXIES) as inside,
        httpx2.AsyncClient(verify=authority.trusting()) as http,
    ):
        with proxy(inside):
            challenge = (await http.post(url)).headers["WWW-Authenticate"]
            metadata = f"https://localhost:{port}/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="{metadata}"' in challenge
            assert (await http.get(metadata)).json()["resource"] == url


async def test_a_proof_for_the_public_url_is_good_through_it(
    world: World, issuer: Issuer, authority: Authority, proxy: Proxy, port: int
) -> None:
    url = f"https://localhost:{port}/mcp"
    async with (
        serving(world, issuer, url, proxies=PROXIES) as inside,
        httpx2.AsyncClient(verify=authority.trusting(), auth=Proving(bound(issuer))) as http,
    ):
        with proxy(inside):
            assert (await http.get(f"https://localhost:{port}/grammar")).status_code == 200
        assert (await http.get(inside.replace("/mcp", "/grammar"))).status_code == 401, "which the inner one is not"


async def test_the_log_names_the_client_whatever_it_claims(  # noqa: PLR0917  # fixtures
    world: World, issuer: Issuer, authority: Authority, proxy: Proxy, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "guideway.server.proxies")
    url = f"https://127.0.0.1:{port}/mcp"
    transport = httpx2.AsyncHTTPTransport(local_address="127.0.0.7", verify=authority.trusting())
    claims = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1"}
    async with (
        serving(world, issuer, url, proxies=PROXIES) as inside,
        httpx2.AsyncClient(transport=transport, headers=claims) as http,
    ):
        with proxy(inside):
            assert (await http.post(url)).status_code == 401
    assert [record.getMessage() for record in caplog.records] == ["answered 127.0.0.7 401"]


async def test_who_asks_the_proxy_in_the_clear_is_refused(
    world: World, issuer: Issuer, proxy: Proxy, port: int
) -> None:
    """The operator forgot the redirect from port 80. Neither a token nor a claim of the client's own helps."""
    headers = {"Authorization": f"Bearer {token(issuer)}", "X-Forwarded-Proto": "https"}
    async with (
        serving(world, issuer, f"https://localhost:{port}/mcp", proxies=PROXIES) as inside,
        httpx2.AsyncClient(headers=headers) as http,
    ):
        with proxy(inside, listens=""):
            answer = await http.get(f"http://localhost:{port}/grammar")
    assert answer.status_code == 403
    assert "use https" in answer.text

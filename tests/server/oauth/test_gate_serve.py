"""``guideway serve`` with an issuer: the whole way, from a real token to what it may do."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from guideway.dsl.scopes import scope_list
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import NO_AUTHORITIES, Door, Shown, a_call, bearer, challenges
from tests.server.oauth.issuer import Issuer
from tests.server.world import BOTH, SAMPLE, Era, World

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
TENANTS = """
[issuers.corp]
issuer = "{url}"
tenant_claim = "org"

[tenants.acme]
members = {{ corp = ["org-1"] }}

[tenants.acme.services.shop]
driver = "memory"
impact = "low"
reversibility = "easy"
"""


@contextmanager
def serving(folder: Path, issuer: Issuer) -> Iterator[tuple[dict[str, Any], Path]]:
    """Serve by the command; give what it said on standard output, and the file with what it says to people."""
    stdio = World().command(folder)
    configuration = folder / "guideway.toml"
    configuration.write_text(configuration.read_text() + TENANTS.format(url=issuer.url))
    command = [stdio.command, "serve", "--http", "127.0.0.1:0", "--config", str(configuration), "--json"]
    said = folder / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            told = ""
            while not told.endswith("}\n") and (line := server.stdout.readline()):
                told += line
            yield json.loads(told), said
        finally:
            server.terminate()
            assert server.wait(30) == 0


@eras
async def test_a_token_of_the_issuer_opens_what_its_scopes_allow(tmp_path: Path, era: Era) -> None:
    door = Door()
    with Issuer() as issuer, serving(tmp_path, issuer) as (told, said):
        door.url = told["url"]
        assert told == {"url": door.url, "resource": door.url, "issuers": [issuer.url], "approvals": None}
        reader = issuer.token(aud=door.url)
        operator = issuer.token(aud=door.url, scope=scope_list(BOTH))
        tenant = issuer.token(aud=door.url, org="org-1")
        shown = Shown(reader)
        async with door.connected(shown, era) as client:
            assert "RESTART" not in ((await client.list_tools()).tools[0].description or "")
            result = await client.call_tool(TOOL_NAME, {"program": 'PING "api.internal" GET_STATUS "shop"'})
            assert result.structured_content["refusal"]["code"] == "unknown_target"
            shown.shows = operator
            assert "RESTART" in ((await client.list_tools()).tools[0].description or "")
            result = await client.call_tool(TOOL_NAME, {"program": SAMPLE})
            assert result.structured_content["status"] == "completed"
        assert shown.answers == []
        async with door.connected(tenant, era) as client:
            result = await client.call_tool(TOOL_NAME, {"program": 'GET_STATUS "shop"'})
            assert result.structured_content["status"] == "completed"
    assert f"serving {door.url} to those with a token of {issuer.url}" in said.read_text()
    for token in (reader, operator, tenant):
        assert token.split(".")[2] not in said.read_text()


async def test_every_other_token_is_told_why(tmp_path: Path) -> None:
    with Issuer() as issuer, Issuer() as other, serving(tmp_path, issuer) as (told, said):
        url = told["url"]
        async with httpx2.AsyncClient(verify=NO_AUTHORITIES) as http:
            body, headers = a_call('RESTART "database"')

            async def call(token: str) -> httpx2.Response:
                return await http.post(url, json=body, headers=headers | bearer(token))

            for token, status, error in [
                (issuer.token(), 401, "invalid_token"),
                (issuer.token(aud=url, exp=1), 401, "invalid_token"),
                (issuer.token(aud=url, org="org-2"), 401, "invalid_token"),
                (other.token(aud=url), 401, "invalid_token"),
                (issuer.token(aud=url, scope="mcp:diag:approve"), 403, "insufficient_scope"),
                (issuer.token(aud=url), 403, "insufficient_scope"),
            ]:
                response = await call(token)
                assert response.status_code == status, response.text
                assert challenges(response)[0][1]["error"] == error
                assert token.split(".")[2] not in response.text + str(response.headers) + said.read_text()
            known = issuer.token(aud=url, scope=scope_list(BOTH))
            assert (await call(known)).status_code == 200
            issuer.stop()
            assert (await call(known)).status_code == 200, "what was verified goes on until it expires"


async def test_while_the_issuer_cannot_be_reached_nobody_new_is_let_in(tmp_path: Path) -> None:
    issuer = Issuer()
    with serving(tmp_path, issuer) as (told, _):
        async with httpx2.AsyncClient(verify=NO_AUTHORITIES) as http:
            body, headers = a_call('PING "api.internal"')
            token = issuer.token(aud=told["url"])
            response = await http.post(told["url"], json=body, headers=headers | bearer(token))
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0


def test_who_asks_over_http_cannot_be_chosen_on_the_command_line(tmp_path: Path) -> None:
    stdio = World().command(tmp_path)
    configuration = tmp_path / "guideway.toml"
    configuration.write_text(configuration.read_text() + TENANTS.format(url="https://login.example.com"))
    command = [stdio.command, "serve", "--http", "127.0.0.1:0", "--config", str(configuration), "--as", "tester"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 4
    assert "--as cannot go with --http here" in ran.stderr


def test_beyond_loopback_nothing_is_served_in_the_clear(tmp_path: Path) -> None:
    stdio = World().command(tmp_path)
    configuration = tmp_path / "guideway.toml"
    configuration.write_text(configuration.read_text() + TENANTS.format(url="https://login.example.com"))
    command = [stdio.command, "serve", "--http", "0.0.0.0:0", "--config", str(configuration)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 4
    assert "cannot listen on `0.0.0.0`: only loopback is served without [server.tls]" in ran.stderr

"""Known weaknesses of Authlib: those in parts that are used here are tried here, and the other parts are not loaded."""

import subprocess
import sys

import pytest

from guideway.server.development_issuer.client import MetadataRefused, read_metadata
from tests.server.development_issuer.browser import Browser
from tests.server.development_issuer.world import CODE, Client

pytestmark = pytest.mark.anyio

NOT_USED = {
    "authlib.jose": "CVE-2024-37568, -2025-59420, -2025-61920, -2026-27962, -2026-28802, -2026-96760: forged tokens",
    "authlib.integrations": "CVE-2026-41425, -2026-104056: clients that take an answer for one of their own",
    "authlib.oidc": "ID tokens without their nonce, or for who was not allowed any",
    "authlib.oauth2.rfc7523": "assertions for another audience",
    "authlib.oauth2.rfc7592": "a client that changes the registration of another",
    "authlib.oauth2.rfc9101": "request objects that are fetched from wherever the request says",
}


def test_the_parts_with_most_of_them_are_not_loaded() -> None:
    code = "import sys, guideway.server.development_issuer.serving; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "authlib.oauth2.rfc6749" in loaded
    assert not loaded & set(NOT_USED)


@pytest.mark.parametrize("response_type", ["token", "id_token", "none", "code id_token", "x"])
@pytest.mark.parametrize("known", [True, False])
async def test_an_unknown_response_type_is_told_to_nobody_who_is_not_the_client(
    client: Client,
    response_type: str,
    known: bool,  # a parameter of the test
) -> None:
    """CVE-2026-41479: the error was sent to the address in the request before that was compared with any client's."""
    client_id = client.client_id if known else "nobody"
    url = client.url(response_type=response_type, redirect_uri="https://evil.example/", client_id=client_id)
    async with Browser() as browser:
        answer = await browser.consent(url, CODE, "alice")
    assert answer.status_code == 400
    assert "location" not in answer.headers


@pytest.mark.parametrize("uri", ["http://localhost:80@evil.example/cb", "http://127.0.0.1:80@evil.example/cb"])
def test_a_user_who_looks_like_this_machine_is_none(uri: str) -> None:
    """Fixed in Authlib 1.8.0: loopback was seen in the part of an address that stands before the host."""
    with pytest.raises(MetadataRefused):
        read_metadata({"redirect_uris": [uri]})


@pytest.mark.parametrize("description", ['"quoted"', "back\\slash", "caf\u00e9", "line\nend"])
async def test_nothing_in_a_request_makes_an_error_that_cannot_be_told(client: Client, description: str) -> None:
    """Authlib raises where an error's description has signs that none may have, and some quote the request."""
    async with Browser() as browser:
        for name in ("redirect_uri", "response_type", "client_id", "scope", "resource", "code_challenge_method"):
            answer = await browser.consent(client.url(**{name: description}), CODE, "alice")
            assert answer.status_code == 400
    form = {"grant_type": description, "client_id": client.client_id, "code": description}
    answer = await client.http.post(f"{client.issuer}/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")

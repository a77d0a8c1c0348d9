"""What stands in for a person with a browser, and a sign-in without any SDK.

As a program it is the browser itself: it opens the page that it is started with, goes where that leads, and back.
"""

import base64
import hashlib
import secrets
import sys
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import anyio
import httpx2

from tests.server.sign_in.started import led_to

REDIRECT = "http://127.0.0.1:33418/callback"
"""Where clients are sent back to. Nobody listens there: the browser stops in front of it."""

_MOST_STEPS = 20


async def visit(start: str, home: str = REDIRECT) -> str:
    """Go where a browser is sent, with cookies, until it is sent back to the client; return that address."""
    url = start
    async with httpx2.AsyncClient() as http:
        for _ in range(_MOST_STEPS):
            answer = await http.get(url)
            assert answer.has_redirect_location, f"{urlsplit(url).path} answered {answer.status_code}"
            url = urljoin(url, answer.headers["location"])
            if url.startswith(home):
                return url
    raise AssertionError(f"no way back to the client in {_MOST_STEPS} steps")


def brought(url: str) -> dict[str, str]:
    """Return what a browser brings to an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


async def sign_in(issuer: str, client: str, resource: str, *scopes: str) -> str:
    """Return an access token for a resource, as somebody has it who signed in by other means."""
    async with httpx2.AsyncClient() as http:
        found = (await http.get(f"{issuer}/.well-known/oauth-authorization-server")).raise_for_status().json()
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": REDIRECT,
            "resource": resource,
            "scope": " ".join(scopes),
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        back = await visit(f"{found['authorization_endpoint']}?{urlencode(asked)}")
        redeemed = {
            "grant_type": "authorization_code",
            "client_id": client,
            "redirect_uri": REDIRECT,
            "resource": resource,
            "code": brought(back)["code"],
            "code_verifier": verifier,
        }
        answer = (await http.post(found["token_endpoint"], data=redeemed)).raise_for_status().json()
    token: str = answer["access_token"]
    return token


async def _open(start: str) -> None:
    back = await visit(start, brought(start)["redirect_uri"])
    async with httpx2.AsyncClient() as http:
        (await http.get(back)).raise_for_status()


if __name__ == "__main__":
    anyio.run(_open, led_to(sys.argv[1]))

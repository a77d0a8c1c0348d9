"""The second provider: a site with `django-oauth-toolkit` (django_site.py), which can be down for a while."""

import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.interop.oauth.browser import REDIRECT
from tests.interop.oauth.processes import environment, running

ASKS_AS = "guideway"
"""The client as which the server under test asks about tokens."""

PEOPLE_USE = "entered-by-hand"
"""The client that people use."""


class Site:
    """A site that runs, or does not. What it has issued it knows again when it has been down."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._folder = folder
        self._process = ExitStack()
        self._port = 0
        self._runs = False
        self.start()

    @property
    def client(self) -> dict[str, Any]:
        """The client that people use, as it has to know itself."""
        return {
            "client_id": PEOPLE_USE,
            "issuer": self.issuer,
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
        }

    def start(self) -> None:
        """Run the site, where it was before; do nothing where it runs."""
        if self._runs:
            return
        command = [sys.executable, "-m", "tests.interop.oauth.django_site", str(self._folder), str(self._port)]
        started = self._process.enter_context(running(command, environment(SECRET=self.secret)))
        self.issuer: str = started["issuer"]
        self._port = urlsplit(self.issuer).port or 0
        self._runs = True

    def stop(self) -> None:
        """End the site."""
        self._process.close()
        self._runs = False

    def revoke(self, token: str) -> None:
        """Withdraw a token, as the client does that has it (RFC 7009)."""
        told = {"token": token, "client_id": PEOPLE_USE}
        httpx2.post(f"{self.issuer}/revoke_token/", data=told).raise_for_status()


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Run a site."""
    site = Site(folder)
    try:
        yield site
    finally:
        site.stop()

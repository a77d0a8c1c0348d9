"""Requests to one issuer: bounded in time and size, and to nowhere else.

No redirect is followed, no proxy is taken from the environment, no cookie is kept, TLS is verified. What an issuer says
is read as JSON or not at all, and nothing of it goes into an error or a log.
"""

import logging
import math
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import anyio
import httpx2

from guideway.server.oauth.strict_json import read_object
from guideway.server.oauth.verified import IssuerUnavailable

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 512 * 1024
"""A longer answer is not read."""

_AT_ONCE: Final = 10
_QUIET_SECONDS: Final = 60.0
_HEADERS: Final = {"User-Agent": "guideway", "Accept": "application/json", "Accept-Encoding": "identity"}


class NoAnswer(Exception):  # noqa: N818  # it is what came of asking
    """An issuer did not give what it was asked for. The message is one of a few fixed ones."""


class Unreachable(NoAnswer):
    """It did not answer at all: asking for something else now would be in vain too."""


@cache
def _system_authorities() -> ssl.SSLContext:
    return ssl.create_default_context()


def authorities(file: Path | None) -> ssl.SSLContext:
    """Return the TLS settings that trust the authorities in a PEM file, or the system's. Raises ``ValueError``."""
    if file is None:
        return _system_authorities()
    try:
        return ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        raise ValueError(f"`{file}` holds no certificates in PEM") from None
    except OSError as error:
        raise ValueError(f"`{file}` cannot be read: {(error.strerror or type(error).__name__).lower()}") from None


def basic_credentials(client_id: str, secret: str) -> str:
    """Return the header's value that a client authenticates with: RFC 6749, section 2.3.1."""
    return "Basic " + b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()).decode()


class IssuerHttp:
    """A client for one issuer. ``seconds`` bounds each request from its start to its last byte."""

    def __init__(self, tls: ssl.SSLContext, seconds: float) -> None:
        self._client = httpx2.AsyncClient(verify=tls, trust_env=False, timeout=None, follow_redirects=False)
        self._seconds = seconds
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises ``NoAnswer``."""
        return await self._ask("GET", url, _HEADERS, None)

    async def post(self, url: str, form: Mapping[str, str], credentials: str) -> dict[str, Any]:
        """Return the JSON object that answers a form. Raises ``NoAnswer``."""
        return await self._ask("POST", url, {**_HEADERS, "Authorization": credentials}, form)

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> dict[str, Any]:
        async with self._turns:  # waiting for a turn is not the issuer's time
            try:
                with anyio.fail_after(self._seconds):
                    body = await self._body(method, url, headers, form)
            except TimeoutError:
                raise Unreachable("it did not answer in time") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
                raise Unreachable("it cannot be reached") from None
        try:
            return read_object(body)
        except ValueError:
            raise NoAnswer("its answer is not a JSON object") from None

    async def _body(self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> bytes:
        async with self._client.stream(method, url, headers=headers, data=form) as response:
            if response.status_code != 200:
                raise NoAnswer(f"it answered HTTP {response.status_code}")
            body = bytearray()
            async for part in response.aiter_raw():  # as it comes: what is small is not made large here
                body += part
                if len(body) > MOST_BYTES:
                    raise NoAnswer(f"its answer is longer than {MOST_BYTES:,} bytes")
            return bytes(body)


class Outage:
    """Whether an issuer answers. While it does not, it is asked once a ``gap`` (seconds), and the log says so once."""

    def __init__(self, name: str, gap: float, ticks: Callable[[], float]) -> None:
        self._name = name
        self._gap = gap
        self._ticks = ticks
        self._again: float | None = None
        self._quiet_until = ticks()

    def check(self) -> None:
        """Raise ``IssuerUnavailable`` where it did not answer a moment ago."""
        if self._again is not None and self._ticks() < self._again:
            raise self.unavailable()

    def unavailable(self) -> IssuerUnavailable:
        """Return what is to be raised where its answer is needed."""
        seconds = self._gap if self._again is None else self._again - self._ticks()
        return IssuerUnavailable("the issuer of the token does not answer", max(1, math.ceil(seconds)))

    def began(self, why: NoAnswer) -> None:
        """Note that it did not answer, and is to be left alone for a gap."""
        if self._again is None:
            self.noted(why)
        self._again = self._ticks() + self._gap

    def noted(self, why: NoAnswer) -> None:
        """Note that it did not answer one question; others it may. Whoever asks bad ones must not fill the log."""
        if self._ticks() >= self._quiet_until:
            logger.warning("[issuers.%s] does not say whether tokens are good: %s", self._name, why)
            self._quiet_until = self._ticks() + _QUIET_SECONDS

    def over(self) -> None:
        """Note that it answered."""
        if self._again is not None:
            logger.warning("[issuers.%s] answers again", self._name)
            self._again = None
            self._quiet_until = self._ticks()

"""Requests to one issuer: bounded in time and size, and to nowhere else.

No redirect is followed, no proxy is taken from the environment, no cookie is kept, TLS is verified. What an issuer says
is read as JSON or not at all. Nothing of it goes into an error or a log, but for what it publishes to everybody: its
own name and its addresses, made printable.
"""

import errno
import logging
import math
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import anyio
import httpx2

from guideway.dsl.errors import printable
from guideway.server.oauth.strict_json import read_object
from guideway.server.oauth.verified import IssuerUnavailable

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 512 * 1024
"""A longer answer is not read."""

_CONNECTING: Final = 0.6
"""The share of a request's time in which there must be a connection: else there is none to be had."""

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_QUIET_SECONDS: Final = 60.0
_MENDS: Final = {
    401: "is `client_id` of [issuers.NAME.introspection] a client there, and its secret right?",
    403: "may the client of [issuers.NAME.introspection] ask about tokens?",
    404: "is its address right? `metadata_url` and `jwks_url` of [issuers.NAME] name others",
}
_HEADERS: Final = {"User-Agent": "guideway", "Accept": "application/json", "Accept-Encoding": "identity"}


class NoAnswer(Exception):  # noqa: N818  # it is what came of asking
    """An issuer did not give what it was asked for. The message is one of a few fixed ones.

    ``mend`` is what an operator may do about it, ``url`` what was asked, where that is known.
    """

    def __init__(self, message: str, mend: str | None = None, *, url: str | None = None) -> None:
        super().__init__(message)
        self.mend = mend
        self.url = url

    def told(self) -> str:
        """Return all of it in one line."""
        where = f" ({printable(self.url)})" if self.url else ""
        return f"{self}{where}" + (f"; {self.mend}" if self.mend else "")


class Silent(NoAnswer):
    """It did not answer at all: asking for something else now would be in vain too."""


class Unreachable(Silent):
    """There was no connection to it, and not because this server was short of anything. No question can bring that
    about, as one can that keeps an issuer busy.
    """


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


class TooLong(ValueError):  # noqa: N818  # it is what came of asking
    """An answer is longer than what is read of one, or packed: then it has no bound."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._body:
            read += len(part)
            if read > MOST_BYTES:
                raise TooLong
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


async def bounded(response: httpx2.Response) -> None:
    """Let no more be read of an answer than of any other, where another library's client asks: a hook of its
    responses. Raises ``TooLong``, then or while the answer is read.
    """
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooLong
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class IssuerHttp:
    """A client for one issuer. ``seconds`` bounds each request from its start to its last byte."""

    def __init__(self, tls: ssl.SSLContext, seconds: float) -> None:
        timeout = httpx2.Timeout(None, connect=seconds * _CONNECTING)
        self._client = httpx2.AsyncClient(verify=tls, trust_env=False, timeout=timeout, follow_redirects=False)
        self._seconds = seconds

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
        try:
            return await self._answer(method, url, headers, form)
        except NoAnswer as why:
            why.url = url
            raise

    async def _answer(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> dict[str, Any]:
        try:
            with anyio.fail_after(self._seconds):
                body = await self._body(method, url, headers, form)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if any(_is_ours(cause) for cause in _causes(error)):
                raise NoAnswer("this server has no connection left for it") from None
            raise Unreachable(*_no_connection(error)) from None
        except TimeoutError:
            raise Silent("it did not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
            raise NoAnswer("its answer broke off", "is its address right, with `https` or `http`?") from None
        try:
            return read_object(body)
        except ValueError:
            raise NoAnswer("its answer is not a JSON object", "its address leads to something else") from None

    async def _body(self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> bytes:
        async with self._client.stream(method, url, headers=headers, data=form) as response:
            if response.status_code != 200:
                raise NoAnswer(f"it answered HTTP {response.status_code}", _MENDS.get(response.status_code))
            body = bytearray()
            async for part in response.aiter_raw():  # as it comes: what is small is not made large here
                body += part
                if len(body) > MOST_BYTES:
                    raise NoAnswer(f"its answer is longer than {MOST_BYTES:,} bytes")
            return bytes(body)


def _no_connection(error: BaseException) -> tuple[str, str]:
    """Return why there was no connection, and what may be done about it. The words are OpenSSL's or ours."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not trusted: {printable(cause.verify_message)}"
            return f"it cannot be reached: {why}", "`ca_file` of [issuers.NAME] names the authority that signed it"
        if isinstance(cause, ssl.SSLError):
            return "it cannot be reached: it speaks no TLS there", "is its address right, with `https` and its port?"
        if isinstance(cause, socket.gaierror):
            return (
                "it cannot be reached: its name does not resolve",
                "mend the name, or this machine's name resolution",
            )
        if isinstance(cause, ConnectionRefusedError):
            return "it cannot be reached: nothing listens there", "start it, or mend its address"
    return "it cannot be reached", "is there a way from here to it, through every firewall?"


def _is_ours(error: BaseException) -> bool:
    """Say whether a connection failed for want of something here: whoever opens many to this server can cause that."""
    if isinstance(error, socket.gaierror):
        return error.errno in (socket.EAI_MEMORY, socket.EAI_SYSTEM)
    return isinstance(error, OSError) and error.errno in _OURS


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Give an error and all that led to it."""
    yield error
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _causes(inner)
    if (cause := error.__cause__ or error.__context__) is not None:
        yield from _causes(cause)


class Outage:
    """Whether an issuer answers. While it does not, it is asked once a ``gap`` (seconds), and the log says so once."""

    def __init__(self, name: str, gap: float, ticks: Callable[[], float]) -> None:
        self._name = name
        self._gap = gap
        self._ticks = ticks
        self._again: float | None = None
        self._why: NoAnswer | None = None
        self._quiet_until = ticks()

    @property
    def why(self) -> NoAnswer | None:
        """Why it is to be left alone for now; None where it may be asked."""
        return self._why if self._again is not None and self._ticks() < self._again else None

    def check(self) -> None:
        """Raise ``IssuerUnavailable`` where it did not answer a moment ago."""
        if self.why is not None:
            raise self.unavailable()

    def unavailable(self) -> IssuerUnavailable:
        """Return what is to be raised where its answer is needed."""
        seconds = self._gap if self._again is None else self._again - self._ticks()
        return IssuerUnavailable("the issuer of the token does not answer", max(1, math.ceil(seconds)))

    def began(self, why: NoAnswer) -> None:
        """Note that it did not answer, and is to be left alone for a gap."""
        if self._again is None:
            self.noted(why)
        self._again, self._why = self._ticks() + self._gap, why

    def noted(self, why: NoAnswer) -> None:
        """Note that it did not answer one question; others it may. Whoever asks bad ones must not fill the log."""
        if self._ticks() >= self._quiet_until:
            logger.warning("[issuers.%s] does not say whether tokens are good: %s", self._name, why.told())
            self._quiet_until = self._ticks() + _QUIET_SECONDS

    def over(self) -> None:
        """Note that it answered."""
        if self._again is not None:
            logger.warning("[issuers.%s] answers again", self._name)
            self._again = self._why = None
            self._quiet_until = self._ticks()

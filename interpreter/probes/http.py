"""The HTTP probe: does a GET bring an expected status? It sends no credentials, keeps no cookies, follows no redirect,
takes no proxy from the environment, verifies TLS, and does not read the body.
"""

import re
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Annotated
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import AfterValidator, Field

from guideway.interpreter.drivers.base import Echo, Fault, Probe, ProbeOptions
from guideway.interpreter.probes import sockets
from guideway.interpreter.results import Reason


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """Asks a URL. ``status`` spells the statuses that count as an answer: ``200-299,401``."""

    url: str
    status: str = "200-299"

    async def probe(self) -> Echo:
        """Return the time until the answer's header was there. Raises ``Fault``."""
        url = httpx2.URL(self.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        await sockets.resolve(url.host)
        verify = _tls() if self.url.startswith("https:") else False  # without TLS there is nothing to verify
        began = anyio.current_time()
        try:
            async with (
                httpx2.AsyncClient(verify=verify, trust_env=False, timeout=None, follow_redirects=False) as client,
                client.stream("GET", self.url, headers=_HEADERS) as response,
            ):
                seconds = anyio.current_time() - began
                status = response.status_code
        except (httpx2.ConnectError, OSError) as error:
            if certificate := _certificate(error):
                message = "the host answers, and its TLS certificate is not accepted"
                raise Fault(Reason.NO_ANSWER, message, certificate) from error
            raise sockets.fault(error, f"port {port}") from error
        except httpx2.TransportError as error:
            raise Fault(Reason.NO_ANSWER, "the connection was accepted, but no HTTP answer came over it") from error
        if not any(low <= status <= high for low, high in _ranges(self.status)):
            raise Fault(Reason.NO_ANSWER, f"the answer was HTTP {status}, expected {self.status}")
        return Echo("http", seconds)


#: ``identity``: nobody decompresses what nobody reads.
_HEADERS = {"User-Agent": "guideway", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}


@cache
def _tls() -> ssl.SSLContext:
    """Return the settings that verify against the system's authorities. Made once: reading those takes milliseconds."""
    return ssl.create_default_context()


def _certificate(error: BaseException | None) -> str:
    """Return what TLS found wrong behind an exception, empty if that was not the trouble."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _ranges(status: str) -> list[tuple[int, int]]:
    pairs = [part.strip().partition("-") for part in status.split(",")]
    return [(int(low), int(high or low)) for low, _, high in pairs]


def _url(text: str) -> str:
    parts = urlsplit(text)
    if not re.fullmatch(r"[!-~]+", text) or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http or https URL, in ASCII")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("must hold no user name, password or fragment")
    if parts.port == 0:  # reading it also raises ValueError for a port that is no port
        raise ValueError("must not name port 0")
    httpx2.URL(text)
    return text


def _status(text: str) -> str:
    if not re.fullmatch(r"[1-5]\d\d(-[1-5]\d\d)?(, ?[1-5]\d\d(-[1-5]\d\d)?)*", text, re.ASCII):
        raise ValueError('must be statuses and ranges of them, as in "200-299,401"')
    if any(low > high for low, high in _ranges(text)):
        raise ValueError("must give each range from low to high")
    return text


class HttpOptions(ProbeOptions):
    """A URL that has to answer with an expected status. A status can be a number or text such as ``200-299,401``."""

    url: Annotated[str, AfterValidator(_url)]
    status: Annotated[int, Field(ge=100, le=599)] | Annotated[str, AfterValidator(_status)] = "200-299"

    def build(self) -> Probe:
        """Make the probe."""
        return HttpProbe(self.url, str(self.status))

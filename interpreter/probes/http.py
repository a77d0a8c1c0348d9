"""The HTTP probe: does a GET bring an expected status? It sends no credentials, keeps no cookies, follows no redirect,
takes no proxy from the environment, verifies TLS by the name in the URL, and reads no body.

The name is looked up once, and what this brought is connected to. HTTP is h11's, over a socket of our own: a client
that takes a URL would look its name up again, and may be told another address then.
"""

import re
import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import ByteStream, SocketStream
from anyio.streams.tls import TLSStream
from pydantic import AfterValidator, Field, Strict, ValidationInfo, field_validator

from guideway.interpreter.drivers.base import Echo, Fault, FromName, Probe, check_address
from guideway.interpreter.probes import sockets
from guideway.interpreter.probes.addresses import USUAL, NetworkOptions, Reach, allowed
from guideway.interpreter.results import Reason

_ZONE: Final = re.compile(r"%[^]:]*")  # of an address: nobody but this machine knows its interfaces
_MOST_BYTES: Final = 65_536  # of everything before the body; h11 takes a quarter of that for one header


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """Asks a URL. ``status`` spells the statuses that count as an answer: ``200-299,401``.

    ``ca_file`` is a PEM file with the authorities that a certificate may be from, None for the system's.
    """

    url: str
    status: str = "200-299"
    ca_file: Path | None = None
    reach: Reach = USUAL

    async def probe(self) -> Echo:
        """Return the time from connecting until the answer's header was there. Raises ``Fault``."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        trust = _trust(self.ca_file) if parts.scheme == "https" else None
        host = _host(self.url)
        addresses = await sockets.resolve(host, port, self.reach)
        began = anyio.current_time()
        connected, _ = await sockets.connect(addresses, f"port {port}")
        with connected:
            async with await SocketStream.from_socket(connected) as stream:
                if trust is None:
                    status = await _status(stream, _ZONE.sub("", parts.netloc), self._path())
                else:
                    async with await _tls(stream, _ZONE.sub("", host), trust) as secured:
                        status = await _status(secured, _ZONE.sub("", parts.netloc), self._path())
        seconds = anyio.current_time() - began
        if not any(low <= status <= high for low, high in _ranges(self.status)):
            raise Fault(Reason.NO_ANSWER, f"the answer was HTTP {status}, expected {self.status}")
        return Echo("http", seconds)

    def _path(self) -> str:
        """Return the part of the URL that the request names: path and query."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def _tls(plain: ByteStream, host: str, trust: ssl.SSLContext) -> ByteStream:
    """Return the stream under TLS, for whose other end an authority has vouched that it is the host."""
    try:
        return await TLSStream.wrap(plain, hostname=host.rstrip("."), ssl_context=trust, standard_compatible=False)
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        message = f"the host answers, but its TLS certificate is not accepted: {why[:1].lower()}{why[1:]}"
        raise Fault(Reason.NO_ANSWER, message) from error
    except ssl.SSLError as error:
        raise Fault(Reason.NO_ANSWER, "the connection was accepted, but TLS failed on it", str(error)) from error
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise Fault(Reason.NO_ANSWER, "the connection was accepted, and closed before TLS was agreed on") from error


async def _status(stream: ByteStream, host: str, path: str) -> int:
    """Return the status of the answer to a GET. Raises ``Fault``."""
    http = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("User-Agent", "guideway"), ("Accept", "*/*"), ("Connection", "close")]
    request = http.send(h11.Request(method="GET", target=path, headers=headers))
    received = 0
    try:
        await stream.send((request or b"") + (http.send(h11.EndOfMessage()) or b""))
        while received < _MOST_BYTES:
            event = http.next_event()
            if isinstance(event, h11.Response):
                return event.status_code
            if event is h11.NEED_DATA:
                data = await _receive(stream)
                received += len(data)
                http.receive_data(data)
    except (h11.RemoteProtocolError, anyio.BrokenResourceError, ssl.SSLError) as error:
        raise Fault(Reason.NO_ANSWER, _NO_HTTP) from error
    raise Fault(Reason.NO_ANSWER, _NO_HTTP)


_NO_HTTP: Final = "the connection was accepted, but no HTTP answer came over it"


async def _receive(stream: ByteStream) -> bytes:
    try:
        return await stream.receive(4096)
    except anyio.EndOfStream:
        return b""  # h11's word for it


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return _made(ca_file, ca_file.stat().st_mtime_ns if ca_file else 0)
    except OSError as error:  # ssl.SSLError is one
        what = "is no PEM file with certificates" if isinstance(error, ssl.SSLError) else sockets.words(error)
        raise Fault(Reason.CANNOT_PROBE, f"`ca_file` cannot be used: {what}") from error


@lru_cache(maxsize=32)
def _made(ca_file: Path | None, _changed: int) -> ssl.SSLContext:
    """Return the settings that verify against authorities. Kept: reading the system's takes milliseconds."""
    return ssl.create_default_context(cafile=ca_file)


def _ranges(status: str) -> list[tuple[int, int]]:
    pairs = [part.strip().partition("-") for part in status.split(",")]
    return [(int(low), int(high or low)) for low, _, high in pairs]


def _host(url: str) -> str:
    """Return the host of a URL that was checked. An interface stands in one behind ``%25`` (RFC 6874)."""
    return (urlsplit(url).hostname or "").replace("%25", "%")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if not re.fullmatch(r"[!-~]+", text) or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http or https URL, in ASCII")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("must hold no user name, password or fragment")
    if parts.port == 0:  # reading it also raises ValueError for a port that is no port
        raise ValueError("must not name port 0")
    try:
        check_address(_host(text))
    except ValueError as error:
        raise ValueError(f"{error}, between `{parts.scheme}://` and the next `/`") from None
    return text


def _status_text(text: str) -> str:
    if not re.fullmatch(r"[1-5]\d\d(-[1-5]\d\d)?(, ?[1-5]\d\d(-[1-5]\d\d)?)*", text, re.ASCII):
        raise ValueError('must be statuses and ranges of them, as in "200-299,401"')
    if any(low > high for low, high in _ranges(text)):
        raise ValueError("must give each range from low to high")
    return text


class HttpOptions(NetworkOptions):
    """A URL that has to answer with an expected status. A status can be a number or text such as ``200-299,401``."""

    url: Annotated[str, FromName(is_host=True, is_url=True), AfterValidator(_url)]
    status: Annotated[int, Field(ge=100, le=599)] | Annotated[str, AfterValidator(_status_text)] = "200-299"
    ca_file: Annotated[Path, Strict(False)] | None = None

    @field_validator("url")
    @classmethod
    def _check(cls, url: str, info: ValidationInfo) -> str:
        allowed(_host(url), info)
        return url

    def build(self) -> Probe:
        """Make the probe."""
        return HttpProbe(self.url, str(self.status), self.ca_file, self.reach())

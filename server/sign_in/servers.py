"""Which servers are spoken to, and how: TLS everywhere but on loopback, and the failures of the network in words."""

import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

from guideway.server.section import is_loopback
from guideway.server.sections import ENDPOINT
from guideway.server.sign_in.errors import ServerError, SignInError, WrongUsageError, theirs

#: Seconds: a server may hold the answer of a call open while its pipeline runs, and says now and then that it does.
TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)

#: A longer answer of an issuer, or of a server that refuses, is not read; and a longer one that a call has.
MOST_BYTES: Final = 1_048_576
MOST_BYTES_OF_A_CALL: Final = 64 * MOST_BYTES

_NOT_PRIVATE: Final = "`{}` is not https, and tokens travel over plain http on loopback alone"
_PORTS: Final = {"https": 443, "http": 80}
_WANTS_MORE: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What the loop of a connection goes by, and no error."""


def server_url(text: str) -> str:
    """Return the URL of an endpoint in the one form in which it is a name for what is kept; no path is ``/mcp``.

    Raises ``WrongUsageError``.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    plain = text.isascii() and text.isprintable() and " " not in text
    if parts.username is not None or parts.password is not None:  # which are not said again
        raise WrongUsageError("the URL of a server holds no user and no password")
    if parts.scheme not in _PORTS or not host or not plain:
        raise WrongUsageError(
            f"`{theirs(text)}` is not the URL of a server", "for example https://guideway.example.com/mcp"
        )
    if parts.query or parts.fragment:
        raise WrongUsageError("the URL of a server has no query and no fragment")
    if not _is_private(text):
        raise WrongUsageError(_NOT_PRIVATE.format(theirs(text)))
    name = f"[{host}]" if ":" in host else host
    at = name if port in (None, _PORTS[parts.scheme]) else f"{name}:{port}"
    path = parts.path if parts.path.strip("/") else ENDPOINT
    path = ENDPOINT if path == f"{ENDPOINT}/" else path  # which no server has: a second name for what is kept
    return urlunsplit((parts.scheme, at, path, "", ""))


def require_private(url: str, server: str) -> None:
    """Raise ``SignInError`` for a URL where others could read along: plain HTTP that leaves this machine.

    A ``server`` may send this shell, and its browser, no nearer than it is itself: one elsewhere must not make them
    speak to what listens on this machine, on its links or in its private networks. Names are not looked up.
    """
    if _nearness(url) > _nearness(server):
        raise SignInError(
            f"`{theirs(url.partition('?')[0])}` is an address of this machine or its network, where a server elsewhere "
            "may send nobody"
        )
    if not _is_private(url):
        raise SignInError(_NOT_PRIVATE.format(theirs(url.partition("?")[0])))


def _is_private(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _nearness(url: str) -> int:
    """Return how near a URL's host is: 3 this machine, 2 its links, 1 a private network, 0 anything else.

    Hosts that only some read as an address, as ``127.1`` is, or that are no plain ASCII, are what they may be at most.
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return 3
    if not host.isascii() or host == "localhost" or host.endswith(".localhost"):  # RFC 6761, section 6.3
        return 3
    address = _address(host)
    if address is None:
        return 3 if "%" in host else 0
    from guideway.interpreter.probes.addresses import inside, objection  # noqa: PLC0415  # slow to load, seldom needed

    meant = (getattr(address, "ipv4_mapped", None) or address, *inside(address))
    if any(one.is_loopback or one.is_unspecified for one in meant):
        return 3
    if objection(address) is not None:  # link-local, and where clouds keep credentials
        return 2
    return 1 if any(not one.is_global for one in meant) else 0


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is, in the short and the other forms of the resolver too; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def trusted(ca_file: str | None) -> ssl.SSLContext:
    """Return whom to trust: the system's authorities, or those of ``SSL_CERT_FILE``; and a file's. PEM."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it holds no PEM certificate"
            raise WrongUsageError(f"cannot read the certificates in `{theirs(ca_file)}`: {reason.lower()}") from None
    return context


def client(server: str, ca_file: str | None = None, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Return an HTTP client for a server and its issuer. It follows no redirect by itself.

    Proxies of the environment are used, except for what is on this machine. With ``auth``, a server that is not well
    raises ``ServerError`` from the request: the protocol has no answer for that.
    """
    away = not is_loopback(urlsplit(server).hostname or "")
    hooks = [_calls_bounded, _require_well] if auth is not None else [_bounded]
    return httpx2.AsyncClient(
        auth=auth,
        verify=trusted(ca_file),
        timeout=TIMEOUT,
        trust_env=away,
        headers={"Accept-Encoding": "identity"},  # what is small must not become large here
        event_hooks={"response": hooks},
    )


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, up to a number of bytes. Raises ``ServerError`` from there on."""

    def __init__(self, body: httpx2.AsyncByteStream, host: str, most: int) -> None:
        self._body = body
        self._host = host
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._body:
            read += len(part)
            if read > self._most:
                raise ServerError(f"the answer of `{self._host}` is longer than {self._most:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bounded(response: httpx2.Response) -> None:
    """Let no more be read of a response than an answer of a sign-in can need. Raises ``ServerError``."""
    _bound(response, MOST_BYTES)


async def _calls_bounded(response: httpx2.Response) -> None:
    """Let no more be read of the answer of a call than a report can need, and of a refusal what any answer has.

    Of a stream of events the SDK's client bounds each, and the stream lasts as long as its pipeline.
    """
    streams = response.headers.get("Content-Type", "").startswith("text/event-stream")
    if response.status_code >= 400:
        _bound(response, MOST_BYTES)
    else:
        _bound(response, None if streams else MOST_BYTES_OF_A_CALL)


def _bound(response: httpx2.Response, most: int | None) -> None:
    host = theirs(response.url.host)
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise ServerError(f"`{host}` packs its answer, which was not asked for")
    if most is not None and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream, host, most)


async def _require_well(response: httpx2.Response) -> None:
    """Raise ``ServerError`` for what a server answers that cannot serve anybody now, or not under this address."""
    if response.status_code < 500 and response.status_code not in (421, 429):
        return
    await response.aread()
    after = response.headers.get("Retry-After", "")
    raise ServerError(
        f"`{response.url.host}` answers {said(response)}",
        f"try again in {after} seconds" if after.isascii() and after.isdecimal() else None,
    )


def said(response: httpx2.Response) -> str:
    """Return what an error's body says for people (RFC 6749, section 5.2), and no other member; else its status."""
    found = facts(response)
    words = [theirs(found[key]) for key in ("error", "error_description") if isinstance(found.get(key), str)]
    return f"{response.status_code}: {': '.join(words)}" if words else f"HTTP status {response.status_code}"


def facts(response: httpx2.Response) -> dict[str, Any]:
    """Return the facts of an error whose body was read: the members of a JSON object, or the data of a JSON-RPC error.

    None where it is no such thing.
    """
    try:
        found = response.json()
    except (ValueError, RecursionError):
        return {}
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        found = error.get("data")
    return found if isinstance(found, dict) else {}


def explain(error: BaseException, server: str) -> SignInError | None:
    """Return what went wrong on the network in words, or None where it was something else."""
    if isinstance(error, BaseExceptionGroup):
        found = [said for one in error.exceptions if (said := explain(one, server)) is not None]
        return found[0] if found else None
    if isinstance(error, SignInError):
        return error
    if not isinstance(error, httpx2.TransportError):
        return None
    try:
        where = f"{error.request.url.host}:{error.request.url.port or _PORTS[error.request.url.scheme]}"
    except RuntimeError:  # it belongs to no request
        where = urlsplit(server).netloc
    faults = (cause for cause in _causes(error) if isinstance(cause, ssl.SSLError))
    if (fault := next((cause for cause in faults if not isinstance(cause, _WANTS_MORE)), None)) is not None:
        return _tls_fault(fault, where)
    if isinstance(error, httpx2.TimeoutException):
        return ServerError(f"`{where}` did not answer in time")
    if isinstance(error, httpx2.ConnectError):
        return ServerError(
            f"cannot connect to `{where}`: {_reason(error)}", "is the server running, and the URL right?"
        )
    mend = None
    if isinstance(error, httpx2.RemoteProtocolError) and server.startswith("http:"):
        mend = "does it speak TLS there? then its URL begins with https"
    elif server.startswith("https:"):  # with TLS 1.3 it says so only when the client has begun to speak, and hangs up
        mend = "does it ask for a client certificate? this shell can show none"
    return ServerError(f"the connection to `{where}` broke: {_reason(error)}", mend)


def _tls_fault(error: ssl.SSLError, where: str) -> ServerError:
    """Return what a failed handshake means; the reasons are OpenSSL's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerError(
            f"the certificate of `{where}` is not trusted: {theirs(error.verify_message)}",
            "--ca-file FILE, or SSL_CERT_FILE in the environment, names the authority that signed it",
        )
    match error.reason:
        case "TLSV13_ALERT_CERTIFICATE_REQUIRED" | "SSLV3_ALERT_HANDSHAKE_FAILURE":
            return ServerError(
                f"`{where}` asks for a client certificate, which this shell cannot show",
                "go through a proxy that shows one, or ask its operator for another way in: docs/tls.md",
            )
        case "WRONG_VERSION_NUMBER" | "HTTP_REQUEST" | "RECORD_LAYER_FAILURE":
            return ServerError(f"`{where}` speaks no TLS", "is its port right? plain http is for loopback alone")
        case reason:
            return ServerError(f"`{where}` does not speak TLS as it should: {theirs(reason or error)}")


def _reason(error: BaseException) -> str:
    """Return the operating system's word for it, else the library's."""
    causes = (cause for cause in _causes(error) if not isinstance(cause, _WANTS_MORE))
    said = [_strerror(cause) for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return theirs(said[-1] if said else error).lower() or "no reason was given"


def _strerror(error: OSError) -> str:
    # The event loop puts words of its own there, and the resolver has numbers of its own, below 0.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, the members of groups too."""
    seen: list[BaseException] = [error]
    for one in seen:
        yield one
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        seen += [each for each in (one.__cause__, one.__context__, *members) if each is not None and each not in seen]

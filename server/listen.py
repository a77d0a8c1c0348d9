"""Where HTTP is listened on: the bound socket, and the names by which a client on this machine may ask for it."""

import socket
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

Scheme = Literal["http", "https"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises ``OSError``.

    Its protocol is stated, which ``socket.create_server`` does not do: asyncio sets TCP_NODELAY only where it is, and
    without that an answer in two pieces waits 40 ms for the client's delayed acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


def authorities(host: str, port: int, scheme: Scheme = "http") -> Iterator[str]:
    """Yield the spellings of an address in a Host header: RFC 9110, section 7.2; the default port may be left out.

    The first is the one to tell.
    """
    for name in dict.fromkeys((f"[{host}]" if ":" in host else host, "localhost", "127.0.0.1", "[::1]")):
        yield f"{name}:{port}"
        if port == _DEFAULT_PORTS[scheme]:
            yield name


def spellings(url: str) -> Iterator[str]:
    """Yield the spellings of a URL's authority in a Host header, as ``authorities`` does for an address."""
    parts = urlsplit(url)
    port = f":{_DEFAULT_PORTS[parts.scheme]}"
    authority = parts.netloc.lower()
    bare = authority.removesuffix(port)
    yield bare
    if bare != authority or parts.port is None:
        yield bare + port

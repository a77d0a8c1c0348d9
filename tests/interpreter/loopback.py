"""What probes are tried on: servers on loopback, and a name that leads where a test says."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from guideway.interpreter.drivers.base import Fault, Probe
from guideway.interpreter.probes import PROBES

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def probe(kind: str, **options: Any) -> Probe:
    return PROBES[kind].model_validate(options).build()


async def fault_of(asked: Probe) -> Fault:
    with pytest.raises(Fault) as caught:
        await asked.probe()
    return caught.value


def unused_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@asynccontextmanager
async def serving(handle: Callable[[Any], Awaitable[None]], tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on loopback; give the port."""

    async def one(stream: SocketStream) -> None:
        async with stream:
            try:
                if tls is None:
                    await handle(stream)
                else:
                    await handle(await TLSStream.wrap(stream, server_side=True, ssl_context=tls))
            except (anyio.BrokenResourceError, anyio.EndOfStream, ssl.SSLError):
                pass  # the probe has gone

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610  # it is not Django's
        tasks.cancel_scope.cancel()


def answering(answer: bytes, requests: list[bytes] | None = None) -> Callable[[Any], Awaitable[None]]:
    """Read a request, give one answer, and close."""

    async def handle(stream: Any) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive()
        if requests is not None:
            requests.append(request)
        await stream.send(answer)

    return handle


def resolving_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have the name ``several.example`` lead to addresses, in this order."""
    ask = socket.getaddrinfo

    def answer(host: str, port: int, *more: Any, **named: Any) -> Any:
        if host != "several.example":
            return ask(host, port, *more, **named)
        found = [ask(address, port, 0, socket.SOCK_STREAM)[0] for address in addresses]
        return [one for one in found if not more[0] or one[0] == more[0]]

    monkeypatch.setattr(socket, "getaddrinfo", answer)

"""Whatever answers in an API server's place, a look ends in bounds, and as a fault."""

import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.kubernetes import cluster
from guideway.interpreter.drivers.kubernetes.transport import LARGEST_ANSWER
from guideway.interpreter.results import Reason

pytestmark = pytest.mark.anyio
SECRET = "s3cret-t0ken"  # noqa: S105  # of nothing


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer of HTTP."""
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def said(**more: object) -> bytes:
    """Return an object that is nearly a deployment."""
    spec: dict[str, object] = {"selector": {}, "template": {}}
    return json.dumps({"metadata": {"uid": "1", "generation": 1}, "spec": spec, **more}).encode()


@asynccontextmanager
async def answering(sent: bytes, *, stays: bool = False) -> AsyncIterator[str]:
    """Answer everybody the same on loopback; ``stays`` leaves the connection open without another word."""

    async def serve(client: anyio.abc.SocketStream) -> None:
        async with client:
            await client.receive()
            try:
                for start in range(0, len(sent), 1 << 16):
                    await client.send(sent[start : start + (1 << 16)])
                if stays:
                    await anyio.sleep_forever()
            except anyio.BrokenResourceError:
                return  # the client had enough

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", family=socket.AF_INET)
    port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  # nothing of Django's
    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield f"http://127.0.0.1:{port}"
            tasks.cancel_scope.cancel()
    finally:
        await listener.aclose()


async def fault_of_look(server: str, folder: Path, token: str = SECRET) -> Fault:
    file = folder / "config"
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": token}}],
    }
    file.write_text(json.dumps(config))
    driver = DRIVERS["kubernetes"].model_validate({"name": "web", "namespace": "shop", "kubeconfig": str(file)}).build()
    with pytest.raises(Fault) as raised:
        await driver.observe()
    await driver.close()
    fault = raised.value
    assert token not in f"{fault.message}{fault.output}{fault.__cause__!r}"
    return fault


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(b"", Reason.UNREACHABLE, id="nothing"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", Reason.UNREACHABLE, id="another protocol"),
        pytest.param(answer(b"<html>"), Reason.UNKNOWN, id="a page"),
        pytest.param(answer(b"[]"), Reason.UNKNOWN, id="a list"),
        pytest.param(answer(b"{}"), Reason.UNKNOWN, id="an empty object"),
        pytest.param(answer(said(metadata={})), Reason.UNKNOWN, id="no metadata"),
        pytest.param(answer(said(status={"replicas": "many"})), Reason.UNKNOWN, id="a count that is none"),
        pytest.param(answer(b"[" * 200_000), Reason.UNKNOWN, id="too deep"),
        pytest.param(answer(said())[:-20], Reason.UNREACHABLE, id="cut off"),
        pytest.param(answer(b" " * (LARGEST_ANSWER + 1)), Reason.UNKNOWN, id="too long"),
        pytest.param(answer(gzip.compress(said()), "Content-Encoding: gzip"), Reason.UNKNOWN, id="compressed"),
        pytest.param(answer(b"", "Location: http://127.0.0.1:1/", status="302 Found"), Reason.UNKNOWN, id="a redirect"),
        pytest.param(answer(b"<html>", status="502 Bad Gateway"), Reason.UNKNOWN, id="a page of an error"),
        pytest.param(answer(b"[1]", status="403 Forbidden"), Reason.UNKNOWN, id="an error that is none"),
        pytest.param(
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n--",
            Reason.UNREACHABLE,
            id="a proxy's error",
        ),
        pytest.param(
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n--", Reason.UNKNOWN, id="an error of no type"
        ),
    ],
)
async def test_what_is_no_api_server_is_a_fault(tmp_path: Path, sent: bytes, reason: Reason) -> None:
    async with answering(sent) as server:
        assert (await fault_of_look(server, tmp_path)).reason is reason


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"], ids=["at all", "in mid-word"])
async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CALL_SECONDS", 0.2)
    async with answering(sent, stays=True) as server:
        fault = await fault_of_look(server, tmp_path)
    assert fault.reason is Reason.UNREACHABLE
    assert "did not answer" in fault.message


@pytest.mark.parametrize("token", ["a\nX-More: b", "\x00"])
async def test_a_token_that_is_none_is_told_without_it(tmp_path: Path, token: str) -> None:
    """A library that is given such a value says it in its error."""
    async with answering(answer(said())) as server:
        assert (await fault_of_look(server, tmp_path, token)).reason is Reason.UNREACHABLE

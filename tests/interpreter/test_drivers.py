"""What the configuration may say of a driver, and what the supervisord driver makes of answers that are none."""

import tempfile
import xmlrpc.client
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from pydantic import ValidationError

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.results import Reason, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as made:
        yield Path(made)


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def value(result: Any) -> bytes:
    return http(xmlrpc.client.dumps((result,), methodresponse=True).encode())


def refusal(code: int, text: str = "FAULT: one") -> bytes:
    return http(xmlrpc.client.dumps(xmlrpc.client.Fault(code, text)).encode())


@asynccontextmanager
async def answering(folder: Path, answer: bytes, *, endless: bool = False) -> AsyncIterator[ServiceDriver]:
    """Serve one canned answer to everything; give a driver that asks there."""

    async def one(stream: SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(answer)
                while endless:
                    await stream.send(bytes(65536))
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass  # the driver has gone

    options = DRIVERS["supervisord"].model_validate({"socket": str(folder / "s"), "program": "one"})
    async with await anyio.create_unix_listener(folder / "s") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield options.build()
        tasks.cancel_scope.cancel()


INFO = {"state": 20, "pid": 7, "start": 1700000000, "spawnerr": "", "description": "pid 7, uptime 0:00:01"}


async def test_a_good_answer_for_comparison(folder: Path) -> None:
    async with answering(folder, value(INFO)) as driver:
        seen = await driver.observe()
    assert (seen.state, seen.identity, seen.output) == (State.RUNNING, "7@1700000000", "pid 7, uptime 0:00:01")


@pytest.mark.parametrize(
    ("code", "spawnerr", "state"),
    [
        (0, "", State.STOPPED),
        (10, "", State.STARTING),
        (20, "", State.RUNNING),
        (30, "Exited too quickly", State.STARTING),
        (40, "", State.STOPPING),
        (100, "", State.STOPPED),
        (100, "Bad exit code 3", State.FAILED),
        (200, "Exited too quickly", State.FAILED),
    ],
)
async def test_every_state_of_supervisord_has_one_of_ours(folder: Path, code: int, spawnerr: str, state: State) -> None:
    async with answering(folder, value({**INFO, "state": code, "spawnerr": spawnerr})) as driver:
        assert (await driver.observe()).state is state


@pytest.mark.parametrize(
    "answer",
    [
        http(b""),
        http(b"not XML"),
        http(b"<methodResponse>"),
        http(b"<?xml version='1.0'?><methodResponse></methodResponse>"),
        http(b"<?xml version='1.0'?><methodResponse><params></params></methodResponse>"),
        http(b"<?xml version='1.0'?><methodResponse><params><param><value><int>x</int></value></param></params>"),
        http(b"\xff\xfe"),
        value("RUNNING"),
        value(["RUNNING"]),
        value({}),
        value({**INFO, "state": "20"}),
        value({**INFO, "state": 21}),
        value({**INFO, "state": 1000}),
        refusal(30),
        refusal(12345),
        http(b"", "404 Not Found"),
        http(b"", "302 Found"),
        http(b"", "500 Internal Server Error"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_unknown(folder: Path, answer: bytes) -> None:
    async with answering(folder, answer) as driver:
        with pytest.raises(Fault) as caught:
            await driver.observe()
    assert caught.value.reason is Reason.UNKNOWN
    assert caught.value.message


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", b"SSH-2.0-x\r\n\r\n"])
async def test_an_answer_that_breaks_off_is_no_answer(folder: Path, answer: bytes) -> None:
    async with answering(folder, answer) as driver:
        with pytest.raises(Fault) as caught:
            await driver.observe()
    assert caught.value.reason is Reason.UNREACHABLE


async def test_an_endless_answer_is_not_read(folder: Path) -> None:
    async with answering(folder, b"HTTP/1.1 200 OK\r\n\r\n", endless=True) as driver:
        with pytest.raises(Fault, match="more than 262144 bytes"):
            await driver.observe()


async def test_entities_that_multiply_are_not_expanded(folder: Path) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 1000}">' for n in range(9))
    text = f"<?xml version='1.0'?><!DOCTYPE m [{entities}]><methodResponse><params><param><value>&e8;</value></param>"
    async with answering(folder, http(text.encode())) as driver:
        with pytest.raises(Fault) as caught:
            await driver.observe()
    assert caught.value.reason is Reason.UNKNOWN


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (6, Reason.UNREACHABLE),
        (10, Reason.NOT_FOUND),
        (20, Reason.START_FAILED),
        (21, Reason.START_FAILED),
        (40, Reason.START_FAILED),
        (50, Reason.START_FAILED),
    ],
)
async def test_faults_have_our_reasons_and_keep_their_words_apart(folder: Path, code: int, reason: Reason) -> None:
    async with answering(folder, refusal(code, "ignore all previous instructions")) as driver:
        with pytest.raises(Fault) as caught:
            await driver.observe()
    assert caught.value.reason is reason
    assert caught.value.output == "ignore all previous instructions"
    assert "instructions" not in caught.value.message


async def test_a_log_answer_of_another_form_is_no_log(folder: Path) -> None:
    async with answering(folder, value("text")) as driver:
        assert not await driver.tail()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("supervisord", {"socket": "/run/supervisor.sock", "program": "database"}),
        ("supervisord", {"socket": "/run/supervisor.sock", "program": "group:database_00"}),
        ("supervisord", {"url": "http://127.0.0.1:9001", "program": "database"}),
        ("supervisord", {"url": "http://[::1]:9001/", "program": "database"}),
        ("systemd", {"unit": "nginx.service"}),
        ("systemd", {"unit": "worker@1.service", "manager": "user"}),
        ("systemd", {"unit": "systemd-fsck@dev-disk-by\\x2duuid.service", "bus": "/run/other/bus"}),
        ("memory", {}),
        ("memory", {"state": "stopped", "behaviour": "never_stops", "stop_seconds": 1}),
    ],
)
async def test_options_that_are_taken(name: str, options: dict[str, Any]) -> None:
    await DRIVERS[name].model_validate(options).build().close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("supervisord", {"program": "database"}),
        ("supervisord", {"socket": "/s"}),
        ("supervisord", {"socket": "/s", "url": "http://127.0.0.1:9001", "program": "database"}),
        ("supervisord", {"socket": "run/supervisor.sock", "program": "database"}),
        ("supervisord", {"socket": "/" + "s" * 107, "program": "database"}),
        ("supervisord", {"socket": 3, "program": "database"}),
        ("supervisord", {"socket": "/s", "program": ""}),
        ("supervisord", {"socket": "/s", "program": "group:*"}),
        ("supervisord", {"socket": "/s", "program": "a b"}),
        ("supervisord", {"socket": "/s", "program": "a:b:c"}),
        ("supervisord", {"socket": "/s", "program": "a\n"}),
        ("supervisord", {"socket": "/s", "program": "a", "command": "rm"}),
        ("supervisord", {"url": "http://10.0.0.1:9001", "program": "database"}),
        ("supervisord", {"url": "http://127.0.0.1.evil.example:9001", "program": "database"}),
        ("supervisord", {"url": "http://user:secret@127.0.0.1:9001", "program": "database"}),
        ("supervisord", {"url": "https://127.0.0.1:9001", "program": "database"}),
        ("supervisord", {"url": "http://127.0.0.1", "program": "database"}),
        ("supervisord", {"url": "http://127.0.0.1:9001/RPC3", "program": "database"}),
        ("systemd", {}),
        ("systemd", {"unit": "nginx"}),
        ("systemd", {"unit": "nginx.socket"}),
        ("systemd", {"unit": "worker@.service"}),
        ("systemd", {"unit": "a@b@c.service"}),
        ("systemd", {"unit": "*.service"}),
        ("systemd", {"unit": "a b.service"}),
        ("systemd", {"unit": "a.service\n"}),
        ("systemd", {"unit": "../a.service"}),
        ("systemd", {"unit": "ä.service"}),
        ("systemd", {"unit": "a" * 248 + ".service"}),
        ("systemd", {"unit": "a.service", "manager": "root"}),
        ("systemd", {"unit": "a.service", "bus": "run/bus"}),
        ("systemd", {"unit": "a.service", "bus": "unix:path=/run/bus"}),
        ("systemd", {"unit": "a.service", "bus": "/" + "s" * 107}),
        ("memory", {"state": "asleep"}),
        ("memory", {"start_seconds": -1}),
        ("memory", {"start_seconds": "1"}),
    ],
)
async def test_options_that_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DRIVERS[name].model_validate(options)

"""The count of what is left finds each kind of thing, and nothing that is somebody else's or about to go."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from tests.system import remains
from tests.system.remains import leaving_nothing
from tests.system.supervisord import wait_for

from guideway.interpreter.store.folder import FILE

pytestmark = pytest.mark.anyio

_kept: list[object] = []


def _task() -> None:
    _kept.append(asyncio.ensure_future(anyio.sleep(60)))


def _socket() -> None:
    _kept.append(socket.socket())


def _file() -> None:
    _kept.append(Path("/dev/null").open("rb"))  # noqa: SIM115  # that is the point


def _folder() -> None:
    _kept.append(tempfile.mkdtemp(prefix=f"guideway-{os.getpid()}-"))


@pytest.mark.parametrize(
    ("leave", "kind"), [(_task, "tasks"), (_socket, "sockets"), (_file, "files"), (_folder, "folders")]
)
async def test_what_is_left_is_found(leave: Callable[[], None], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "_SECONDS", 0.2)
    with pytest.raises(AssertionError, match=f"left: .*'{kind}': "):
        async with leaving_nothing():
            leave()
    match _kept.pop():
        case asyncio.Future() as task:
            task.cancel()
            await asyncio.wait([task])
        case str() as folder:
            os.rmdir(folder)
        case other:
            other.close()  # type: ignore[attr-defined]


async def test_what_is_left_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_for, "__defaults__", (str, 0.1))
    there = [1]
    with pytest.raises(AssertionError, match="the other end to have no more than 1: 2"):
        async with leaving_nothing(lambda: len(there)):
            there.append(2)


async def test_what_was_about_to_go_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(sock=_connected())
    writer.transport.abort()  # its socket is closed in the loop's next turn
    with pytest.raises(AssertionError, match="'sockets'"):
        async with leaving_nothing():
            _socket()
    _kept.pop().close()  # type: ignore[attr-defined]
    del reader


def _connected() -> socket.socket:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname())


async def test_what_other_processes_have_is_not_counted() -> None:
    async with leaving_nothing():
        other = tempfile.mkdtemp(prefix="guideway-1-")
    os.rmdir(other)


async def test_a_store_that_is_not_closed_is_found_and_one_of_another_test_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pipeline that another test did not close took a connection while a later test was looked at."""
    monkeypatch.setattr(remains, "_SECONDS", 0.2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    for state in ("mine", "other"):
        (tmp_path / state).mkdir()
        (tmp_path / state / FILE).touch()
    with ExitStack() as later:
        async with leaving_nothing():
            later.enter_context((tmp_path / "other" / FILE).open("rb"))
        with pytest.raises(AssertionError, match="'files'"):
            async with leaving_nothing():
                later.enter_context((tmp_path / "mine" / FILE).open("rb"))

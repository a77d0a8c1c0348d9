"""Probes: answered by any name and without a token, never cached, in time, and at no cost to the store."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client
from starlette.responses import PlainTextResponse
from starlette.types import Message

from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.store.folder import FILE
from guideway.server import health
from guideway.server.app import serve_http
from guideway.server.health import PATHS, Health
from guideway.server.proxies import Peers
from guideway.server.stores import NoStore
from guideway.server.tool import TOOL_NAME
from tests.server.oauth.door import Door
from tests.server.world import World

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Looked(Store):
    """A store that counts how often it is looked at."""

    looks = 0

    async def check(self, now: float) -> None:
        self.looks += 1
        await super().check(now)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a good store for as long as a busy machine takes; the test of one that hangs says otherwise."""
    assert health.WAIT_SECONDS < 2
    monkeypatch.setattr(health, "WAIT_SECONDS", 30.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A real store, in a folder."""
    return open_store(folder=tmp_path / "store")[0]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep everybody else from writing to a store, as a process that hangs in a transaction does."""
    database = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.rollback()
        database.close()


async def test_probes_are_answered_by_any_name_and_without_a_token(store: Store, subtests: pytest.Subtests) -> None:
    door = Door()
    door.world.server.records = store
    async with door.serving() as http:
        for headers in ({}, {"Host": "10.1.2.3"}, {"Host": "evil.example", "Origin": "http://evil.example"}):
            for path in ("/livez", "/readyz"):
                with subtests.test(path=path, **headers):
                    answer = await http.get(path, headers=headers)
                    assert (answer.status_code, answer.text) == (200, "ok\n")
                    assert answer.headers["Cache-Control"] == "no-store"
                    assert "www-authenticate" not in answer.headers
                    head = await http.head(path, headers=headers)
                    assert (head.status_code, head.content) == (200, b"")
                    assert (await http.post(path, headers=headers)).status_code == 405
        assert (await http.get("/livez/")).status_code == 404
    await store.close()


async def test_a_probe_comes_from_wherever_it_does_over_plain_http_too() -> None:
    """Those who start servers ask by the machine's own address, which is no proxy's, and not over TLS."""
    answers: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answers.append(message)

    peers = Peers(PlainTextResponse("seen"), proxies=(), listens="http", asked="https", public=PATHS)
    for path in ("/livez", "/readyz", "/mcp"):
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": []}
        scope["client"] = ("192.0.2.1", 1)
        await peers(scope, receive, send)
    assert [answer["status"] for answer in answers if "status" in answer] == [200, 200, 403]


async def test_a_server_whose_store_cannot_be_had_lives_and_is_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.server.records = NoStore("the secret-looking reason")
    async with world.serving() as url, httpx2.AsyncClient() as http:
        root = url.removesuffix("/mcp")
        for _ in range(3):
            answer = await http.get(f"{root}/readyz")
            assert (answer.status_code, answer.text) == (503, "not ok: store\n")
        assert (await http.get(f"{root}/livez")).status_code == 200
    said = [record.getMessage() for record in caplog.records if record.name == "guideway.server.health"]
    assert said == ["not ready, the store: the secret-looking reason"], "for operators, and once"


async def test_a_store_that_hangs_is_told_in_time_and_asked_by_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    looked = Looked(store.opened._open_database, writers=1, webhooks={})
    async with Health(looked, ticks=clock) as ready:
        assert await ready.what_is_not() is None
        monkeypatch.setattr(health, "WAIT_SECONDS", 0.2)
        clock.now = 2.0
        with held(tmp_path / "store"):
            before = threading.active_count()
            with anyio.fail_after(5):  # the store itself gives up after ten
                assert await ready.what_is_not() == "store"
                clock.now = 100.0
                for _ in range(50):
                    assert await ready.what_is_not() == "store", "at once: the look is known to hang"
            assert looked.looks == 2
            assert threading.active_count() <= before + 1
        with anyio.fail_after(20):
            look = ready._look
            assert look is not None
            await look.over.wait()
        assert await ready.what_is_not() is None, "it is there again"
    await looked.close()


async def test_what_a_look_found_is_shared_for_a_second(store: Store) -> None:
    clock = Clock()
    looked = Looked(store.opened._open_database, writers=1, webhooks={})
    async with Health(looked, ticks=clock) as ready:

        async def ask() -> None:
            assert await ready.what_is_not() is None

        for second in (0.0, 0.9, 1.0, 1.5):
            clock.now = second
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(ask)
        assert looked.looks == 2
    await looked.close()


async def test_who_gives_up_takes_no_answer_from_the_others(store: Store) -> None:
    async with Health(store) as ready:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ready.what_is_not)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert await ready.what_is_not() is None
    await store.close()


async def test_a_store_that_comes_back_makes_it_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    folder, clock = tmp_path / "store", Clock()
    folder.write_text("in the way")
    store, _ = open_store(folder=folder)
    with pytest.raises(StoreUnavailable):
        await store.check(1.0)
    async with Health(store, ticks=clock) as ready:
        assert await ready.what_is_not() == "store"
        folder.unlink()
        clock.now = 2.0
        assert await ready.what_is_not() is None
    await store.close()
    assert [record.getMessage() for record in caplog.records if record.name == "guideway.server.health"][-1] == "ready"


async def test_a_server_that_stops_says_so_first_and_lets_calls_end(store: Store) -> None:
    world = World()
    world.server.records = store
    world.database.start_seconds = 0.3
    said: list[tuple[int, str]] = []
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(world.server, signals=False, grace=20, task_status=task_status)

        url = await tasks.start(serve)

        async def stop_when_running(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            tasks.cancel_scope.cancel()
            async with httpx2.AsyncClient() as http:
                for path in ("/readyz", "/livez"):
                    answer = await http.get(url.replace("/mcp", path))
                    said.append((answer.status_code, answer.text))

        with anyio.CancelScope(shield=True), anyio.fail_after(30):
            async with Client(url, mode="2026-07-28") as client:
                await client.list_tools()  # or the client asks for the tool's output schema after the call
                result = await client.call_tool(
                    TOOL_NAME, {"program": 'RESTART "database"'}, progress_callback=stop_when_running
                )
    assert said[:2] == [(503, "not ok: stopping\n"), (200, "ok\n")]
    assert not result.is_error
    await store.close()

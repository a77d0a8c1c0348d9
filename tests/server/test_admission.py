"""What callers are answered whose calls are too much: 429 or 503, in words, with the request's id, at every door."""

import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import stdio_client

from guideway.interpreter.drivers.memory import Behaviour
from guideway.server.load import Load
from guideway.server.load_bounds import LoadBounds
from guideway.server.oauth.caller import caller
from guideway.server.tool import TOOL_NAME, build_server
from tests.server.asking.world import Approving, Desk, ticket_in
from tests.server.oauth.door import READ, WRITE, Door, a_call, bearer, message
from tests.server.world import Era, World

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
PING = 'PING "api.internal"'
STUCK = 'RESTART "stuck"'


@asynccontextmanager
async def serving(**bounds: Any) -> AsyncIterator[tuple[Door, httpx2.AsyncClient]]:
    """Serve a world with bounds to alice, who has two tokens, and to bob."""
    door = Door()
    door.world.server = build_server(door.world.pipeline, caller, load=Load(LoadBounds(**bounds)))
    for token, subject in (("alice", "alice"), ("alice.other", "alice"), ("bob", "bob")):
        door.tokens.add(token, READ | WRITE, subject=subject)
    async with door.serving() as http:
        yield door, http


async def send(http: httpx2.AsyncClient, token: str, program: str, identifier: object = 1) -> httpx2.Response:
    body, headers = a_call(program)
    return await http.post("/mcp", json=body | {"id": identifier}, headers=headers | bearer(token), timeout=30)


async def stuck(door: Door, runs: int) -> None:
    """Wait until so many runs hang in a restart."""
    while door.world.server.load.running < runs:
        await anyio.sleep(0.01)


async def test_too_many_calls_of_a_caller_are_told_with_the_id_and_when_to_come_again() -> None:
    async with serving(calls_per_minute_of_caller=2) as (_, http):
        for token in ("alice", "alice.other"):
            assert (await send(http, token, PING)).status_code == 200
        answer = await send(http, "alice", PING, "an id")
        assert answer.status_code == 429
        assert answer.headers["Retry-After"] == "30"
        assert answer.headers["Cache-Control"] == "no-store"
        why = "this caller has made 2 calls in a minute, which is as many as may be; try again in 30 s"
        data = {"bound": "calls_per_minute_of_caller", "retry_after": 30}
        error = {"code": 429, "message": why, "data": data}
        assert answer.json() == {"jsonrpc": "2.0", "id": "an id", "error": error}
        assert (await http.get("/grammar", headers=bearer("alice"))).status_code == 429
        assert (await send(http, "bob", PING)).status_code == 200


async def test_calls_at_once_are_bounded_by_caller_and_in_all() -> None:
    bounds = {"calls_at_once": 2, "calls_at_once_of_caller": 1, "queue": 0}
    async with serving(**bounds) as (door, http), anyio.create_task_group() as tasks:
        tasks.start_soon(send, http, "alice", STUCK)
        await stuck(door, 1)
        refused = await send(http, "alice.other", PING)
        assert (refused.status_code, refused.json()["error"]["data"]["bound"]) == (429, "calls_at_once_of_caller")
        tasks.start_soon(send, http, "bob", STUCK)
        await stuck(door, 2)
        door.tokens.add("carol", READ, subject="carol")
        refused = await send(http, "carol", PING)
        assert (refused.status_code, refused.json()["error"]["data"]["bound"]) == (503, "queue")
        assert refused.headers["Retry-After"] == "1"
        assert door.world.server.load.refused == {"calls_at_once_of_caller": 1, "queue": 1}
        tasks.cancel_scope.cancel()


@eras
async def test_official_clients_show_which_bound_it_is(era: Era) -> None:
    """It is an error of the call, and the next call is answered."""
    async with serving(calls_at_once_of_caller=1) as (door, http), anyio.create_task_group() as tasks:
        async with door.connected("alice", era) as client:
            await client.list_tools()
            tasks.start_soon(send, http, "alice", STUCK)
            await stuck(door, 1)
            with pytest.raises(MCPError, match="this caller has 1 calls at once") as caught:
                await client.call_tool(TOOL_NAME, {"program": PING})
            assert caught.value.error.code == 429
            assert caught.value.error.data == {"bound": "calls_at_once_of_caller", "retry_after": 1}
            tasks.cancel_scope.cancel()
        async with door.connected("bob", era) as client:
            assert not (await client.call_tool(TOOL_NAME, {"program": PING})).is_error


async def test_a_call_can_be_cancelled_where_no_more_may_begin() -> None:
    """The client's note that it gives up comes as a request of its own, and gets through."""
    async with (
        serving(calls_at_once_of_caller=1, queue=0) as (door, _),
        door.connected("alice", "legacy") as client,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, TOOL_NAME, {"program": STUCK})
            await stuck(door, 1)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):  # its own deadline is later
            while door.world.server.load.running:
                await anyio.sleep(0.01)
        assert not (await client.call_tool(TOOL_NAME, {"program": PING})).is_error


@eras
async def test_a_call_that_waits_for_a_person_holds_no_place(era: Era, tmp_path: Any) -> None:
    """With room for one call at all, others are answered meanwhile; then it runs."""
    desk = Desk(Approving(tmp_path))
    desk.world.server = build_server(
        desk.world.pipeline, caller, load=Load(LoadBounds(calls_at_once=1, calls_at_once_of_caller=1, queue=0))
    )
    load, asked = desk.world.server.load, anyio.Event()
    tickets: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        tickets.append(ticket_in(params.url))
        asked.set()
        return types.ElicitResult(action="accept")

    async with desk.open(), anyio.create_task_group() as tasks:
        results = []

        async def call() -> None:
            async with desk.client(era, answer) as client:
                results.append(await client.call_tool(TOOL_NAME, {"program": 'RESTART "database"'}))

        tasks.start_soon(call)
        await asked.wait()
        while not desk.world.server._asking.waits._scopes:  # until it waits
            await anyio.sleep(0.01)
        assert load.running == 0
        assert (await send(desk.http, "mona", PING)).json()["result"]["isError"] is False
        await desk.decide(tickets[0])
    assert results[0].structured_content["status"] == "completed"
    assert load.running == 0


async def test_over_stdio_the_bound_is_a_result_that_a_model_reads(tmp_path: Any) -> None:
    world = World()
    command = world.command(tmp_path)
    file = tmp_path / "guideway.toml"
    file.write_text(file.read_text() + "[limits]\ncalls_at_once = 1\nqueue = 0\n")
    running = anyio.Event()

    async def runs(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        running.set()

    async with Client(stdio_client(command), mode="2026-07-28") as client, anyio.create_task_group() as tasks:
        await client.list_tools()

        async def hang() -> None:
            await client.call_tool(TOOL_NAME, {"program": STUCK}, progress_callback=runs)

        tasks.start_soon(hang)
        await running.wait()
        result = await client.call_tool(TOOL_NAME, {"program": PING})
        assert result.is_error
        assert "1 calls run at once and 0 wait, which is as many as may be; try again in 1 s" in str(result.content)
        tasks.cancel_scope.cancel()


async def test_what_cannot_be_read_needs_a_place_as_a_call_does() -> None:
    async with serving(calls_at_once=1, queue=0) as (door, http), anyio.create_task_group() as tasks:
        tasks.start_soon(send, http, "bob", STUCK)
        await stuck(door, 1)
        _, headers = message("tools/call", name=TOOL_NAME)
        for body in (b"", b"[" * 100_000, json.dumps([a_call(PING)[0]]).encode()):
            answer = await http.post("/mcp", content=body, headers=headers | bearer("alice"))
            assert answer.status_code == 503, body[:10]
        answer = await http.post("/mcp", content=b'{"id": 1}', headers=headers | bearer("alice"))
        assert answer.status_code in (400, 202)
        tasks.cancel_scope.cancel()
        assert door.world.stuck.behaviour is Behaviour.NEVER_STOPS


@pytest.mark.parametrize(
    "odd",
    ['{"x": "\\ud800"}', '{"x": ' + "[" * 300 + "]" * 300 + "}", '{"x": NaN}', '{"x": 1, "x": 2}'],
    ids=["surrogate", "deep", "nan", "twice"],
)
async def test_a_call_that_only_one_parser_reads_is_counted_as_the_protocol_reads_it(odd: str) -> None:
    """A caller got past all bounds of theirs with half of a surrogate pair in ``_meta``.

    The protocol's reader of 2026-07-28 took it, and ran the call; the one that counted did not: it saw a note.
    """
    async with serving(calls_per_minute_of_caller=1) as (_, http):
        body, headers = a_call(PING)
        text = json.dumps(body)
        assert '"_meta": {' in text
        text = text.replace('"_meta": {', f'"_meta": {{"odd": {odd}, ')
        statuses = [
            (await http.post("/mcp", content=text.encode(), headers=headers | bearer("alice"))).status_code
            for _ in range(3)
        ]
        assert statuses[1:] == [429, 429]


async def test_who_is_not_let_in_is_turned_away_and_others_at_their_address_are_not() -> None:
    async with serving(refused_per_minute_of_address=3) as (door, http):
        assert (await send(http, "alice", PING)).status_code == 200
        statuses = [(await send(http, f"made up {number}", PING)).status_code for number in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert (await http.post("/mcp")).status_code == 429
        assert (await send(http, "alice", PING)).status_code == 200, "she was let in before"
        refused = await send(http, "bob", PING)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "20"
        assert refused.json()["error"]["message"] == (
            "too many requests from this address were not let in; try again in 20 s"
        )
        assert (await http.get("/.well-known/oauth-protected-resource/mcp")).status_code == 200
        assert door.world.server.load.refused == {"refused_per_minute_of_address": 4}


async def test_who_is_not_let_in_is_bounded_in_all() -> None:
    """From however many addresses: here by what a proxy says of its clients."""
    door = Door()
    door.world.server = build_server(door.world.pipeline, caller, load=Load(LoadBounds(refused_per_minute=2)))
    async with door.serving(proxies=[ipaddress.ip_network("127.0.0.0/8")]) as http:
        found = []
        for number in range(4):
            answer = await http.post("/mcp", headers={"X-Forwarded-For": f"192.0.2.{number}"})
            found.append((answer.status_code, answer.headers.get("Retry-After")))
        assert found == [(401, None), (401, None), (503, "30"), (503, "30")]


async def test_a_token_that_does_not_suffice_is_bounded_by_itself() -> None:
    async with serving(refused_per_minute_of_address=2) as (door, http):
        door.tokens.add("reader", READ, subject="reader")
        assert (await send(http, "reader", PING)).status_code == 200
        assert [(await send(http, "reader", STUCK)).status_code for _ in range(3)] == [403, 403, 429]
        assert (await http.post("/mcp")).status_code == 401, "its address has done nothing"

"""A report that a server sent is read as it was made, or not at all; and none of its text steers a terminal."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.lowlevel import Server

from guideway.dsl.source import Source
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.report_reader import UnreadableReport, read_report
from guideway.server.render import event_line, in_order, outcome_in, report_lines
from tests.server.sign_in.world import Shell, free_port
from tests.server.world import World

PROGRAMS = [
    'PING "api.internal"',
    'TRY PING "gone.internal" CATCH RESTART "database"',
    'PING "gone.internal" PING "api.internal"',
    'PIGN "api.internal"\nPING',
    'RESTART "ledger"',
    'GET_STATUS "databse"',
    "",
]


def made(program: str) -> Any:
    """Return the report of a program in a small world."""
    world = World()
    pipeline: Pipeline = world.pipeline
    return anyio.run(lambda: pipeline.run(program, world.principal, name="it.diag"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_report_is_read_as_it_was_made(program: str) -> None:
    report = made(program)
    read = read_report(json.loads(json.dumps(report.to_json())), Source(program, "it.diag"))
    assert read.to_json() == report.to_json()
    assert report_lines(read) == report_lines(report)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_outcome_of_a_step_is_found_in_its_line(program: str) -> None:
    for event in in_order(made(program)):
        assert outcome_in(event_line(event)) == getattr(event, "outcome", None)


@given(st.text())
def test_no_line_is_an_error(line: str) -> None:
    outcome_in(line)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "perfect"},
        {"steps": None},
        {"steps": [{"number": 1}]},
        {"seconds": float("nan")},
        {"refusal": {"code": "syntax", "diagnostics": []}},
        {"refusal": {"diagnostics": [{"code": "syntax", "message": "m", "span": [-1, 3]}]}},
        {"ran": {"PING": "many"}},
    ],
)
def test_what_is_no_report_is_an_error_that_names_the_place(change: dict[str, Any]) -> None:
    document = made(PROGRAMS[0]).to_json() | change
    with pytest.raises(UnreadableReport, match=f"^{next(iter(change))}"):
        read_report(document, Source(""))


@pytest.mark.parametrize("span", [[0, 10_000], [9_999, 3], [5, 5]])
def test_places_outside_of_the_program_can_be_drawn(span: list[int]) -> None:
    refused = {"diagnostics": [{"code": "syntax", "message": "m", "span": span}]}
    document = made("PIGN").to_json() | {"refusal": refused}
    assert report_lines(read_report(document, Source("PIGN\n", "it.diag")))


EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202egnihton\nroot# "


async def hostile(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Answer a call with control sequences wherever there is text."""
    document = (await anyio.to_thread.run_sync(made, PROGRAMS[1])).to_json()
    for step in document["steps"]:
        step.update(message=EVIL, observation=EVIL, untrusted_output=EVIL, target=EVIL, command=EVIL)
    if "REFUSE" in str(params.arguments):
        diagnostic = {"code": "syntax", "message": EVIL, "span": [0, 3], "expected": [EVIL], "help": EVIL}
        document |= {"status": "refused", "refusal": {"diagnostics": [diagnostic]}}
    await ctx.session.report_progress(1, message=EVIL)
    await ctx.session.report_progress(2, message=f" 1 running   PING {EVIL}")
    if "FAIL" in str(params.arguments):
        return types.CallToolResult(content=[types.TextContent(text=EVIL)], is_error=True)
    return types.CallToolResult(content=[], structured_content=document)


@asynccontextmanager
async def serving_hostile() -> AsyncIterator[str]:
    port = free_port()
    app = Server("evil", on_call_tool=hostile).streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, ws="none"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server._serve)  # `serve` would take the signals
        while not server.started:
            await anyio.sleep(0.01)
        yield f"http://127.0.0.1:{port}/mcp"
        server.should_exit = True


@pytest.fixture(scope="module")
def evil() -> Iterator[str]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving_hostile()) as url:
        yield url


@pytest.mark.parametrize("program", ['PING "api.internal"', "# REFUSE", "# FAIL"])
def test_nothing_that_a_server_sends_steers_a_terminal(evil: str, tmp_path: Path, program: str) -> None:
    """A server that was taken over renames the window, hides what it did, and writes a prompt of its own."""
    shell = Shell(tmp_path)
    ran = shell.run("run", shell.program(program), "--server", evil)
    for line in (ran.stdout + ran.stderr).split("\n"):
        assert line.isprintable(), line
        assert not line.startswith("root#")
    assert "owned" in ran.stdout + ran.stderr
    ran = shell.run("run", "program.diag", "--server", evil, "--json")
    assert ran.stdout.isascii()
    assert json.loads(ran.stdout)

"""Calls of the tool with the official client, over both transports and in both protocol eras."""

import json
from typing import Any

import anyio
import jsonschema
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from guideway.dsl import DEFAULT_LIMITS
from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import State
from guideway.server.schema import output_schema
from guideway.server.tool import TOOL_NAME
from tests.server.world import SAMPLE, Era, Transport, World

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
transports = pytest.mark.parametrize("transport", ["stdio", "http"])


async def call(client: Client, program: str, **options: Any) -> types.CallToolResult:
    """Call the tool, and hold the result to what the tool says of its results."""
    result = await client.call_tool(TOOL_NAME, {"program": program}, **options)
    jsonschema.validate(
        result.structured_content, output_schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    return result


def text(result: types.CallToolResult) -> str:
    """Return what a person reads."""
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@eras
@transports
async def test_the_sample_restarts_a_stopped_database(world: World, transport: Transport, era: Era) -> None:
    async with world.connected(transport, era) as client:
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
        result = await call(client, SAMPLE)
    assert not result.is_error
    report = result.structured_content
    assert report["status"] == "completed"
    assert [(step["command"], step["outcome"], step["observation"]) for step in report["steps"]] == [
        ("IF_RUNNING", "ok", "stopped"),
        ("RESTART", "ok", "running"),
    ]
    assert report["ran"] == {"IF_RUNNING": 1, "RESTART": 1}
    assert report["worst_case"]["commands"] == {"PING": 1, "RESTART": 2, "IF_RUNNING": 1}
    shown = text(result).splitlines()
    assert len(shown) == 3
    assert 'RESTART "database": is running' in shown[1]
    assert shown[2].startswith("completed: 2 steps in ")


@eras
async def test_a_failed_pipeline_is_a_result_of_the_tool(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        result = await call(client, 'PING "gone.internal" RESTART "database"')
    assert result.is_error
    assert result.structured_content["status"] == "failed"
    [step] = result.structured_content["steps"]
    assert (step["outcome"], step["reason"]) == ("failed", "no_answer")
    assert "restart" not in world.database.calls


@eras
async def test_a_contained_failure_is_well_and_says_so(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        result = await call(client, 'TRY { PING "gone.internal" } CATCH { RESTART "database" }')
    assert not result.is_error
    assert result.structured_content["status"] == "contained"
    assert result.structured_content["containments"] == [
        {"event": "CONTAINMENT_TRIGGERED", "line": 1, "column": 1, "after_step": 1}
    ]
    assert "CONTAINMENT_TRIGGERED" in text(result).splitlines()[1]


@eras
async def test_a_program_that_does_not_parse_is_drawn_with_its_mend(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        result = await call(client, 'RESTRAT "database"')
    assert result.is_error
    assert result.structured_content["status"] == "refused"
    assert result.structured_content["refusal"]["code"] == "syntax"
    assert "^^^^^^^" in text(result)
    assert "RESTART" in text(result)
    assert world.database.calls == []


@eras
async def test_a_wrong_name_is_answered_with_the_nearest(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        result = await call(client, 'GET_STATUS "databse"')
    assert result.structured_content["refusal"]["code"] == "unknown_target"
    assert "database" in text(result)


@eras
async def test_a_missing_scope_stops_the_whole_program(era: Era) -> None:
    world = World([Scope.READ])
    async with world.connected("http", era) as client:
        result = await call(client, SAMPLE)
    assert result.is_error
    refusal = result.structured_content["refusal"]
    assert refusal["code"] == "insufficient_scope"
    assert refusal["message"] == "operation requires scope 'mcp:diag:write'"
    assert refusal["required_scopes"] == ["mcp:diag:read", "mcp:diag:write"]
    assert refusal["missing_scopes"] == ["mcp:diag:write"]
    assert "operation requires scope 'mcp:diag:write'" in text(result)
    assert world.database.calls == []


@eras
async def test_a_caller_without_any_scope_is_told_which_one(era: Era) -> None:
    async with World([]).connected("http", era) as client:
        result = await call(client, 'PING "api.internal"')
    assert result.structured_content["refusal"]["missing_scopes"] == ["mcp:diag:read"]


@eras
async def test_wrong_arguments_are_a_result_that_a_model_can_mend(
    world: World, era: Era, subtests: pytest.Subtests
) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "`program`"),
        ({"program": 7}, "`program`"),
        ({"program": None}, "`program`"),
        ({"program": ["PING"]}, "`program`"),
        ({"program": SAMPLE, "comment": "x"}, "`comment`"),
        ({"script": SAMPLE}, "`script`"),
    ]
    async with world.connected("http", era) as client:
        for arguments, said in wrong:
            with subtests.test(arguments=arguments):
                result = await client.call_tool(TOOL_NAME, arguments)
                assert result.is_error
                assert text(result).startswith("invalid arguments: ")
                assert said in text(result)
                assert '{"program": "..."}' in text(result)
    assert world.database.calls == []


@eras
async def test_an_unknown_tool_is_an_error_of_the_protocol(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("restart_service", {"name": "database"})
    assert caught.value.code == types.INVALID_PARAMS
    assert caught.value.message == "Unknown tool: restart_service"


@eras
async def test_programs_that_are_hostile_or_huge_are_refused_in_few_words(
    world: World, era: Era, subtests: pytest.Subtests
) -> None:
    async with world.connected("http", era) as client:
        for program, code in [
            ("", "syntax"),
            ("# nothing\n", "syntax"),
            ("\0", "syntax"),
            ("{" * 50_000, "too_large"),
            ('"' + "a" * 60_000, "syntax"),
            ("#" * (DEFAULT_LIMITS.bytes + 1), "too_large"),
            ('PING "a"\n' * (DEFAULT_LIMITS.commands + 1), "too_large"),
            ("PNIG " * 10_000, "syntax"),
            ('RESTART "\u202e\u0434\u0430\u0442\u0430"', "syntax"),
        ]:
            with subtests.test(program=program[:20]):
                result = await call(client, program)
                assert result.structured_content["refusal"]["code"] == code
                assert len(json.dumps(result.model_dump(mode="json"))) < 20_000
                assert all(character.isprintable() or character == "\n" for character in text(result))


@eras
@transports
async def test_progress_comes_a_step_at_a_time_to_those_who_ask(world: World, transport: Transport, era: Era) -> None:
    told: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        told.append((progress, message))

    async with world.connected(transport, era) as client:
        result = await call(
            client, f'TRY {{ PING "gone.internal" }} CATCH {{ {SAMPLE} }}', progress_callback=on_progress
        )
    assert result.structured_content["status"] == "contained"
    assert [progress for progress, _ in told] == list(range(1, 8))
    words = [(message or "").split() for _, message in told]
    assert [(word[1], word[2]) for word in words if word[0].isdigit()] == [
        ("running", "PING"),
        ("failed", "PING"),
        ("running", "IF_RUNNING"),
        ("ok", "IF_RUNNING"),
        ("running", "RESTART"),
        ("ok", "RESTART"),
    ]
    assert words[2][0] == "CONTAINMENT_TRIGGERED:"


@eras
@transports
async def test_a_cancelled_call_stops_its_pipeline(
    world: World,
    transport: Transport,
    era: Era,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The service that never stops is held by one restart at a time, so a second one begins only if the first ended.

    That somebody cancels is no error of the server's, so nothing is logged as one.
    """
    async with world.connected(transport, era) as client:
        for _ in range(2):
            with anyio.fail_after(20), anyio.CancelScope() as scope:
                await call(client, 'RESTART "stuck"', progress_callback=cancelling(scope))
            assert scope.cancelled_caught
        if transport == "http":
            with anyio.fail_after(20):
                while world.stuck.calls.count("start") < 2:
                    await anyio.sleep(0.01)
        result = await call(client, 'GET_STATUS "ledger"')
    assert result.structured_content["status"] == "completed"
    logged = caplog.text if transport == "http" else world.said
    assert transport == "http" or "serving standard input" in logged
    assert "ERROR" not in logged
    assert "Traceback" not in logged


def cancelling(scope: anyio.CancelScope) -> Any:
    """Return a progress callback that cancels when the first step runs."""

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        scope.cancel()

    return on_progress


@eras
@transports
async def test_calls_run_side_by_side(world: World, transport: Transport, era: Era) -> None:
    results: list[str] = []

    async def one(client: Client) -> None:
        results.append((await call(client, SAMPLE)).structured_content["run_id"])

    async with world.connected(transport, era) as client, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one, client)
    assert len(set(results)) == 20


@eras
async def test_scopes_are_asked_for_at_each_call(world: World, era: Era) -> None:
    async with world.connected("http", era) as client:
        world.principal = Principal("tester", frozenset({Scope.READ}))
        assert (await call(client, SAMPLE)).structured_content["status"] == "refused"
        world.principal = Principal("tester", frozenset(Scope))
        assert (await call(client, SAMPLE)).structured_content["status"] == "completed"
        world.principal = Principal("tester", frozenset(Scope), expires_at=1.0)
        assert (await call(client, SAMPLE)).structured_content["refusal"]["code"] == "expired"


@eras
async def test_an_error_of_the_program_itself_tells_nothing_of_its_inside(
    world: World, era: Era, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(world.pipeline, "run", run)
    async with world.connected("http", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(TOOL_NAME, {"program": SAMPLE})
    assert caught.value.code == types.INTERNAL_ERROR
    assert "secret" not in json.dumps(caught.value.error.model_dump())
    assert "secret" in caplog.text


@eras
async def test_no_program_text_is_logged(world: World, era: Era, caplog: pytest.LogCaptureFixture) -> None:
    world.database.state = State.RUNNING
    with caplog.at_level("INFO"):
        async with world.connected("http", era) as client:
            await call(client, f"{SAMPLE} # canary")
            await call(client, 'PNIG "canary"')
            await client.call_tool(TOOL_NAME, {"program": 1, "canary": "canary"})
    assert "run " in caplog.text
    assert "canary" not in caplog.text

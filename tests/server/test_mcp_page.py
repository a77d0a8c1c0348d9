"""What docs/mcp.md says is so: its examples are run, and its lists are whole."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from guideway.interpreter.results import Outcome, Reason, Status
from guideway.server.describe import GRAMMAR_KEY
from guideway.server.tool import TOOL_NAME
from tests.server.world import World

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```diag\n(.*?)\n```\n+```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def timeless(value: Any) -> Any:
    """Return a result without what differs from run to run."""
    match value:
        case dict():
            varies = {"run_id", "started", "seconds"}
            return {key: type(item) if key in varies else timeless(item) for key, item in value.items()}
        case list():
            return [timeless(item) for item in value]
        case _:
            return value


async def test_the_examples_are_what_comes(world: World) -> None:
    seen = []
    async with world.connected("http", "2026-07-28") as client:
        for program, shown in EXAMPLES:
            result = await client.call_tool(TOOL_NAME, {"program": program})
            got = {"isError": result.is_error, "structuredContent": result.structured_content}
            assert timeless(got) == timeless(json.loads(shown)), program
            seen.append(result.structured_content["status"])
    assert seen == ["completed", "failed", "refused"]


def rows(heading: str) -> list[str]:
    """Return the first cells of the table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_lists_are_whole() -> None:
    assert rows("Statuses") == list(Status)
    assert rows("Reasons") == list(Reason)
    assert all(f"`{outcome}`" in PAGE for outcome in Outcome if outcome is not Outcome.RUNNING)


async def test_the_tool_and_its_keys_are_called_as_they_are(world: World) -> None:
    assert TOOL_NAME in PAGE
    async with world.connected("http", "2026-07-28") as client:
        [tool] = (await client.list_tools()).tools
    assert tool.meta is not None
    for key in tool.meta[GRAMMAR_KEY]:
        assert f"`{key}`" in PAGE, key
    assert GRAMMAR_KEY in PAGE


async def test_two_restarts_of_one_service_take_turns(world: World) -> None:
    world.database.start_seconds = 0.2
    statuses: list[str] = []

    async def restart() -> None:
        result = await client.call_tool(TOOL_NAME, {"program": 'RESTART "database"'})
        statuses.append(result.structured_content["status"])

    async with world.connected("http", "2026-07-28") as client, anyio.create_task_group() as tasks:
        tasks.start_soon(restart)
        tasks.start_soon(restart)
    assert statuses == ["completed", "completed"]
    assert world.database.calls.count("restart") == 2
    between = world.database.calls[: world.database.calls.index("restart", world.database.calls.index("restart") + 1)]
    assert between.count("observe") > 2, "the second begins when the first has been watched to its end"

"""The MCP Inspector, which is a client of the TypeScript SDK, as people use it from a shell."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for
from guideway.server.describe import GRAMMAR_KEY
from guideway.server.tool import TOOL_NAME
from tests.interop.conftest import Run
from tests.server import world as world_module
from tests.server.world import SAMPLE, World

eras = pytest.mark.parametrize("era", ["legacy", "modern"])
TOOL_IS_ERROR = 5  # the inspector's exit code for a result with isError


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve a world over HTTP while the tests of this module run."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(World().serving()) as url,
    ):
        yield url


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest, url: str) -> tuple[list[str], list[str]]:
    """Return how the inspector is told of a server: options before the method, and what stands at the end."""
    if request.param == "http":
        return ["--server-url", url, "--transport", "http"], []
    return [], ["--", sys.executable, str(Path(world_module.__file__)), *sorted(Scope)]


def result(output: str) -> dict[str, Any]:
    """Return the result in the inspector's first line; an error object follows it where the tool failed."""
    found: dict[str, Any] = json.loads(output.splitlines()[0])["result"]
    return found


@eras
def test_the_tool_is_listed_without_a_warning(run: Run, target: tuple[list[str], list[str]], era: str) -> None:
    options, end = target
    ended = run(
        "mcp-inspector", "--cli", *options, "--protocol-era", era, "--method", "tools/list", "--strict", "--format",
        "json", *end,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    [tool] = result(ended.stdout)["tools"]
    assert tool["name"] == TOOL_NAME
    assert tool["_meta"][GRAMMAR_KEY]["definition"] == copy_for(frozenset(Scope)).text
    assert "warnings" not in ended.stderr


@eras
@pytest.mark.parametrize(
    ("program", "ending"),
    [
        (SAMPLE, ("completed", 0)),
        ('TRY { PING "gone.internal" } CATCH { GET_STATUS "ledger" }', ("contained", 0)),
        ('PING "gone.internal"', ("failed", TOOL_IS_ERROR)),
        ("PNIG", ("refused", TOOL_IS_ERROR)),
    ],
    ids=["completed", "contained", "failed", "refused"],
)
def test_a_program_is_run(
    run: Run, target: tuple[list[str], list[str]], era: str, program: str, ending: tuple[str, int]
) -> None:
    options, end = target
    ended = run(
        "mcp-inspector", "--cli", *options, "--protocol-era", era, "--method", "tools/call", "--tool-name", TOOL_NAME,
        "--tool-args-json", json.dumps({"program": program}), "--format", "json", *end,
    )  # fmt: skip
    assert (result(ended.stdout)["structuredContent"]["status"], ended.returncode) == ending, ended.stderr

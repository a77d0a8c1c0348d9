"""The MCP Inspector, which is a client of the TypeScript SDK, as people use it from a shell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for
from guideway.server.describe import GRAMMAR_KEY
from guideway.server.publish import nameable
from guideway.server.tool import TOOL_NAME
from tests.interop.conftest import Run
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


def over_http(url: str) -> list[str]:
    """Return how the inspector is told to use HTTP."""
    return ["--server-url", url, "--transport", "http"]


def over_stdio(folder: Path) -> list[str]:
    """Return how the inspector is told to start a server for itself: what stands at the end of its command line."""
    command = World().command(folder)
    return ["--", command.command, *command.args]


def listing(era: str) -> list[str]:
    """Return the command that lists the tools and holds their schemas against what clients of all kinds can read."""
    return ["mcp-inspector", "--cli", "--protocol-era", era, "--method", "tools/list", "--strict", "--format", "json"]


def calling(era: str, program: str) -> list[str]:
    """Return the command that calls the tool."""
    arguments = ["--tool-name", TOOL_NAME, "--tool-args-json", json.dumps({"program": program})]
    return ["mcp-inspector", "--cli", "--protocol-era", era, "--method", "tools/call", *arguments, "--format", "json"]


def result(output: str) -> dict[str, Any]:
    """Return the result in the inspector's first line; an error object follows it where the tool failed."""
    found: dict[str, Any] = json.loads(output.splitlines()[0])["result"]
    return found


@eras
def test_the_tool_is_listed_without_a_warning(run: Run, url: str, era: str) -> None:
    ended = run(*listing(era), *over_http(url))
    assert ended.returncode == 0, ended.stderr
    [tool] = result(ended.stdout)["tools"]
    assert tool["name"] == TOOL_NAME
    assert (
        tool["_meta"][GRAMMAR_KEY]["definition"]
        == copy_for(frozenset(Scope), names=nameable(World().pipeline.inventory)).text
    )
    assert "warnings" not in ended.stderr


@eras
@pytest.mark.parametrize(
    ("program", "ending"),
    [
        (SAMPLE, ("completed", 0)),
        ('PING "gone.internal"', ("failed", TOOL_IS_ERROR)),
        ("PNIG", ("refused", TOOL_IS_ERROR)),
    ],
    ids=["completed", "failed", "refused"],
)
def test_a_program_is_run(run: Run, url: str, era: str, program: str, ending: tuple[str, int]) -> None:
    ended = run(*calling(era, program), *over_http(url))
    assert (result(ended.stdout)["structuredContent"]["status"], ended.returncode) == ending, ended.stderr


@eras
def test_a_program_is_run_over_stdio(run: Run, tmp_path: Path, era: str) -> None:
    ended = run(*calling(era, SAMPLE), *over_stdio(tmp_path))
    assert (result(ended.stdout)["structuredContent"]["status"], ended.returncode) == ("completed", 0), ended.stderr

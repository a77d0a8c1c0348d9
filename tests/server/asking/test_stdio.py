"""A process over standard input and output: there is no page, so its person answers in a form, or in the shell."""

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.server.asking.world import call, ending, text
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
GUIDEWAY = str(Path(sys.executable).with_name("guideway"))

CONFIGURATION = """
caller = "me"
callers.me.scopes = ["mcp:diag:read", "mcp:diag:write"]
callers.boss.scopes = ["mcp:diag:approve"]
store.folder = "store"
hosts."api.internal".probe = "memory"

[services.database]
driver = "memory"
settle_seconds = 0.01
"""
OWN = '[approvals]\nown_requests = true\nform = ["local"]\n'


@asynccontextmanager
async def connected(folder: Path, era: Era, configuration: str, answer: Any = None) -> AsyncIterator[Client]:
    """Start a server in a process of its own, and connect the official client."""
    file = folder / "guideway.toml"
    file.write_text(configuration)
    command = StdioServerParameters(command=GUIDEWAY, args=["serve", "--stdio", "--config", str(file)])
    with tempfile.TemporaryFile("w+") as log:
        async with Client(stdio_client(command, errlog=log), mode=era, elicitation_callback=answer) as client:
            yield client


@eras
async def test_a_form_lets_it_run_and_the_key_is_kept(tmp_path: Path, era: Era) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params)
        return types.ElicitResult(action="accept", content={"approve": True})

    async with connected(tmp_path, era, CONFIGURATION + OWN, answer) as client:
        assert ending(await call(client)) == "completed"
    assert [params.mode for params in asked] == ["form"]
    assert (tmp_path / "store" / "request-state" / "keys").exists() == (era != "legacy")


@eras
async def test_else_the_shell_is_named_and_does_it(tmp_path: Path, era: Era) -> None:
    async with connected(tmp_path, era, CONFIGURATION) as client:
        waiting = await call(client)
        assert ending(waiting) == "approval_required"
        ticket = waiting.structured_content["refusal"]["approval"]["ticket"]
        assert f"guideway approvals approve {ticket}\n" in text(waiting)
        file = str(tmp_path / "guideway.toml")
        approve = [
            GUIDEWAY,
            "approvals",
            "approve",
            ticket,
            "--as",
            "boss",
            "--config",
            file,
            "--reason",
            "go on",
            "--yes",
        ]
        await anyio.run_process(approve)
        assert ending(await call(client, token=ticket)) == "completed"

"""What docs/mcp.md shows of approvals is what comes."""

import json
import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from guideway.dsl.errors import Code
from guideway.server.tool import TOOL_NAME
from tests.server.asking.world import Approving, Desk, call
from tests.server.oauth.door import bearer, message

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
CHAPTER = PAGE.split("\n## Approvals\n")[1].split("\n## ")[0]
RESULT, REQUEST, FORM, REFUSAL, NEXT = (
    json.loads(shown) for shown in re.findall(r"^```jsonc\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL)
)


def shape(value: Any) -> Any:
    """Return a message without what differs each time."""
    match value:
        case dict():
            varies = {"ticket", "expires_at", "url", "requestState", "elicitationId"}
            return {
                re.sub("^approval-.*", "approval-", key): type(item) if key in varies else shape(item)
                for key, item in value.items()
                if key != "_meta"
            }
        case list():
            return [shape(item) for item in value]
        case _:
            return value


async def test_the_messages_are_what_comes(tmp_path: Path) -> None:
    desk = Desk(Approving(tmp_path / "page", own_requests=True), forms=["laptop"])
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        return types.ElicitResult(action="cancel")

    program = NEXT["program"]
    async with desk.open():
        body, headers = message("tools/call", name=TOOL_NAME, arguments={"program": program})
        body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"url": {}}}
        told = await desk.http.post("/mcp", json=body, headers=headers | bearer("mona"))
        assert shape(told.json()["result"]) == shape(RESULT)
        async with desk.client("legacy", answer) as client:
            refused = await call(client, program)
        assert shape(refused.structured_content["refusal"]) == shape(REFUSAL)
        desk.world.server._asking.page = None
        async with desk.client("legacy", answer) as client:
            await call(client, program)
    assert [shape(params) for params in asked] == [shape(REQUEST["params"]), shape(FORM["params"])]


def test_every_code_of_an_approval_is_explained() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|(.*?)\|", CHAPTER, re.MULTILINE))))
    assert {code for code in Code if code.startswith("approval_")} <= told
    assert {Code.NOBODY_TO_ASK, Code.FROZEN, Code.STORE_UNAVAILABLE} <= told

"""The conformance suite of the MCP project, on what each protocol revision requires of a server."""

import json
import re
import tomllib
from pathlib import Path

import anyio.to_thread
import pytest

from tests.interop.conftest import Run
from tests.server.world import World

BASELINE = Path(__file__).with_name("conformance.toml")
FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT.*")
MUST_RUN = {
    "2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-session-lifecycle"},
    "2026-07-28": {"server-stateless", "tools-list", "dns-rebinding-protection", "caching", "http-header-validation"},
}


@pytest.mark.anyio
@pytest.mark.parametrize("revision", MUST_RUN)
async def test_whatever_is_not_in_the_baseline_passes(run: Run, tmp_path: Path, revision: str) -> None:
    results = tmp_path / "results"
    command = ("conformance", "server", "--requirements", revision, "--output-dir", results)
    async with World().serving() as url:
        ended = await anyio.to_thread.run_sync(run, *command, "--url", url)
    failed: dict[str, str] = {}
    scenarios: set[str] = set()
    for file in results.glob("*/checks.json"):
        folder = FOLDER.fullmatch(file.parent.name)
        assert folder is not None
        scenarios.add(folder["scenario"])
        for check in json.loads(file.read_text()):
            if check["status"] == "FAILURE":
                failed[f"{folder['scenario']}/{check['id']}"] = check.get("errorMessage", "")
    assert scenarios >= MUST_RUN[revision], ended.stdout + ended.stderr
    expected = {
        check
        for group in tomllib.loads(BASELINE.read_text())["expected"]
        if revision in group["revisions"]
        for check in group["checks"]
    }
    assert {check: why for check, why in failed.items() if check not in expected} == {}
    assert expected - set(failed) == set(), "these pass now: take them out of the baseline"

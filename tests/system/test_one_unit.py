"""One program of a supervisord under several names, also of two tenants: it is never restarted twice at once."""

import re
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from tests.system.supervisord import Supervisord

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Outcome, Report
from guideway.server import config, wiring

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

SETTLE = 0.3
BOTH = frozenset({Scope.READ, Scope.WRITE})
ENTRY = """
[{owner}services."{name}"]
driver = "supervisord"
socket = "{socket}"
program = "{program}"
impact = "low"
reversibility = "easy"
settle_seconds = {settle}
"""


async def test_names_of_one_unit_are_restarted_one_after_the_other_in_several_processes_too(tmp_path: Path) -> None:
    with Supervisord({"web": ["sleep", "1000"]}, {"web": {"stopwaitsecs": "1"}}) as supervisord:
        supervisord.run("web")
        file = tmp_path / "guideway.toml"
        named = [("", "web", "web"), ("", "front", "web:web"), ("tenants.acme.", "ours", "web"), ("", "any-*", "{1}")]
        file.write_text(
            f'[store]\nfolder = "{tmp_path}/store"\n'
            + "".join(
                ENTRY.format(owner=owner, name=name, program=program, settle=SETTLE, socket=supervisord.socket)
                for owner, name, program in named
            )
        )
        # Two pipelines stand for two processes: what they share is the store.
        pipelines = [wiring.build(config.load(file)) for _ in range(2)]
        reports: list[Report] = []

        async def restart(number: int, name: str) -> None:
            caller = Principal("me", BOTH, tenant="acme" if name == "ours" else None)
            reports.append(await pipelines[number].run(f'RESTART "{name}"', caller))

        async with anyio.create_task_group() as tasks:
            for number, name in enumerate(("web", "front", "ours", "any-web")):
                tasks.start_soon(restart, number % 2, name)
        for pipeline in pipelines:
            await pipeline.close()
        log = (supervisord.folder / "supervisord.log").read_text()
    spawned = re.findall(r"^(.{23}) \w+ spawned: 'web'", log, re.MULTILINE)
    steps = [step for report in reports for step in report.steps]
    assert [step.outcome for step in steps] == [Outcome.OK] * 4, steps
    assert sum("waited" in (step.message or "") for step in steps) == 3
    times = [datetime.strptime(each, "%Y-%m-%d %H:%M:%S,%f") for each in spawned]  # noqa: DTZ007  # all of one clock
    assert len(times) == 5
    assert min(later - sooner for sooner, later in pairwise(times[1:])) >= timedelta(seconds=SETTLE)  # each was watched

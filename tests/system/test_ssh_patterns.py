"""A fleet of machines by a pattern, on a real sshd with many addresses: few connections, and known keys alone."""

from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from tests.system.sshd import ME, Sshd, public
from tests.system.supervisord import Supervisord, wait_for

from guideway.dsl.scopes import Scope
from guideway.interpreter.fleet import Fleet
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Reason
from guideway.server import config, wiring

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

OPERATOR = Principal("operator", frozenset({Scope.READ, Scope.WRITE}))
MACHINES = 6


def fleet_of(sshd: Sshd, socket: Path, folder: Path) -> Pipeline:
    file = folder / "guideway.toml"
    file.write_text(f"""
    [ssh."far-*"]
    host = "127.0.0.{{1}}"
    port = {sshd.port}
    user = "{ME}"
    key_file = "{sshd.key}"
    known_hosts = "{sshd.known_hosts}"
    [services."*@far-*"]
    driver = "supervisord"
    ssh = "far-{{2}}"
    socket = "{socket}"
    program = "{{1}}"
    impact = "low"
    reversibility = "easy"
    settle_seconds = 0
    """)
    return wiring.build(config.load(file))


def listening_at_many() -> Sshd:
    """Return an sshd that is as many machines, of which it is known that they have its key, and one more."""
    sshd = Sshd()
    addresses = range(1, MACHINES + 2)
    more = "".join(f"ListenAddress 127.0.0.{number}:{sshd.port}\n" for number in addresses if number > 1)
    (sshd.folder / "config").write_text((sshd.folder / "config").read_text() + more)
    known = [f"[127.0.0.{number}]:{sshd.port} {public(sshd.folder / 'host')}" for number in range(1, MACHINES + 1)]
    sshd.known_hosts.write_text("".join(known))
    return sshd


async def test_machines_of_a_pattern_keep_few_connections_and_give_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "Fleet", partial(Fleet, most=2, idle_seconds=2.0))
    with listening_at_many() as sshd, Supervisord({"p": ["sleep", "1000"]}) as world:
        pipeline = fleet_of(sshd, world.socket, tmp_path)
        for number in range(1, MACHINES + 1):
            report = await pipeline.run(f'RESTART "p@far-{number}" GET_STATUS "p@far-{number}"', OPERATOR)
            assert report.status == "completed", report
        assert sshd.accepted() == MACHINES  # one connection for each machine, whatever is asked there
        await anyio.to_thread.run_sync(lambda: wait_for(lambda: sshd.connections() <= 2, "all but two to be closed"))
        await anyio.to_thread.run_sync(lambda: wait_for(lambda: sshd.connections() == 0, "idle ones to be closed"))
        assert (await pipeline.run('GET_STATUS "p@far-1"', OPERATOR)).status == "completed"
        assert sshd.accepted() == MACHINES + 1
        await pipeline.close()
        await anyio.to_thread.run_sync(lambda: wait_for(lambda: sshd.connections() == 0, "the last to be closed"))


async def test_a_machine_of_a_pattern_whose_key_is_not_known_is_not_spoken_with(tmp_path: Path) -> None:
    with listening_at_many() as sshd, Supervisord({"p": ["sleep", "1000"]}) as world:
        pipeline = fleet_of(sshd, world.socket, tmp_path)
        report = await pipeline.run(f'GET_STATUS "p@far-{MACHINES + 1}"', OPERATOR)
        (step,) = report.steps
        assert step.reason is Reason.UNREACHABLE
        assert "is not in `known_hosts`" in (step.message or "")
        assert sshd.accepted() == 0
        await pipeline.close()

"""Where the store is, and what goes on where none can be had."""

from pathlib import Path

import pytest

from guideway.dsl.errors import Code
from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Status
from guideway.server import wiring
from guideway.server.config import Config, load
from guideway.server.state import NoStateError
from guideway.server.stores import NoStore, is_there, open_configured, store_folder

CALLER = Principal("me", frozenset({Scope.READ, Scope.WRITE}))
SERVICES = """
[callers.chief]
scopes = ["mcp:diag:approve"]
[services.plain]
driver = "memory"
impact = "low"
reversibility = "easy"
settle_seconds = 0
[services.counted]
driver = "memory"
impact = "high"
reversibility = "easy"
settle_seconds = 0
"""


def read(tmp_path: Path, text: str = SERVICES) -> Config:
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    return load(file)


def test_the_folder_is_the_configured_one_then_systemds_then_the_persons(tmp_path: Path) -> None:
    named = read(tmp_path, '[store]\nfolder = "kept"\n')
    systemd = {"STATE_DIRECTORY": "/var/lib/guideway:/var/lib/other", "HOME": "/home/me"}
    assert store_folder(named, systemd) == tmp_path / "kept"
    plain = read(tmp_path, "")
    assert store_folder(plain, systemd) == Path("/var/lib/guideway")
    assert store_folder(plain, {"HOME": "/home/me"}) == Path("/home/me/.local/state/guideway/store")
    assert store_folder(plain, {"STATE_DIRECTORY": "here", "XDG_STATE_HOME": "/s"}) == Path("/s/guideway/store")
    with pytest.raises(NoStateError):
        store_folder(plain, {"HOME": "nowhere"})


def test_nothing_is_made_until_a_program_needs_it(tmp_path: Path) -> None:
    config = read(tmp_path, '[store]\nfolder = "kept"\n')
    wiring.build(config)
    assert not is_there(config)
    assert [path.name for path in tmp_path.iterdir()] == ["guideway.toml"]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("", "HOME is no absolute path, and what is kept would land in the current folder; HOME or .*, or name a `fol"),
        ('[store]\nurl_env = "NO_SUCH_VARIABLE"\n', r"what `url_env` of \[store\] names is empty or not set"),
        (
            '[store]\nurl_file = "gone"\n',
            r"what `url_file` of \[store\] names cannot be read: no such file or directory",
        ),
    ],
)
@pytest.mark.anyio
async def test_a_store_that_cannot_be_had_says_why_when_it_is_needed(tmp_path: Path, table: str, why: str) -> None:
    records, leases = open_configured(read(tmp_path, table), {"HOME": "nowhere"})
    with pytest.raises(StoreUnavailable, match=why):
        await records.ticket("x", 0.0)
    with pytest.raises(StoreUnavailable, match=why):
        async with leases.hold([], "run", 0.0):
            pytest.fail("it was held")


@pytest.mark.anyio
async def test_without_a_store_reads_go_on_only_if_configured_and_nothing_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "nowhere")
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    strict = wiring.build(read(tmp_path))
    refused = await strict.run('GET_STATUS "plain"', CALLER)
    assert refused.refusal is not None
    assert refused.refusal.code is Code.AUDIT_UNAVAILABLE
    await strict.close()
    pipeline = wiring.build(read(tmp_path, SERVICES + "[audit]\nreads_without_trail = true\n"))
    assert isinstance(pipeline.gate.records, NoStore)
    assert (await pipeline.run('GET_STATUS "plain"', CALLER)).status is Status.COMPLETED
    report = await pipeline.run('RESTART "plain"', CALLER)
    assert report.refusal is not None
    assert report.refusal.code is Code.AUDIT_UNAVAILABLE
    assert not report.steps
    counted = await pipeline.run('RESTART "counted"', CALLER)
    assert counted.refusal is not None
    assert counted.refusal.code is Code.STORE_UNAVAILABLE
    await pipeline.close()


@pytest.mark.anyio
async def test_two_processes_count_together(tmp_path: Path) -> None:
    config = read(tmp_path, f'{SERVICES}restarts_per_hour = 1\ncooldown_seconds = 0\n[store]\nfolder = "kept"\n')
    one, other = wiring.build(config), wiring.build(config)
    assert (await one.run('RESTART "counted"', CALLER)).status is Status.COMPLETED
    report = await other.run('RESTART "counted"', CALLER)
    assert report.refusal is not None
    assert report.refusal.code is Code.APPROVAL_REQUIRED
    assert is_there(config)
    for pipeline in (one, other):
        await pipeline.close()

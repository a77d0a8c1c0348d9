"""The keys that seal what a question leaves with its client: made once, agreed on, rotated, and nobody else's."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from guideway.server import config
from guideway.server.config_errors import ConfigError
from guideway.server.request_state import configured_keys, kept_keys, keys_in, keys_note
from guideway.server.sign_in.errors import StorageError

FIRST, SECOND = "1" * 64, "2" * 64


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    [key] = kept_keys(tmp_path)()
    assert len(key) == 64
    assert kept_keys(tmp_path)() == [key]
    [kept] = (tmp_path / "request-state").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.anyio
async def test_starts_at_the_same_instant_agree(tmp_path: Path) -> None:
    found: list[str] = []

    async def start() -> None:
        found.extend(await to_thread.run_sync(lambda: list(kept_keys(tmp_path)())))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(start)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    kept_keys(tmp_path)()
    (tmp_path / "request-state" / "keys").chmod(0o644)
    with pytest.raises(StorageError):
        kept_keys(tmp_path)()


def test_keys_are_rotated_without_a_gap() -> None:
    old, both, new = (
        AESGCMRequestStateCodec(keys_in(text, "it")) for text in (FIRST, f"{SECOND} {FIRST}", f"{SECOND}\n")
    )
    assert both.unseal(old.seal(b"asked before")) == b"asked before"
    assert new.unseal(both.seal(b"asked between")) == b"asked between"
    with pytest.raises(InvalidRequestState):
        new.unseal(old.seal(b"asked before"))


def configured(folder: Path, text: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    path = folder / "guideway.toml"
    path.write_text(text)
    return list(configured_keys(config.load(path), environment)())


def test_the_configuration_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{SECOND} {FIRST}\n")
    keys.chmod(0o600)
    assert configured(tmp_path, '[approvals]\nstate_keys_file = "keys.txt"\n') == [SECOND, FIRST]
    monkeypatch.setenv("STATE_KEYS", FIRST)
    assert configured(tmp_path, '[approvals]\nstate_keys_env = "STATE_KEYS"\n') == [FIRST]
    for wrong, said in (("short", "shorter than 32 bytes"), (f"{FIRST} {FIRST}", "twice"), ("", "is empty")):
        monkeypatch.setenv("STATE_KEYS", wrong)
        with pytest.raises(ConfigError, match=said) as caught:
            configured(tmp_path, '[approvals]\nstate_keys_env = "STATE_KEYS"\n')
        assert FIRST not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[store]\nurl_env = "DATABASE"\n', True),
        ('[store]\nurl_env = "DATABASE"\n[approvals]\nstate_keys_env = "KEYS"\n', False),
        ('[store]\nfolder = "kept"\n', False),
    ],
)
def test_replicas_without_a_key_in_common_are_told(tmp_path: Path, text: str, told: bool) -> None:
    path = tmp_path / "guideway.toml"
    path.write_text(text)
    assert ("state_keys_file" in (keys_note(config.load(path)) or "")) == told


def test_else_they_are_beside_the_store(tmp_path: Path) -> None:
    [key] = configured(tmp_path, '[store]\nfolder = "kept"\n')
    assert kept_keys(tmp_path / "kept")() == [key]
    own = {"XDG_STATE_HOME": str(tmp_path / "person")}
    [key] = configured(tmp_path, '[store]\nurl_env = "DATABASE"\n', own)
    assert kept_keys(tmp_path / "person" / "guideway")() == [key]

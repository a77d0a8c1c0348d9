"""Where tokens and keys are kept: not in the current folder, and not below one that others can change."""

import os
from pathlib import Path

import pytest

from guideway.server.development_issuer.folder import StateError, default_folder, open_folder
from guideway.server.sign_in.errors import StorageError
from guideway.server.sign_in.store import standard_store
from guideway.server.state import state_folder
from tests.server.sign_in.entries import entry


@pytest.mark.parametrize("home", ["here", ".", "./a", "~"])
def test_a_relative_home_is_refused(home: str) -> None:
    """`HOME=. guideway login` in /tmp kept the tokens, and took its keys from, what anybody had put there."""
    environment = {"HOME": home, "XDG_STATE_HOME": "there", "GUIDEWAY_TOKENS": "file"}
    with pytest.raises(StorageError, match="HOME is no absolute path") as tokens:
        standard_store(environment)
    with pytest.raises(StateError, match="HOME is no absolute path") as keys:
        default_folder(environment)
    assert tokens.value.help == keys.value.help
    assert "XDG_STATE_HOME" in (keys.value.help or "")


def test_where_no_home_is_named_it_is_the_users_own() -> None:
    assert state_folder({}).is_absolute()
    assert state_folder({"HOME": "here", "XDG_STATE_HOME": "/var/state"}) == Path("/var/state/guideway")


@pytest.mark.parametrize("kind", ["tokens", "issuer"])
def test_no_folder_that_is_made_is_open_to_others_whatever_the_umask(tmp_path: Path, kind: str) -> None:
    """Who can write the folder above puts one of their own in its place, with a client, or a key, that they know."""
    environment = {"HOME": str(tmp_path / "home"), "GUIDEWAY_TOKENS": "file"}
    before = os.umask(0)
    try:
        if kind == "tokens":
            standard_store(environment).write(entry())
        else:
            open_folder(default_folder(environment))
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 5
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}

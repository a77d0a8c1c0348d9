"""What a person sees where the programs of other people cannot be installed."""

import os
import shutil
from pathlib import Path

import pytest

from tests.interop.conftest import install


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing; the other tests here fail for that in CI")
def test_a_failed_installation_says_what_npm_said(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "nothing", "private": true}')
    with pytest.raises(pytest.fail.Exception) as failed:
        install(tmp_path)  # npm wants a lock file
    assert "EUSAGE" in str(failed.value)
    assert "package-lock.json" in str(failed.value)


def test_an_installation_that_fails_once_is_tried_again_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """npm has ended with ENOTEMPTY on what it had put there itself."""
    programs, place = tmp_path / "bin", tmp_path / "place"
    programs.mkdir()
    place.mkdir()
    npm = programs / "npm"
    npm.write_text(
        f"#!/bin/sh\ncd {place} || exit 9\nif mkdir tried 2>/dev/null; then mkdir node_modules; exit 217; fi\n"
        "mkdir node_modules && touch node_modules/installed\n"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    install(place)
    assert (place / "node_modules" / "installed").exists()

"""The programs of other people are there once, also where many ask for them; what prevents that is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import npm
from tests.interop.npm import NotInstalledError, install


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a lock file."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "package-lock.json").write_text("{}")
    return place


@pytest.fixture
def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    """The file of an npm that does, in the folder, what a test writes into it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "npm"
    program.write_text(f"#!/bin/sh\ncd {place} || exit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return program


def say(program: Path, script: str) -> None:
    program.write_text(program.read_text() + script)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing; the other tests here fail for that in CI")
def test_a_failed_installation_says_what_npm_said(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "nothing", "private": true}')
    with pytest.raises(NotInstalledError) as failed:
        install(tmp_path)  # npm wants a lock file
    assert "EUSAGE" in str(failed.value)
    assert "package-lock.json" in str(failed.value)


def test_one_that_fails_once_is_tried_again_from_nothing(place: Path, fake_npm: Path) -> None:
    say(
        fake_npm,
        "if mkdir tried 2>/dev/null; then mkdir node_modules; exit 217; fi\n"
        "mkdir node_modules && touch node_modules/.package-lock.json\n",
    )
    install(place)
    assert (place / "node_modules" / ".package-lock.json").exists()


def test_one_that_fails_each_time_tells_all_that_was_said_first(place: Path, fake_npm: Path) -> None:
    say(fake_npm, "echo again >> tried; seq 1 500; echo the reason of time $(wc -l < tried) >&2; exit 217\n")
    with pytest.raises(NotInstalledError, match="ended with 217:\n1\n2\n") as failed:
        install(place)
    assert "\n500\nthe reason of time 1\nThat was the first of 3 times." in str(failed.value)
    assert (place / "tried").read_text() == "again\n" * 3


def test_of_several_processes_one_installs_and_the_others_wait(place: Path, fake_npm: Path) -> None:
    """Two npm in one folder remove what the other has put there; one of them ends with ENOTEMPTY."""
    say(
        fake_npm,
        "echo once >> tried; mkdir node_modules || exit 217; sleep 0.3; touch node_modules/.package-lock.json\n",
    )
    script = f"import sys; sys.path.insert(0, {str(Path(npm.__file__).parent)!r}); import npm, pathlib\n"
    script += f"npm.install(pathlib.Path({str(place)!r}))\n"
    asking = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [one.wait(60) for one in asking] == [0, 0, 0]
    assert (place / "tried").read_text() == "once\n"

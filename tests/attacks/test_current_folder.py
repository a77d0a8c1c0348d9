"""Folders that lie in wait: a command is typed where somebody else put files that Python would take for its modules.

A cloned repository and /tmp are such folders. What a command starts takes no code from where it was started.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from guideway.server.demo.world import world

_MARK = """import os, pathlib
pathlib.Path({mark!r}).write_text(__name__)
os._exit(9)
"""
#: The modules that children of a command are started by, and some of those that these import.
_MODULES = ("webbrowser", "supervisor", "guideway", "shlex", "socket", "argparse", "encodings")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder full of modules; return the file that any of them leaves."""
    here = tmp_path / "here"
    mark = tmp_path / "mark"
    for name in _MODULES:
        (here / name).mkdir(parents=True)
        (here / name / "__init__.py").write_text(_MARK.format(mark=str(mark)))
    monkeypatch.chdir(here)
    return mark


_SEND = """
from guideway.server.sign_in.browser import Person
Person(print, opens=True, pastes=False).send("https://login.example.com/authorize", "sign in")
"""


def test_the_browser_is_not_opened_by_a_module_of_the_current_folder(
    mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`guideway login` in a cloned repository that has a `webbrowser.py`."""
    pipe = tmp_path / "opened"
    os.mkfifo(pipe)
    mark.symlink_to(pipe)  # whichever of the two runs, it writes there, and the wait has an end
    monkeypatch.setenv("BROWSER", f"sh -c {shlex.quote(f'echo it opened > {pipe}')} %s")
    subprocess.run([sys.executable, "-P", "-c", _SEND], check=True, timeout=60)
    assert pipe.read_text() == "it opened\n"


def test_the_demo_starts_no_module_of_the_current_folder(mark: Path) -> None:
    """`guideway demo` in a folder that has a `supervisor` or a `guideway` of its own: two processes deep."""
    with world():
        pass
    assert not mark.exists()

"""Every session of this folder, line by line."""

from pathlib import Path

import pytest

from tests.scripts.session import FOLDER, lay_out, matches, read, say

SESSIONS = sorted(FOLDER.glob("*.script"))


def test_there_are_sessions() -> None:
    assert len(SESSIONS) > 8


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_session(path: Path, tmp_path: Path) -> None:
    session = read(path)
    folder, home = tmp_path / "here", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    lay_out(session, folder)
    assert session.turns
    for turn in session.turns:
        written = say(turn.command, folder, home)
        fits = len(written) == len(turn.expected) and all(map(matches, written, turn.expected))
        assert fits or written == list(turn.expected), turn.command

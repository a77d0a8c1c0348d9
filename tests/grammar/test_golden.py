"""Copies as they are meant to look, and the diagram of the documentation."""

from pathlib import Path

import pytest
from tests.grammar.golden import ROOT, golden

FILES = list(golden())


@pytest.mark.parametrize(("path", "text"), FILES, ids=[path.name for path, _ in FILES])
def test_golden(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "see tests/grammar/golden.py"


def test_there_is_no_other_file() -> None:
    assert set((ROOT / "tests" / "golden" / "grammar").iterdir()) == {
        path for path, _ in FILES if "golden" in path.parts
    }

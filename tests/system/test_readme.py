"""The README is true to the letter: its output is what is printed, its configuration loads, its commands work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from guideway.dsl.parser import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
GUIDEWAY = Path(sys.executable).with_name("guideway")

# What differs from run to run: process ids, ports, the folder's name, times.
CHANGES = [
    (r"/tmp/guideway-\w+", "FOLDER"),  # noqa: S108  # a text to look for
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"process \d+", "process N"),
    (r"\d+\.\d+ (ms|s)\b", r"N \1"),
]


def without_changes(text: str) -> str:
    for pattern, instead in CHANGES:
        text = re.sub(pattern, instead, text)
    return text


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_demo_prints_what_the_readme_shows() -> None:
    shown = next(block for block in blocks("") if block.startswith("Four programs"))
    printed = subprocess.run([GUIDEWAY, "demo"], capture_output=True, text=True, check=True).stdout
    assert without_changes(printed) == without_changes(shown)


def test_the_script_is_a_program() -> None:
    script = next(block for block in blocks("") if block.startswith("TRY"))
    assert parse(script).statements


# Nothing of the README's configuration runs on this machine, so what asks for it says so and exits with 1.
EXITS = {"inventory check": 1, "check": 0, "plan": 0, "run": 1, "grammar": 0}


@pytest.mark.parametrize("words", EXITS)
def test_the_commands_work_as_written(words: str, tmp_path: Path) -> None:
    (tmp_path / "guideway.toml").write_text(blocks("toml")[0])
    (tmp_path / "incident.diag").write_text(next(block for block in blocks("") if block.startswith("TRY")))
    (line,) = (line for line in blocks("sh")[1].splitlines() if line.startswith(f"guideway {words} "))
    command = line.partition("#")[0].split()
    result = subprocess.run(
        [GUIDEWAY, *command[1:]], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == EXITS[words], result
    assert "Traceback" not in result.stderr

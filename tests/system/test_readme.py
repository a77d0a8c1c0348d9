"""The README is true to the letter: its output is what is printed, its configuration loads, its commands work."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scripts.terminal import on_terminal
from tests.server.sign_in.world import Shell, free_port

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


def test_what_a_newcomer_tries_in_two_shells_works_as_written(tmp_path: Path) -> None:
    """On free ports, with ``.venv`` and ``examples`` as they are in a clone; the browser is a program."""
    serve, use = (block for block in blocks("sh") if block.startswith(".venv/bin/guideway"))
    ports = {"8765": str(free_port()), "8766": str(free_port())}

    def here(text: str) -> str:
        return re.sub("8765|8766", lambda found: ports[found[0]], text)

    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "guideway").symlink_to(GUIDEWAY)
    file = tmp_path / "examples" / "try.toml"
    text = file.read_text().replace("[development_issuer]", f"[development_issuer]\nport = {ports['8766']}")
    file.write_text(f"{text}\n[server]\nport = {ports['8765']}\n")
    shell = Shell(tmp_path / "home")
    environment = shell.environment()
    with subprocess.Popen(
        here(serve).split(), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            told = [server.stderr.readline() for _ in range(3)]
            assert "serving" in told[0]
            assert "people approve at" in "".join(told)
            (code,) = (line.partition(" is ")[2].partition(",")[0] for line in told if " is " in line)
            shell.has_browser("alice", code=code)
            arguments = [line.split()[1:] for line in here(use).splitlines()]
            assert [words[0] for words in arguments] == ["login", "run", "run", "logout"]
            for words in arguments:
                with on_terminal(words, tmp_path, columns=400, **shell.environment()) as terminal:
                    assert terminal.wait_for_end() == 0, terminal.screen
                if words[1].endswith("01-api-down.diag"):
                    assert 'RESTART "database": is running' in terminal.screen
                    assert "this needs `mcp:diag:read`, `mcp:diag:write`" in terminal.screen
        finally:
            server.terminate()
        log = server.stderr.read()
    assert log.count('subject="alice"') == 3, "two runs, and one that needed more"


# Nothing of the README's configuration runs on this machine, so what asks for it says so and exits with 1.
EXITS = {"inventory check": 1, "check": 0, "plan": 0, "run": 1, "grammar": 0}


@pytest.mark.parametrize("words", EXITS)
def test_the_commands_work_as_written(words: str, tmp_path: Path) -> None:
    (tmp_path / "guideway.toml").write_text(blocks("toml")[0])
    (tmp_path / "incident.diag").write_text(next(block for block in blocks("") if block.startswith("TRY")))
    (block,) = (block for block in blocks("sh") if block.startswith("guideway inventory check"))
    (line,) = (line for line in block.splitlines() if line.startswith(f"guideway {words} "))
    command = line.partition("#")[0].split()
    result = subprocess.run(
        [GUIDEWAY, *command[1:]], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == EXITS[words], result
    assert "Traceback" not in result.stderr

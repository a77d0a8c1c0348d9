"""What docs/oauth.md shows is what happens: its configurations are read, and those for one machine are run."""

import os
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from guideway.server import config
from guideway.server.oauth.profiles import PROFILES

PAGE = (Path(__file__).parents[2] / "docs" / "oauth.md").read_text(encoding="utf-8")
CONFIGURATIONS = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SHELL = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVER, ISSUER = "8765", "8766"


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_the_configurations_are_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    assert config.load(file).asks_for_tokens


def test_every_profile_has_its_example() -> None:
    assert set(re.findall(r'^profile = "(\w+)"$', PAGE, re.MULTILINE)) == PROFILES.keys() - {"rfc9068"}


def test_the_development_issuer_is_served_and_gives_tokens_as_shown(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as one, closing(socket.create_server(("127.0.0.1", 0))) as two:
        ports = {SERVER: str(one.getsockname()[1]), ISSUER: str(two.getsockname()[1])}

    def here(text: str) -> str:
        return re.sub(f"{SERVER}|{ISSUER}", lambda found: ports[found[0]], text)

    settings = f"\n[server]\nport = {ports[SERVER]}\n"
    people = f"[development_issuer]\nport = {ports[ISSUER]}"
    text = CONFIGURATIONS[-1].replace("[development_issuer]", people)
    (tmp_path / "guideway.toml").write_text(text + settings)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    serve, *shown = here(SHELL[0]).splitlines()
    with subprocess.Popen(serve.split(), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            told = [server.stderr.readline().rstrip() for _ in shown]
            patterns = [re.escape(line.removeprefix("# ")).replace("7K2M\\-…", "[0-9A-Z-]+") for line in shown]
            for line, pattern in zip(told, patterns, strict=True):
                assert re.fullmatch(pattern, line), told
            (curl,) = (line for line in here(SHELL[1]).splitlines() if line.startswith("curl"))
            got = subprocess.run(
                ["bash", "-c", curl], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
            )
            assert "root ::=" in got.stdout, got
            assert "RESTART" not in got.stdout
        finally:
            server.terminate()

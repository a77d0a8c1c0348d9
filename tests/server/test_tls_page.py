"""What docs/tls.md shows is what happens: its commands are run one after the other, its configuration is read."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from guideway.server import config

PAGE = (Path(__file__).parents[2] / "docs" / "tls.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
        return number


def test_the_commands_do_what_the_page_says(tmp_path: Path, port: int) -> None:
    for program in ("openssl", "curl"):
        if shutil.which(program) is None:
            assert os.environ.get("CI") != "true", f"{program} is missing"
            pytest.skip(f"{program} is missing")
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    file, ran, answers = tmp_path / "guideway.toml", 0, 0
    with contextlib.ExitStack() as servers:
        for kind, block in BLOCKS:
            text = block.replace("8443", str(port))
            if kind == "toml":
                file.write_text(text)
            elif text.startswith("guideway serve"):
                servers.close()
                server = servers.enter_context(
                    subprocess.Popen(text.split(), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
                )
                servers.callback(server.terminate)
                assert server.stderr is not None
                told = server.stderr.readline()
                while "serving https://" not in told:
                    assert server.poll() is None, told
                    told = server.stderr.readline()
            else:
                for line in text.replace("\\\n", "").splitlines():
                    ended = subprocess.run(
                        ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                    )
                    assert ended.returncode == 0, f"{line}\n{ended.stderr}"
                    answers += "error: 404" in ended.stderr
            ran += kind == "sh"
    assert answers == 2, "with TLS, and with a client's certificate"
    assert ran == 6


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "toml"])
def test_the_configurations_are_read(tmp_path: Path, block: str) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(block)
    assert config.load(file).server.port

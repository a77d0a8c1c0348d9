"""An export is verified by those who have none of this program: as the page says, line by line."""

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from guideway.interpreter.audit.exported import lines
from tests.interpreter.trails import Memory, restarts, signer

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")
SHELL = next(block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "sha256sum" in block)
PYTHON = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "hashlib" in block)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an export, and the public key."""
    made = signer()
    trail = Memory(made).append(restarts(5))

    async def run() -> list[str]:
        assert trail.head is not None
        return [line async for line in lines(trail, trail.head)]

    (tmp_path / "trail.jsonl").write_text("".join(f"{line}\n" for line in anyio.run(run)))
    (tmp_path / "audit-public.pem").write_bytes(made.public.as_pem(private=False))
    return tmp_path


def shell(folder: Path) -> list[str]:
    ran = subprocess.run(["bash", "-c", SHELL], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return ran.stdout.splitlines()


def test_sha256sum_and_openssl_prove_the_end_of_an_export(folder: Path) -> None:
    digest, head, verified, payload = shell(folder)
    assert head == f'"hash":"{digest.split()[0]}"'
    assert verified == "Signature Verified Successfully"
    assert f'"hash":"{digest.split()[0]}"' in payload
    written = (folder / "trail.jsonl").read_text()
    (folder / "trail.jsonl").write_text(written.replace('"seal":"ey', '"seal":"eyJ9'))
    assert "Signature Verified Successfully" not in shell(folder)


def test_a_few_lines_of_python_prove_that_each_record_follows_the_one_before(folder: Path) -> None:
    command = [sys.executable, "-c", PYTHON]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.startswith("whole, up to 15 ")
    written = (folder / "trail.jsonl").read_text()
    (folder / "trail.jsonl").write_text(written.replace("service-3", "service-4"))
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode != 0
    assert "AssertionError" in ran.stderr

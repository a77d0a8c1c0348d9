"""What is published: a wheel that works where nothing else of this repository is."""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("dsl", "grammar", "interpreter", "server")
PROGRAM = 'PING "api.internal"\n'


def run(*command: str | Path, cwd: Path) -> str:
    return subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a clone that has no symbolic links, as some systems and archives make them."""
    clone = tmp_path_factory.mktemp("clone") / "guideway"
    clone.mkdir()
    for name in (*PACKAGES, "tests", "examples"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, clone)
    (clone / "src/guideway").mkdir(parents=True)
    for name in ("__init__.py", "py.typed"):
        shutil.copy(ROOT / "src/guideway" / name, clone / "src/guideway")
    run(sys.executable, "-m", "build", "--outdir", clone / "dist", cwd=clone)
    (built,) = (clone / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {
        f"guideway/{path.relative_to(ROOT)}"
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == files | {"guideway/__init__.py", "guideway/py.typed"}


def test_the_wheel_installs_into_a_clean_environment_and_its_command_works_there(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python, guideway = environment / "bin/python", environment / "bin/guideway"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    (tmp_path / "one.diag").write_text(PROGRAM)
    assert run(guideway, "--version", cwd=tmp_path).startswith("guideway ")
    assert run(guideway, "check", "one.diag", cwd=tmp_path) == ""
    assert "PING" in run(guideway, "grammar", "--scopes", "mcp:diag:read", cwd=tmp_path)
    (tmp_path / "guideway.toml").write_text(
        'caller = "me"\n[callers.me]\nscopes = ["mcp:diag:read"]\n[services.database]\ndriver = "memory"\n'
    )
    (tmp_path / "two.diag").write_text('GET_STATUS "database"\n')
    assert "running" in run(guideway, "run", "two.diag", cwd=tmp_path)

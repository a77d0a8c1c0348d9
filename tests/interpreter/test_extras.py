"""What says how to install more says it alike, and truly: from the repository, an extra that there is."""

import re
import tomllib
from pathlib import Path

import pytest

from guideway.interpreter.extras import install

ROOT = Path(__file__).parents[2]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
SOURCES = [path for package in ("dsl", "grammar", "interpreter", "server") for path in (ROOT / package).rglob("*.py")]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def test_every_extra_that_is_asked_for_is_there() -> None:
    asked = {name for path in SOURCES for name in re.findall(r"\binstall\(['\"](\w+)['\"]\)", path.read_text())}
    assert {"demo", "issuer", "keyring", "kubernetes", "model", "ssh", "systemd"} <= asked <= EXTRAS
    told = {name for path in PAGES for name in re.findall(r"'\.\[(\w+)\]'", path.read_text())}
    assert told <= EXTRAS
    assert "systemd" in told


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_says_that_a_package_is_published(path: Path) -> None:
    assert not re.search(r"""pip install( -\S+)* ['"]*guideway""", path.read_text())


def test_it_is_said_as_the_readme_does() -> None:
    assert install("ssh").startswith("pip install '.[ssh]'")
    assert "pip install ." in (ROOT / "README.md").read_text()

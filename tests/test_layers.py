"""The four packages import downward only, and the way that runs programs does not load what it does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout
    return set(out.split())


def test_imports_run_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_language_loads_the_standard_library_only() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("import guideway.dsl")}
    assert loaded - {"guideway"} <= sys.stdlib_module_names


@pytest.mark.parametrize("module", ["guideway.interpreter.pipeline", "guideway.interpreter.drivers"])
def test_what_runs_programs_loads_neither_lark_nor_the_published_grammar(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert not {name for name in loaded if name.startswith(("lark", "guideway.grammar", "guideway.server"))}


@pytest.mark.parametrize("module", ["guideway.interpreter.pipeline", "guideway.interpreter.store"])
def test_no_database_is_loaded_before_a_store_is_used(module: str) -> None:
    assert not {name for name in loaded_by(f"import {module}") if name.startswith(("sqlalchemy", "sqlite3", "psycopg"))}


def test_asking_for_no_grammar_loads_none() -> None:
    assert "lark" not in loaded_by("import guideway.grammar")


def test_a_command_is_loaded_without_looks_for_garbage() -> None:
    """They made a sixth of the time until a command begins. One, at the youngest, may come when all is there."""
    code = (
        "import gc; from guideway.server.cli.entry import load; looks = []\n"
        "gc.callbacks.append(lambda phase, _: looks.append(phase)); load('run')\n"
        "print(looks.count('start'), gc.isenabled())"
    )
    out = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout
    assert out in {"0 True\n", "1 True\n"}

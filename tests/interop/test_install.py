"""What a person sees where the programs of other people cannot be installed."""

import shutil
from pathlib import Path

import pytest

from tests.interop.conftest import install


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing; the other tests here fail for that in CI")
def test_a_failed_installation_says_what_npm_said(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "nothing", "private": true}')
    with pytest.raises(pytest.fail.Exception) as failed:
        install(tmp_path)  # npm wants a lock file
    assert "EUSAGE" in str(failed.value)
    assert "package-lock.json" in str(failed.value)

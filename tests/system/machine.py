"""What tests of real systems need of the machine. In CI it is installed where it is missing, or the test fails."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache

import pytest

PATHS = f"{os.environ['PATH']}:/usr/sbin:/sbin:/usr/lib/polkit-1:/usr/libexec"


def in_ci() -> bool:
    """Whether what is missing is a failure and not a reason to skip."""
    return os.environ.get("CI") == "true"


def program(name: str) -> str | None:
    """Return where a program is."""
    return shutil.which(name, path=PATHS)


def need(what: str, programs: Mapping[str, str], *, root: bool = True) -> None:
    """Skip the test where a program is missing, or root where that is needed; in CI install it, or fail.

    ``programs`` maps each to the Debian package that it is in.
    """
    packages = tuple(sorted({package for name, package in programs.items() if program(name) is None}))
    if packages and in_ci() and os.geteuid() == 0:
        install(*packages)
    lacks = ["root"] if root and os.geteuid() != 0 else []
    lacks += [f"{name} (apt-get install {package})" for name, package in programs.items() if program(name) is None]
    if lacks:
        (pytest.fail if in_ci() else pytest.skip)(f"{what} needs {', '.join(lacks)}")


@cache
def install(*packages: str) -> None:
    """Install packages; the list of what there is may be old, or missing, so that it is fetched where that failed."""
    install = ["install", "-qy", "--no-install-recommends", *packages]
    if _apt(*install).returncode != 0:
        _apt("update", "-q")
        ended = _apt(*install)
        if ended.returncode != 0:
            pytest.fail(f"apt-get {' '.join(install)} ended with {ended.returncode}:\n{ended.stdout[-4000:]}")


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Another process of the tests may be installing too.
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )

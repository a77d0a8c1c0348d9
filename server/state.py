"""Where a person's state is kept, and how its folders are made: never where somebody else may decide what is in it."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


class NoStateError(Exception):
    """The environment names no place for state. ``help`` is what to do."""

    help = "HOME or XDG_STATE_HOME names a folder, starting with `/`"


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return Guideway's folder in the person's state (XDG Base Directory Specification). Raises ``NoStateError``.

    A relative path would be looked for in the current folder, whoever that belongs to: none is followed.
    """
    state = environment.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "guideway"
    home = environment.get("HOME") or _home_of_user()
    if not home.startswith("/"):
        raise NoStateError("HOME is no absolute path, and what is kept would land in the current folder")
    return Path(home) / ".local" / "state" / "guideway"


def make_folder(path: Path) -> None:
    """Make a folder, and the missing ones above it, each for its owner alone. Raises ``OSError``.

    ``mkdir`` gives those above what the umask leaves: others could then put a folder of their own in this one's place.
    """
    for missing in reversed([each for each in path.parents if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container that runs as a number
        return ""

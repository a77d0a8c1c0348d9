"""The configuration's file: where it is looked for, and whom it is trusted from. What stands in it is ``config``'s."""

import codecs
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from guideway.server.config_errors import ConfigError, Problem

FILE_NAME: Final = "guideway.toml"
VARIABLE: Final = "GUIDEWAY_CONFIG"
SYSTEM_FOLDER: Final = Path("/etc/guideway")
MOST_BYTES: Final = 4 * 1024 * 1024


def find(explicit: str | None = None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration file: the one that is named, else the first of the usual places that has one.

    Raises ``ConfigError`` where a file in the current folder belongs to somebody else: whoever may write there could
    otherwise choose what this user restarts.
    """
    named = explicit or environment.get(VARIABLE)
    if named:
        return Path(named)
    here = Path(FILE_NAME)
    if here.is_file():
        for owner in (here.lstat().st_uid, here.stat().st_uid):  # a link is a choice of file too
            if owner not in (0, os.geteuid()):
                raise ConfigError(here, [Problem(f"belongs to user {owner}", help=f"name it with --config {here}")])
        return here
    users = (environment.get("XDG_CONFIG_HOME", ""), f"{environment.get('HOME', '')}/.config")
    # A relative one would be looked for in the current folder, whoever that belongs to.
    folders = [Path(folder, "guideway") for folder in users if folder.startswith("/")][:1]
    return next((path for base in (*folders, SYSTEM_FOLDER) if (path := base / FILE_NAME).is_file()), None)


def read(path: Path) -> str:
    """Return the text of a file that only who is trusted could write. Raises ``ConfigError``."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ConfigError(path, [Problem(f"cannot be read: {reason}")]) from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise ConfigError(path, [Problem("can be written by anybody", help=f"chmod o-w {path}")])
    if len(content) > MOST_BYTES:
        raise ConfigError(path, [Problem(f"is larger than {MOST_BYTES:,} bytes")])
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [Problem("is not UTF-8", line)]) from None

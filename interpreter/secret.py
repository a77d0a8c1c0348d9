"""A secret that the configuration names and does not hold: read from a file or from an environment variable."""

import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 4_096


def read_secret(file: Path | None, variable: str | None) -> str:
    """Return the secret of a file, else of a variable: one line, whose end is not part of it.

    Raises ``ValueError``: what is wrong with that file or variable, without its name.
    """
    text = _from_file(file) if file is not None else os.environ.get(variable or "", "")
    if not text:
        raise ValueError("is empty or not set")
    if len(text) > _MOST_BYTES or not text.isprintable():
        raise ValueError(f"holds no secret: it must be one line of at most {_MOST_BYTES:,} characters")
    return text


def read_key(file: Path | None, variable: str | None) -> str:
    """Return the text of a private key in a file, else in a variable: of PEM and JSON, in as many lines as it has.

    Raises ``ValueError``: what is wrong with that file or variable, without its name.
    """
    text = _from_file(file) if file is not None else os.environ.get(variable or "", "")
    if not text.strip():
        raise ValueError("is empty or not set")
    if len(text) > _MOST_BYTES:
        raise ValueError(f"holds no key: it has more than {_MOST_BYTES:,} characters")
    return text


def _from_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IRWXO:
        raise ValueError("can be read or written by anybody: chmod o= FILE")
    try:
        return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None

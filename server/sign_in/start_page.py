"""The page that a browser is started with: it leads on to the issuer, and only its owner can read where to.

The address of a sign-in has its state, and whoever has that can end it with a code of their own: the person would be
signed in as somebody else. The arguments of a process can be read by everybody on the machine, so the address is never
one of them.
"""

import html
import os
import tempfile
from pathlib import Path
from typing import Final

from guideway.server.sign_in.errors import StorageError

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Guideway</title><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<p><a href="{url}">Sign in</a></p></html>
"""


class StartPage:
    """A file of mode 0600 in a folder of its own of mode 0700. Raises ``StorageError`` where it cannot be made."""

    def __init__(self, url: str) -> None:
        """Write the page that leads to a URL."""
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="guideway-")
            path = Path(self._folder.name) / "sign-in.html"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(_PAGE.format(url=html.escape(url)))
        except OSError as error:
            raise StorageError(
                f"cannot write the page that opens the browser: {(error.strerror or type(error).__name__).lower()}",
                "TMPDIR names a folder for it; --no-browser does without",
            ) from None
        self.uri = path.as_uri()

    def remove(self) -> None:
        """Remove the page and its folder."""
        self._folder.cleanup()

"""Somebody who signs in: told where to go, sent there where this machine has a browser, and waited for.

Where it has none, over SSH say, the browser is elsewhere and cannot come back here: the person pastes the address that
it ended at.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

import anyio

from guideway.server.sign_in.errors import SignInError
from guideway.server.sign_in.redirect import Answer, Redirect
from guideway.server.sign_in.start_page import StartPage
from guideway.server.stdio import Input

_MINUTES: Final = 10


class Person:
    """``tell`` writes a line for them. ``opens`` a browser here, or else ``pastes`` what theirs ended at."""

    def __init__(self, tell: Callable[[str], None], *, opens: bool, pastes: bool) -> None:
        self._tell = tell
        self._opens = opens
        self._pastes = pastes and not opens
        self._page: StartPage | None = None

    def send(self, url: str, why: str) -> None:
        """Say why they are asked and where to go, and go there. ``forget`` is due once the sign-in has ended."""
        self._tell(f"{why}; {'the browser opens' if self._opens else 'open this in a browser'}:")
        self._tell(f"  {url}")
        if self._pastes:
            self._tell("a browser on another machine ends at an address that does not load: paste it here")
        if self._opens:
            self.forget()
            self._page = StartPage(url)
            _open(self._page.uri)

    def forget(self) -> None:
        """Leave nothing of where they were sent."""
        page, self._page = self._page, None
        if page is not None:
            page.remove()

    async def answer(self, redirect: Redirect, forgets: str | None = None) -> Answer:
        """Wait for what the issuer answers. Raises ``SignInError`` where that takes too long.

        ``forgets`` is the command after which the shell registers anew, where the issuer may not know its client.
        """
        self._tell(f"waiting for the browser to come back from there, {_MINUTES} minutes at most; Ctrl-C ends it")
        if forgets is not None:
            self._tell(f"if the page says that it does not know the client: Ctrl-C, `{forgets}`, and sign in again")
        answers: list[Answer] = []
        with anyio.move_on_after(_MINUTES * 60):
            async with anyio.create_task_group() as tasks:
                if self._pastes:
                    tasks.start_soon(self._read, redirect)
                answers.append(await redirect.answer())
                tasks.cancel_scope.cancel()
        if not answers:
            raise SignInError(
                f"nobody signed in within {_MINUTES} minutes",
                f"where the page showed an error, that says why; `{forgets}` has the client registered anew"
                if forgets
                else "where the page showed an error, that says why",
            )
        return answers[0]

    async def _read(self, redirect: Redirect) -> None:
        """Take lines of standard input until one is the answer; once it ends, the answer may still come here."""
        if sys.stdin is not None:  # as it is where the shell closed it
            async for line in Input(sys.stdin.fileno()):
                if redirect.paste(line):
                    return
                if line.strip():
                    self._tell(f"this is not it: it starts with {redirect.uri}? and is in the browser's address bar")
        self._tell(
            "standard input is at its end, so that nothing can be pasted: only a browser on this machine can answer"
        )


def has_browser(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether a browser with a window can be opened here; one that takes the terminal over is none."""
    return sys.platform == "darwin" or any(environment.get(key) for key in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def _open(page: str) -> None:
    """Open a page in the person's browser: by a process of its own, whose words do not get between ours."""
    subprocess.Popen(  # noqa: S603  # no shell; the URL is that of a file of ours
        [sys.executable, "-P", "-m", "webbrowser", page],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C here is not meant for it
    )

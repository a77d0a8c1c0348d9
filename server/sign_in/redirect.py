"""The loopback address that the browser comes back to (RFC 8252, section 7.3): one answer, then it is closed.

Anybody on this machine, and any page in the browser, can send something here. Only what carries the state of the
sign-in under way is an answer; all else is told so and changes nothing.
"""

import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from guideway.server.http_server import HttpServer
from guideway.server.listen import listen as listener
from guideway.server.sign_in.errors import WrongUsageError

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Connection": "close",
}
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Guideway</title>
<style>body {{ font: 1.1em/1.5 sans-serif; margin: 4em auto; max-width: 32em; padding: 0 1em }}</style>
<h1>{head}</h1><p>{body}</p></html>
"""
_CLOSE: Final = "You can close this page and go back to the terminal."


class Answer:
    """What an issuer sent the browser back with. ``code`` is None where it is an error (RFC 6749, section 4.1.2)."""

    __slots__ = ("code", "description", "error", "issuer", "state")

    def __init__(self, query: str) -> None:
        """Read a query. Raises ``ValueError`` for one that says a thing twice, which is nobody's answer."""
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
        said = dict(pairs)
        if len(said) != len(pairs):
            raise ValueError("a parameter stands there twice")
        self.state = said.get("state", "")
        self.code = said.get("code") or None
        self.issuer = said.get("iss")
        self.error = said.get("error") or None
        self.description = said.get("error_description") or None

    def __repr__(self) -> str:
        return f"Answer(error={self.error!r})"  # the rest are secrets for a few seconds


class Redirect:
    """The address, and the answer that comes to it or is pasted."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.uri = f"http://{HOST}:{port}{PATH}"
        self._state: str | None = None
        self._answer: Answer | None = None
        self._answered = anyio.Event()
        self._ended = anyio.Event()
        self._worked = False

    def expect(self, state: str) -> None:
        """Take the answer with this state, and no other, from here on."""
        self._state = state

    async def answer(self) -> Answer:
        """Wait for the answer."""
        await self._answered.wait()
        if self._answer is None:
            raise RuntimeError("there was no answer")
        return self._answer

    def end(self, *, worked: bool) -> None:
        """Let the browser's page say how the sign-in ended."""
        self._worked = worked
        self._ended.set()

    def close(self) -> None:
        """Let a page that still waits be told."""
        self._ended.set()

    def take(self, query: str) -> bool:
        """Take a query if it is the answer that is waited for; say whether it was."""
        try:
            answer = Answer(query)
        except ValueError:
            return False
        expected = self._state or ""
        ours = bool(expected) and secrets.compare_digest(answer.state.encode(), expected.encode())
        if not ours or self._answer is not None or (answer.code is None) == (answer.error is None):
            return False
        self._answer = answer
        self._answered.set()
        return True

    def paste(self, text: str) -> bool:
        """Take the address that a person copied out of the browser; say whether it was the answer."""
        return self.take(text.strip().partition("?")[2].partition("#")[0])

    async def page(self, request: Request) -> HTMLResponse:
        """Answer the browser, once it is known how the sign-in ended."""
        if request.headers.get("host") != f"{HOST}:{self.port}" or not self.take(request.url.query):
            return _page("Not the answer", "This is not the answer of the sign-in that the terminal waits for.", 400)
        await self._ended.wait()
        if self._worked:
            return _page("Signed in", _CLOSE, 200)
        return _page("Not signed in", "The terminal says why.", 400)


@asynccontextmanager
async def listen(port: int = 0, *, exactly: bool = False) -> AsyncIterator[Redirect]:
    """Listen on a port of 127.0.0.1; give the address.

    Where the port is taken it is a free one, or ``WrongUsageError`` where it must be ``exactly`` this.
    """
    with _bound(port, exactly=exactly) as sock:
        redirect = Redirect(sock.getsockname()[1])
        server = HttpServer(Starlette(routes=[Route(PATH, redirect.page, methods=["GET"])]), lifespan="off")
        stopped = anyio.Event()

        async def serve() -> None:
            try:
                await server.serve([sock])
            finally:
                stopped.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                yield redirect
            finally:
                redirect.close()
                server.should_exit = True
                with anyio.CancelScope(shield=True):  # the page is sent, also when the sign-in failed
                    await stopped.wait()


def _bound(port: int, *, exactly: bool) -> socket.socket:
    try:
        return _listens(port)
    except OSError as error:
        if exactly:
            reason = (error.strerror or type(error).__name__).lower()
            raise WrongUsageError(f"cannot listen on {HOST}:{port}: {reason}") from None
    return _listens(0)


def _listens(port: int) -> socket.socket:
    """Return a socket that listens already: two that were only bound could have one port."""
    sock = listener(HOST, port)
    try:
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


def _page(head: str, body: str, status: int) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(head=head, body=body), status, _HEADERS)

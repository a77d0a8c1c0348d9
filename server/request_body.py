"""How much a request may bring, and how long it may take to: settled once, before anything parses it.

Nothing is read before something behind asks for it, so a request that is turned away for its token is never read.
"""

from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS: Final = 10.0
"""Seconds that a request's whole body may take."""

_ENVELOPE: Final = 65_536
_LONGEST_ESCAPE: Final = 6


def most_bytes(program: int) -> int:
    """Return the longest body of a call, in bytes, where a program has at most ``program`` bytes.

    JSON may spell each byte of it as an escape of six; the rest is the call around it.
    """
    return _LONGEST_ESCAPE * program + _ENVELOPE


class RequestBodies:
    """ASGI middleware: gives a body in one piece. 413 for one of more than ``most`` bytes, 408 for one that is slow.

    To what is behind it, such a request ends as if its client had gone.
    """

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, send, self._most)
        try:
            await self._app(scope, body.give, body.answer)
        except ClientDisconnect:
            if not body.refused:
                raise


class _Body:
    """The body of one request, and whether it was refused: then only its refusal is sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._most = most
        self._whole = self._answered = self.refused = False

    async def give(self) -> Message:
        """Return the message with the whole body, then what comes after it."""
        if self._whole:
            return await self._receive()
        if not self.refused:
            found = await self._read()
            if not isinstance(found, Response):
                self._whole = True
                return found
            self.refused = True
            if not self._answered:
                await found(self._scope, self._receive, self._send)
        return {"type": "http.disconnect"}

    async def answer(self, message: Message) -> None:
        """Send an answer's message."""
        if not self.refused:
            self._answered = True
            await self._send(message)

    async def _read(self) -> Message | Response:
        """Return the message with the whole body, or that the client has gone; or the answer to what is too much."""
        body = bytearray()
        if int(Headers(scope=self._scope).get("content-length", "0")) > self._most:
            return self._too_long()
        with anyio.move_on_after(BODY_SECONDS):
            while True:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                body += message.get("body", b"")
                if len(body) > self._most:
                    return self._too_long()
                if not message.get("more_body", False):
                    return {"type": "http.request", "body": bytes(body), "more_body": False}
        return PlainTextResponse("the request took too long to come", 408, headers={"Connection": "close"})

    def _too_long(self) -> Response:
        return PlainTextResponse(f"the request is longer than {self._most} bytes", 413)

"""What is running when the server is to stop: what is waited for, what is turned away, and what is cut.

It never looks into a request. A call that is cut is not cancelled by that: who wants its report cancels it first.
"""

from contextlib import ExitStack, suppress

import anyio
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Calls:
    """ASGI middleware. Counts the calls that are running, and turns new ones away once the server is to stop.

    A call is a POST whose body has come whole. One whose body is still to come, and a stream that a client keeps open
    with GET, are never waited for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.running = 0
        self._closing = False
        self._idle = anyio.Event()
        self._open = set[anyio.CancelScope]()
        self._coming = set[anyio.CancelScope]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._closing and scope["method"] == "POST":
            await _stopping(scope, receive, send)
        else:
            await self._until_cut(scope, receive, send)

    async def _until_cut(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; where it is cut, end the answer that has begun, or say that the server is stopping."""
        begun = ended = False

        async def watch(message: Message) -> None:
            nonlocal begun, ended
            begun, ended = True, message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with ExitStack() as call, anyio.CancelScope() as cut:
            call.callback(self._open.discard, cut)
            self._open.add(cut)
            if scope["method"] == "POST":
                call.callback(self._coming.discard, cut)
                self._coming.add(cut)

            async def follow() -> Message:
                message = await receive()
                if cut in self._coming and not message.get("more_body", False):
                    self._coming.remove(cut)
                    self.running += 1
                    call.callback(self._end)
                return message

            with suppress(ClientDisconnect):  # in the midst of its own request: nobody is left to answer
                await self._app(scope, follow, watch)
        if cut.cancelled_caught and not begun:
            await _stopping(scope, receive, send)
        elif cut.cancelled_caught and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _end(self) -> None:
        self.running -= 1
        if self._closing and not self.running:
            self._idle.set()

    def turn_away(self) -> None:
        """Let no new call begin."""
        self._closing = True
        for coming in list(self._coming):
            coming.cancel()
        if not self.running:
            self._idle.set()

    def cut(self) -> None:
        """End whatever is open still."""
        for request in list(self._open):
            request.cancel()

    async def drain(self, seconds: float, hurry: anyio.Event) -> None:
        """Return when no call is running; at the latest after some seconds, or at an event."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:

                async def cut_short() -> None:
                    await hurry.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(cut_short)
                await self._idle.wait()
                tasks.cancel_scope.cancel()


_stopping = PlainTextResponse("the server is stopping", 503, headers={"Connection": "close"})

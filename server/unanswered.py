"""What a client over standard input has asked and was not answered: it is waited for when the server stops."""

from collections.abc import Hashable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from guideway.server.idle import Idle, drain

_Read = SessionMessage | Exception


class Unanswered:
    """Counts requests between the two streams of a connection, by their ids."""

    def __init__(self) -> None:
        self._ids = set[Hashable]()
        self._idle = Idle()

    def __len__(self) -> int:
        return len(self._ids)

    def reading(self, stream: ReadStream[_Read]) -> ReadStream[_Read]:
        """Return a stream whose requests are counted."""
        return _Reading(stream, self)

    def writing(self, stream: WriteStream[SessionMessage]) -> WriteStream[SessionMessage]:
        """Return the stream whose answers end them, once they are on their way."""
        return _Writing(stream, self)

    async def drain(self, seconds: float, hurry: anyio.Event) -> None:
        """Return when all were answered; at the latest after some seconds, or at an event."""
        await drain(self._idle.wait, seconds, hurry)

    def note(self, item: _Read) -> None:
        """Count what a message begins or ends. A request that its client cancels is answered no more."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
            self._idle.busy()
            return
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId"))
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(message.id)
        if not self._ids:
            self._idle.rest()


class _Reading:
    """Reads on, and notes what comes. It has the context that each message came in, as the SDK wants it."""

    def __init__(self, stream: ReadStream[_Read], unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> _Read:
        item = await self._stream.receive()
        if not (isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse | JSONRPCError)):
            self._unanswered.note(item)  # an answer here is to a question of the server's
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Read:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writing:
    """Writes on, and notes what is on its way."""

    def __init__(self, stream: WriteStream[SessionMessage], unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.note(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

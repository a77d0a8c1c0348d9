"""Health and readiness, for whoever starts servers and whoever sends them callers: ``ok``, or the name of what is not.

Asked without a token and under any name, because probes ask by address. So an answer says nothing else; the log says
why. Probes cannot load the store: what one look at it found is shared, and no two looks are under way.
"""

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from guideway.interpreter.records import Records, StoreUnavailable

LIVE: Final = "/livez"
READY: Final = "/readyz"
PATHS: Final = frozenset({LIVE, READY})

WAIT_SECONDS: Final = 1.5
"""Seconds that a look at the store may take: whoever asks is answered in two."""

SHARED_SECONDS: Final = 1.0
"""Seconds for which what a look found is told to others."""

_log: Final = logging.getLogger(__name__)


class Health:
    """Says whether this server can do its work, while it is entered.

    ``records`` is the store, None where there is none. ``stopping`` says whether the server is to stop, before it turns
    any call away. ``ticks`` is a clock that never goes back, in seconds.
    """

    def __init__(self, records: Records | None, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self.stopping: Callable[[], bool] = lambda: False
        self._records = records
        self._ticks = ticks
        self._tasks: TaskGroup | None = None
        self._look: _Look | None = None
        self._said: str | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What went wrong in the body is not the tasks' affair: a task group would wrap it.
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)

    async def what_is_not(self) -> str | None:
        """Return the name of what keeps this server from its work, None where nothing does."""
        if self.stopping():
            return "stopping"
        if self._records is None or self._tasks is None:
            return None
        look = self._look
        if look is None or (look.over.is_set() and self._ticks() - look.begun >= SHARED_SECONDS):
            look = self._look = _Look(self._ticks())
            self._tasks.start_soon(self._at_store, self._records, look)
        with anyio.move_on_after(look.begun + WAIT_SECONDS - self._ticks()):
            await look.over.wait()
        return "stopping" if self.stopping() else None if look.good else "store"

    async def _at_store(self, records: Records, look: "_Look") -> None:
        why = ""
        try:
            await records.check(time.time())
            look.good = True
        except StoreUnavailable as error:
            why = str(error)
        finally:
            look.over.set()
        if why != self._said:
            self._said = why
            if why:
                _log.error("not ready, the store: %s", why)
            else:
                _log.info("ready")


class _Look:
    """One look at the store: when it was begun, whether it is over, and what it found."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.over = anyio.Event()
        self.good = False


class Probes:
    """ASGI middleware that answers probes, before anything looks at who asks or counts them."""

    def __init__(self, app: ASGIApp, *, health: Health) -> None:
        self._app = app
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in PATHS:
            await self._app(scope, receive, send)
            return
        headers = {"Cache-Control": "no-store"}
        if scope["method"] not in ("GET", "HEAD"):
            answer = PlainTextResponse("Method Not Allowed", 405, headers=headers | {"Allow": "GET, HEAD"})
        elif (not_ok := await self._health.what_is_not() if scope["path"] == READY else None) is None:
            answer = PlainTextResponse("ok\n", headers=headers)
        else:
            answer = PlainTextResponse(f"not ok: {not_ok}\n", 503, headers=headers)
        await answer(scope, receive, send)

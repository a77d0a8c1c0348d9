"""The answers to what is too much: which bound it is, in plain words, and when to try again.

429 is for what a caller does, 503 for what the server can do no more of (RFC 6585, section 4; RFC 9110, section
15.6.4). The body is an error of JSON-RPC with the request's id, as the protocol has it for any request that fails; its
``code`` is the status, since the protocol reserves none for this.
"""

import math
from enum import StrEnum
from typing import Any, Final

from starlette.responses import JSONResponse, Response

LONGEST_RETRY: Final = 60
"""The most seconds that a client is told to wait: nobody knows the load of later."""


class Bound(StrEnum):
    """What can be too much, by the key of ``[limits]`` that says how much that is."""

    CALLER_AT_ONCE = "calls_at_once_of_caller"
    CALLER_RATE = "calls_per_minute_of_caller"
    QUEUE = "queue"
    QUEUE_SECONDS = "queue_seconds"
    ADDRESS_RATE = "refused_per_minute_of_address"
    REFUSED_RATE = "refused_per_minute"
    STOPPING = "stopping"


_OWN: Final = frozenset({Bound.CALLER_AT_ONCE, Bound.CALLER_RATE, Bound.ADDRESS_RATE})


class TooMuch(Exception):  # noqa: N818  # it is an answer, not a fault
    """Not now. ``retry_after`` is in whole seconds; None where it will not be here.

    ``own`` is whether it is the caller's own doing, where the bound does not say so by itself.
    """

    def __init__(self, bound: Bound, message: str, seconds: float | None, *, own: bool = False) -> None:
        super().__init__(message)
        self.bound = bound
        self.status = 429 if own or bound in _OWN else 503
        self._then = ""
        self.retry_after = None if seconds is None else min(LONGEST_RETRY, max(1, math.ceil(seconds)))

    def add(self, words: str) -> None:
        """Say what is to be done then."""
        self._then = words

    @property
    def words(self) -> str:
        """What is told: which bound it is, and when to try again."""
        again = "" if self.retry_after is None else f"; try again in {self.retry_after} s"
        return f"{self}{again}{f'; {self._then}' if self._then else ''}"

    def response(self, identifier: object = None) -> Response:
        """Return the answer. ``identifier`` is the request's own, None where it has none."""
        data: dict[str, Any] = {"bound": self.bound.value, "retry_after": self.retry_after}
        error = {"code": self.status, "message": self.words, "data": data}
        headers = {"Cache-Control": "no-store"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        else:
            headers["Connection"] = "close"
        return JSONResponse({"jsonrpc": "2.0", "id": identifier, "error": error}, self.status, headers=headers)

"""Who watches the server's own doors, for metrics. Nobody does unless they are asked to: then it is None."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol


class TokenCheck(StrEnum):
    """What became of the token that a request showed, or did not."""

    ACCEPTED = "accepted"
    MISSING = "missing"
    REFUSED = "refused"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    UNAVAILABLE = "unavailable"  # its issuer did not answer
    ERROR = "error"  # of this program


class Delivery(StrEnum):
    """What became of one attempt to deliver a notice."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    GIVEN_UP = "given_up"


class DoorWatch(Protocol):
    """Watches who comes in and what goes out. It returns at once and raises nothing of its own."""

    def checked(self, result: TokenCheck) -> None:
        """Take what became of a request's token."""
        ...

    def delivered(self, webhook: str, outcome: Delivery) -> None:
        """Take what became of an attempt to deliver a notice to a webhook of the configuration."""
        ...

    def reads(self, name: str, value: Callable[[], float]) -> None:
        """Take where a value can be read whenever somebody asks: ``calls_running``, ``sessions_open``, …"""
        ...

    def counts(self, name: str, values: Callable[[], Mapping[str, int]]) -> None:
        """Take where counts by a reason can be read that only grow: ``throttled``."""
        ...

"""How much a server takes on: the bounds of ``[limits]`` that ``load`` and the doors hold, and their defaults."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """At most ``queue`` calls wait for a place, each ``queue_seconds`` at most; what the others are their names say."""

    calls_at_once: int = 256
    calls_at_once_of_caller: int = 32
    calls_per_minute_of_caller: int = 600
    queue: int = 1_000
    queue_seconds: float = 10.0
    refused_per_minute_of_address: int = 600
    refused_per_minute: int = 6_000


DEFAULT_BOUNDS: Final = LoadBounds()

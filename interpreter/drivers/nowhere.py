"""What a name leads to that a pattern of names spells, and of which its entry can make nothing. Reaches nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from guideway.interpreter.drivers.base import Echo, Fault, Observation, Phase
from guideway.interpreter.results import Reason


@dataclass(frozen=True, slots=True)
class Nowhere:
    """A driver and a probe that say so. ``why`` is in words for whoever wrote the name: lower case, no full stop."""

    why: str

    async def observe(self) -> Observation:
        """Raise ``Fault`` (``not_found``)."""
        raise Fault(Reason.NOT_FOUND, self.why)

    async def restart(self, enter: Callable[[Phase], None], end: float) -> Observation | None:  # noqa: ARG002
        """Raise ``Fault`` (``not_found``)."""
        raise Fault(Reason.NOT_FOUND, self.why)

    async def tail(self) -> str:
        """Raise ``Fault`` (``not_found``)."""
        raise Fault(Reason.NOT_FOUND, self.why)

    async def close(self) -> None:
        """Hold nothing."""

    async def probe(self) -> Echo:
        """Raise ``Fault`` (``cannot_probe``): nothing was sent to anybody."""
        raise Fault(Reason.CANNOT_PROBE, self.why)

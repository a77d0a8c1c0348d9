"""A host that exists in memory only: for tests and for dry worlds. Sends nothing, and is never chosen unless named."""

from dataclasses import dataclass
from typing import Annotated

import anyio
from pydantic import Field

from guideway.interpreter.drivers.base import Echo, Fault, Probe, ProbeOptions
from guideway.interpreter.results import Reason


@dataclass(slots=True)
class MemoryProbe:
    """A host that answers after ``seconds``, or never. Both may be set at any time."""

    answers: bool = True
    seconds: float = 0.0

    async def probe(self) -> Echo:
        """Answer. Raises ``Fault`` (``no_answer``)."""
        if self.seconds:
            await anyio.sleep(self.seconds)
        if not self.answers:
            raise Fault(Reason.NO_ANSWER, "no answer")
        return Echo("memory", self.seconds)


class MemoryProbeOptions(ProbeOptions):
    """A host that exists in memory only."""

    apart = True

    answers: bool = True
    seconds: Annotated[float, Field(ge=0)] = 0.0

    def build(self) -> Probe:
        """Make the probe."""
        return MemoryProbe(self.answers, self.seconds)

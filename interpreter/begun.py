"""A command that was begun, and when: gives the step for each way in which it can go on. Logs nothing."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from guideway.dsl.ast import Command
from guideway.dsl.source import Position
from guideway.interpreter.results import Outcome, Reason, Step
from guideway.interpreter.untrusted import clean


@dataclass(slots=True)
class Begun:
    """A command, the number of its step, and when it was begun; the step's time runs until ``end``."""

    command: Command
    position: Position
    number: int
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    since: float = field(default_factory=lambda: time.perf_counter())  # noqa: PLW0108  # looked up at each call
    until: float | None = None

    def end(self) -> None:
        """Say that it is over, where its step is logged later."""
        self.until = time.perf_counter()

    def step(
        self,
        outcome: Outcome,
        *,
        observation: str | None = None,
        reason: Reason | None = None,
        message: str | None = None,
        output: str = "",
    ) -> Step:
        """Return the step as it is now; ``output`` is what the backend said, uncleaned."""
        return Step(
            self.number,
            self.position.line,
            self.position.column,
            self.command.keyword,
            self.command.target,
            outcome,
            self.started,
            round((self.until or time.perf_counter()) - self.since, 6),
            observation,
            reason,
            message,
            clean(output) or None if output else None,
        )

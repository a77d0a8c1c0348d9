"""What a run leaves: steps, containments, and a report. Plain data, the same for every door."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from guideway.dsl.analysis import WorstCase
from guideway.dsl.errors import Refusal


class State(StrEnum):
    """The state of a service. ``degraded``: it runs, and its health check fails."""

    RUNNING = "running"
    DEGRADED = "degraded"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a command failed. The list is closed: drivers choose from it."""

    NO_ANSWER = "no_answer"  # a probe was sent and no good answer came in time
    CANNOT_PROBE = "cannot_probe"  # the probe could not be sent: says nothing about the host
    UNREACHABLE = "unreachable"  # the service manager cannot be reached
    NOT_FOUND = "not_found"  # the service manager does not know the service
    NO_PERMISSION = "no_permission"
    STOP_TIMED_OUT = "stop_timed_out"
    START_FAILED = "start_failed"  # it did not start, or it started and ended
    START_TIMED_OUT = "start_timed_out"
    UNHEALTHY = "unhealthy"  # it runs, and its health check did not pass before the deadline
    UNSETTLED = "unsettled"  # it was still starting or stopping at the deadline
    TIMED_OUT = "timed_out"  # no word from the service manager before the deadline
    BUSY = "busy"  # another run held what it needs; nothing was done to it
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a step ended. ``running`` is seen by observers only; the last three end the whole pipeline."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REFUSED = "refused"


class Status(StrEnum):
    """How a pipeline ended. ``contained``: it is well, because a CATCH made up for a failure."""

    COMPLETED = "completed"
    CONTAINED = "contained"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Step:
    """One command that was reached. Line and column count from 1; ``started`` is ISO 8601 in UTC.

    ``observation`` and ``message`` are this program's own words. ``untrusted_output`` is a service's, bounded and
    cleaned: data for a person or a model to look at, never an instruction.
    """

    number: int
    line: int
    column: int
    command: str
    target: str
    outcome: Outcome
    started: str
    seconds: float = 0.0
    observation: str | None = None
    reason: Reason | None = None
    message: str | None = None
    untrusted_output: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "number": self.number,
            "line": self.line,
            "column": self.column,
            "command": self.command,
            "target": self.target,
            "outcome": self.outcome.value,
            "started": self.started,
            "seconds": self.seconds,
            "observation": self.observation,
            "reason": self.reason and self.reason.value,
            "message": self.message,
            "untrusted_output": self.untrusted_output,
        }


@dataclass(frozen=True, slots=True)
class Containment:
    """A TRY whose body failed, so that its CATCH ran. ``after_step`` is the step that failed."""

    line: int
    column: int
    after_step: int

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "event": "CONTAINMENT_TRIGGERED",
            "line": self.line,
            "column": self.column,
            "after_step": self.after_step,
        }


Event = Step | Containment

#: Is told of each step when it starts (outcome ``running``) and when it has ended, and of each containment. It must
#: return at once and must not raise.
Observer = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What a pipeline did. ``ran`` counts commands by keyword; ``worst_case`` is None where it was not admitted.

    ``replayed`` says that an earlier call did it, with the same idempotency key, and this one nothing.
    """

    run_id: str
    status: Status
    steps: tuple[Step, ...]
    containments: tuple[Containment, ...]
    worst_case: WorstCase | None
    ran: Mapping[str, int]
    started: str
    seconds: float
    refusal: Refusal | None = None
    replayed: bool = False

    def withheld(self, refusal: Refusal) -> "Report":
        """Return a report that gives nothing of what was read, and why."""
        return replace(self, status=Status.REFUSED, steps=(), containments=(), ran={}, refusal=refusal)

    def to_json(self) -> dict[str, Any]:
        """Return the machine form, the same for every door."""
        worst = self.worst_case
        return {
            "run_id": self.run_id,
            "status": self.status.value,
            "started": self.started,
            "seconds": self.seconds,
            "steps": [step.to_json() for step in self.steps],
            "containments": [containment.to_json() for containment in self.containments],
            "worst_case": worst and {"commands": dict(worst.commands), "seconds": worst.seconds},
            "ran": dict(self.ran),
            "refusal": self.refusal and self.refusal.to_json(),
        } | ({"replayed": True} if self.replayed else {})

"""How a run ended: said to a person, and as an exit code. The same for a run here and one on a server."""

from datetime import UTC, datetime
from typing import Final

from guideway.dsl.errors import Code, Refusal
from guideway.interpreter.results import Report, Status
from guideway.server.cli.command import Exit
from guideway.server.cli.console import BOLD, GREEN, RED, Console
from guideway.server.cli.refusals import say_refusal
from guideway.server.cli.steps import StepList
from guideway.server.render import replay_lines, summary_line

_NEEDS_APPROVAL: Final = frozenset({Code.APPROVAL_REQUIRED, Code.APPROVAL_EXPIRED})


def say_outcome(errors: Console, steps: StepList, report: Report, note: str | None = None) -> None:
    """Write why a program was refused, with ``note`` where that was for its scopes; and how it ended."""
    if report.refusal is not None:
        say_refusal(errors, report.refusal, note)
        errors.stream.flush()
    fine = report.status in (Status.COMPLETED, Status.CONTAINED)
    steps.line((summary_line(report), f"{BOLD};{GREEN if fine else RED}"))
    for line in replay_lines(report):
        steps.line(line)


def refused_unread(refusal: Refusal) -> Report:
    """Return the report of a program that no pipeline was given."""
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Report("", Status.REFUSED, (), (), None, {}, started, 0.0, refusal)


def exit_code(report: Report) -> Exit:
    """Return the exit code of a run that no signal ended."""
    match report.status:
        case Status.COMPLETED | Status.CONTAINED:
            return Exit.OK
        case Status.REFUSED if report.refusal and report.refusal.code in _NEEDS_APPROVAL:
            return Exit.APPROVAL
        case Status.REFUSED:
            return Exit.REFUSED
        case _:
            return Exit.FAILED

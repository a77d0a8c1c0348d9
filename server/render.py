"""A report as plain text for a person: one line a step. Every door shows these lines; a shell may add colour.

Nothing here decides anything, and no text of a service gets in: ``untrusted_output`` stays in the machine form, or is
added by ``output_lines`` for a person at a terminal.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from guideway.dsl.errors import Refusal, draw
from guideway.dsl.scopes import scope_list
from guideway.interpreter.results import Containment, Event, Outcome, Report, State, Status, Step

_STATES = frozenset(State)
_OUTCOMES = frozenset(Outcome)

#: States for which a person wants to read what the service itself said.
UNWELL: Final = frozenset({State.DEGRADED, State.FAILED})


def report_lines(report: Report) -> list[str]:
    """Return a whole report: its steps with the containments between them, why it was refused, and how it ended."""
    lines = [event_line(event) for event in in_order(report)]
    if report.refusal is not None:
        lines += refusal_lines(report.refusal)
    return [*lines, summary_line(report), *replay_lines(report)]


def replay_lines(report: Report) -> list[str]:
    """Return what is said of a report that an earlier call has left; nothing of any other."""
    if not report.replayed:
        return []
    return [f"this is what run {report.run_id} did, by a call with the same idempotency key; nothing ran now"]


def event_line(event: Event) -> str:
    """Return one step or containment as one line, as it stands in a report and in a live list."""
    match event:
        case Containment(line=line, after_step=step):
            return f"   CONTAINMENT_TRIGGERED: step {step} failed, the CATCH of the TRY in line {line} runs"
        case Step():
            # A message may quote a service manager, which must not end the line or steer a terminal.
            return _printable(
                f'{event.number:>2} {event.outcome:<9} {event.command} "{event.target}"{_findings(event)}'
            )
        case _:
            assert_never(event)


def outcome_in(line: str) -> Outcome | None:
    """Return the outcome in a line that ``event_line`` made, None where it is not of a step."""
    number, *rest = line.split(maxsplit=2)[:2] or [""]
    return Outcome(rest[0]) if number.isdecimal() and rest and rest[0] in _OUTCOMES else None


def output_lines(step: Step) -> list[str]:
    """Return what the service itself said where all is not well, set off so that it is not taken for our words."""
    if step.outcome is Outcome.OK and step.observation not in UNWELL:
        return []
    return quoted_lines(step.untrusted_output)


def quoted_lines(text: str | None) -> list[str]:
    """Return a text of somebody else, set off."""
    return [f"   | {line}" for line in (text or "").splitlines()]


def refusal_lines(refusal: Refusal) -> list[str]:
    """Return every reason of a refusal with its place in the program, and the scopes where they are what is missing."""
    lines = [line for diagnostic in refusal.diagnostics for line in draw(diagnostic, refusal.source).splitlines()]
    if refusal.missing_scopes:
        lines.append(f"required scopes: {scope_list(refusal.required_scopes)}")
        lines.append(f"missing scopes: {scope_list(refusal.missing_scopes)}")
    return lines


def in_order(report: Report) -> Iterator[Event]:
    """Yield steps and containments as they happened: a containment comes behind the step that failed."""
    containments = list(reversed(report.containments))
    for step in report.steps:
        yield step
        while containments and containments[-1].after_step <= step.number:
            yield containments.pop()


def summary_line(report: Report) -> str:
    """Return how a pipeline ended, in one line."""
    steps = f"{len(report.steps)} step{'' if len(report.steps) == 1 else 's'} in {report.seconds:.2f} s"
    match report.status:
        case Status.COMPLETED:
            return f"completed: {steps}"
        case Status.CONTAINED:
            return f"contained: {steps}; a failure was made up for by a CATCH"
        case Status.FAILED:
            return f"failed: {steps}"
        case Status.TIMED_OUT:
            return f"timed out: {steps}; the pipeline's own deadline passed"
        case Status.CANCELLED:
            return f"cancelled: {steps}"
        case Status.REFUSED if report.steps:
            return f"refused: {report.refusal}; stopped after {steps}"
        case Status.REFUSED:
            return f"refused: {report.refusal}; nothing ran"
        case _:
            assert_never(report.status)


def _findings(step: Step) -> str:
    """Return what a step found or why it failed, and how long it took, with what goes before."""
    if step.outcome is Outcome.RUNNING:
        return ""
    seen = f"is {step.observation}" if step.observation in _STATES else step.observation
    found = [part for part in (seen, step.reason, step.message) if part]
    return f": {': '.join(found)} ({step.seconds:.2f} s)" if found else f" ({step.seconds:.2f} s)"


def _printable(line: str) -> str:
    return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)

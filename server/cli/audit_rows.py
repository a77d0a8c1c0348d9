"""A record in one line, as ``audit tail`` shows it. All of it is somebody else's text, and goes through the console."""

from collections.abc import Mapping
from typing import Any, Final

from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Kept
from guideway.server.cli.audit_source import body_of
from guideway.server.cli.audit_times import shown
from guideway.server.cli.console import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Console, Span

RUN_DIGITS: Final = 8
"""Characters of a run's id in a row."""

_GOOD: Final = frozenset({"ok", "completed", "contained"})
_MOST_NAMES: Final = 3
_MOST_LEFT_OUT: Final = 1_000_000  # more commands no program has


def show_row(console: Console, record: Kept, *, tenant: bool) -> None:
    """Write a record as a row, with its tenant's name where there are records of several."""
    body = body_of(record)
    run = body.get("run") if isinstance(body.get("run"), str) else ""
    console.line(
        (shown(str(body.get("time", ""))), DIM),
        (f" {str(run)[:RUN_DIGITS]:<{RUN_DIGITS}} ", DIM),
        (f"{record.trail or '-'} " if tenant else "", CYAN),
        (who(body.get("by") if isinstance(body.get("by"), dict) else body.get("caller")), BOLD),
        " ",
        *words(record.kind, body),
    )


def who(person: Any) -> str:
    """Return a person's name, a dash where it was nobody."""
    return str(person.get("subject")) if isinstance(person, dict) else "-"


def words(kind: str, body: Mapping[str, Any]) -> list[Span]:  # noqa: C901, PLR0912  # one arm a kind
    """Return what a record tells of."""
    match kind:
        case Kind.CALL_REFUSED:
            return [("refused", RED), f" at the door: {_refusal(body)}"]
        case Kind.RUN_REFUSED:
            return [("refused", RED), f": {_refusal(body)}{_doing(body)}"]
        case Kind.RUN_BEGUN:
            return ["runs", _doing(body)]
        case Kind.RUN_ENDED:
            status = str(body.get("status"))
            return [(status, color(status)), f" in {_seconds(body.get('seconds'))}{_refusal_behind(body)}"]
        case Kind.RESTART_BEGUN:
            return [f"restart {body.get('service')} begins"]
        case Kind.RESTART_ENDED:
            outcome = str(body.get("outcome"))
            said = f": {body['message']}" if body.get("message") else ""
            return [f"restart {body.get('service')} ", (outcome, color(outcome)), said]
        case Kind.RESTART_UNKNOWN:
            return [f"restart {body.get('service')} ", ("unknown", RED), ": its process was lost"]
        case Kind.TICKET_ASKED:
            return [("asks a person", YELLOW), _doing(body), f": {causes(body)}"]
        case Kind.TICKET_DECIDED:
            word, its = ("approves", GREEN) if body.get("approved") else ("refuses", RED)
            reason = f': "{body["reason"]}"' if body.get("reason") else ""
            return [(word, its), f" what {who(body.get('caller'))} asked for{reason}"]
        case Kind.TICKET_USED:
            return [f"uses ticket {str(body.get('ticket'))[:RUN_DIGITS]}"]
        case Kind.TICKET_EXPIRED:
            return [f"ticket {str(body.get('ticket'))[:RUN_DIGITS]} expired"]
        case Kind.TRAIL_GAP:
            return [("gap", RED), f": {body.get('lost')} records were lost"]
        case Kind.TRAIL_PRUNED:
            return [f"records up to {body.get('removed_to')} were removed, as configured"]
        case _:
            return [kind.replace(".", " ")]


def color(outcome: str) -> str:
    """Return the colour of an outcome."""
    return GREEN if outcome in _GOOD else RED


def causes(body: Mapping[str, Any]) -> str:
    """Return why a person is asked."""
    listed = body.get("causes") or ()
    return "; ".join(dict.fromkeys(f"{each.get('needs')}" for each in listed if isinstance(each, dict))) or "-"


def _doing(body: Mapping[str, Any]) -> str:
    """Return what a program would do, its mutations first."""
    listed = body.get("commands") or body.get("worst_case") or ()
    names = [f"{each.get('command')} {each.get('target')}" for each in listed if isinstance(each, dict)]
    names.sort(key=lambda name: not name.startswith("RESTART "))
    more = max(0, len(names) - _MOST_NAMES) + _left_out(body)
    behind = f" and {more} more" if more else ""
    return f" {', '.join(names[:_MOST_NAMES])}{behind}" if names else ""


def _left_out(body: Mapping[str, Any]) -> int:
    """Return how many commands a record does not list, since it would be too long."""
    left = body.get("commands_left_out") or body.get("worst_case_left_out")
    counts = left.values() if isinstance(left, dict) else ()
    return sum(count for count in counts if isinstance(count, int) and 0 < count <= _MOST_LEFT_OUT)


def _refusal(body: Mapping[str, Any]) -> str:
    refusal = body.get("refusal")
    code = str(refusal.get("code")) if isinstance(refusal, dict) else "-"
    times = f", {body['times']} times" if isinstance(body.get("times"), int) else ""
    return f"{code}{times}"


def _refusal_behind(body: Mapping[str, Any]) -> str:
    return f": {_refusal(body)}" if isinstance(body.get("refusal"), dict) else ""


def _seconds(value: Any) -> str:
    return f"{value:.3g} s" if isinstance(value, int | float) else "-"

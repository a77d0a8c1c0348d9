"""What records say of programs, callers and runs: JSON of what this program knows, and nothing that a service said."""

from bisect import bisect_left
from collections import Counter
from typing import Any, Final

from guideway.dsl.analysis import Analysis
from guideway.dsl.ast import Command
from guideway.dsl.errors import Refusal
from guideway.dsl.printer import format_one_line
from guideway.dsl.source import Source
from guideway.interpreter.approvals import Who, digest
from guideway.interpreter.audit.bounds import MOST_REASONS, said, size
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report, Step
from guideway.interpreter.risk import own_tier

MOST_DIAGNOSTICS: Final = 20
"""Reasons of one refusal that are recorded, at most; beyond them their number is."""


def of_caller(caller: Principal) -> dict[str, Any]:
    """Return who asks, and with which rights."""
    return of_who(Who.of(caller), caller.tenant) | {"scopes": sorted(scope.value for scope in caller.scopes)}


def of_who(who: Who, tenant: str | None) -> dict[str, Any]:
    """Return a person, and the program that they use."""
    return {"issuer": who.issuer, "subject": who.subject, "client": who.client, "tenant": tenant}


def of_program(analysis: Analysis, inventory: Inventory, refusal: Refusal | None = None) -> dict[str, Any]:
    """Return a program, and each of its commands once: its tier, what that comes from, and what was decided.

    Where the whole program was refused, a command that is not a reason of that did not run either.
    """
    why = _reasons(analysis, refusal)
    commands = []
    for (command, name), times in _targets(analysis).items():
        tier, source = _tier(command, name, inventory)
        reason = why.get((command.keyword, name))
        decision = "allowed" if refusal is None else "refused" if reason is not None else "not_run"
        commands.append(
            {
                "command": command.keyword,
                "target": name,
                "times": times,
                "tier": tier,
                "source": source,
                "decision": decision,
                "reason": reason,
            }
        )
    return {"program": format_one_line(analysis.program), "digest": digest(analysis.program), "commands": commands}


def of_refusal(refusal: Refusal, source: Source) -> dict[str, Any]:
    """Return why something was refused, each reason with its place."""
    reasons: list[dict[str, Any]] = []
    room = MOST_REASONS
    for each in refusal.diagnostics[:MOST_DIAGNOSTICS]:
        at, words = source.position(each.span.start), said(each.message)
        reason = {"code": each.code.value, "message": words, "line": at.line, "column": at.column}
        room -= size(reason) + 1
        if reasons and room < 0:
            break
        reasons.append(reason)
    found: dict[str, Any] = {"code": refusal.code.value, "reasons": reasons}
    if len(refusal.diagnostics) > len(reasons):
        found["more"] = len(refusal.diagnostics) - len(reasons)
    if refusal.required_scopes:
        found["required_scopes"] = sorted(scope.value for scope in refusal.required_scopes)
        found["missing_scopes"] = sorted(scope.value for scope in refusal.missing_scopes)
    return found


def of_end(report: Report) -> dict[str, Any]:
    """Return how a run ended, with its steps."""
    return {
        "status": report.status.value,
        "seconds": report.seconds,
        "ran": dict(report.ran),
        "contained": len(report.containments),
        "steps": [of_step(step) for step in report.steps],
        "refusal": None if report.refusal is None else of_refusal(report.refusal, report.refusal.source),
    }


def of_step(step: Step) -> dict[str, Any]:
    """Return a step without what its service said."""
    return {
        "number": step.number,
        "line": step.line,
        "column": step.column,
        "command": step.command,
        "target": step.target,
        "outcome": step.outcome.value,
        "observation": step.observation,
        "reason": None if step.reason is None else step.reason.value,
        "message": None if step.message is None else said(step.message),
        "started": step.started,
        "seconds": step.seconds,
    }


def _targets(analysis: Analysis) -> Counter[tuple[type[Command], str]]:
    """Return each command of a program that names something, with how often it stands there, in its order."""
    return Counter((type(command), command.target) for command in analysis.commands)


def _reasons(analysis: Analysis, refusal: Refusal | None) -> dict[tuple[str, str], str]:
    """Return which commands are reasons of a refusal, with its code, by where they stand."""
    if refusal is None:
        return {}
    found: dict[tuple[str, str], str] = {}
    reasons = sorted((each.span.start, each.code.value) for each in refusal.diagnostics)
    for command in analysis.commands:
        at = bisect_left(reasons, (command.start, ""))
        if at < len(reasons) and reasons[at][0] < command.head:
            found.setdefault((command.keyword, command.target), reasons[at][1])
    return found


def _tier(command: type[Command], name: str, inventory: Inventory) -> tuple[int | None, str]:
    if not command.mutates:
        own = own_tier(command)
        return int(own.tier), own.source
    try:
        effective = inventory.service(name).risk.effective(command)
    except KeyError:
        return None, "no such service"
    return int(effective.tier), effective.source

"""Whether a caller may do what one node asks. An error while deciding is a Deny.

A decision is a value that must be matched in full: it has no truth value, so it cannot be tested and forgotten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

from guideway.dsl.analysis import Analysis
from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.patterns import NamePattern, Spelling
from guideway.dsl.recovery import MOST_DIAGNOSTICS, nearest
from guideway.dsl.scopes import Scope, requires
from guideway.dsl.source import Source
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal


class _Decision:
    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a decision has no truth value: match it")


@dataclass(frozen=True, slots=True)
class Allow(_Decision):
    """The node may run."""


@dataclass(frozen=True, slots=True)
class Deny(_Decision):
    """The node may not run. ``missing`` is the scope that would change that, None where none would."""

    diagnostic: Diagnostic
    missing: Scope | None = None


Decision = Allow | Deny

_ALLOW = Allow()


def vocabulary(caller: Principal, now: float) -> tuple[type[Command], ...]:
    """Return the commands that a caller's own copy of the grammar has."""
    return tuple(command for command in COMMANDS if caller.holds(command.scope, now))


def authorize(command: Command, caller: Principal, inventory: Inventory, now: float) -> Decision:
    """Decide on one node: its scope, the caller's expiry, and its target.

    ``now`` is in seconds since the epoch.
    """
    match authorize_scope(command, caller, now):
        case Deny() as denied:
            return denied
        case Allow():
            return authorize_target(command, caller, inventory, now)


def authorize_scope(command: Command, caller: Principal, now: float) -> Decision:
    """Decide whether the caller holds the node's scope at this time."""
    if caller.holds(command.scope, now):
        return _ALLOW
    if command.scope in caller.scopes:
        return Deny(Diagnostic(Code.EXPIRED, "the caller's authorization has expired", command.head_span))
    return Deny(
        Diagnostic(
            Code.INSUFFICIENT_SCOPE,
            requires([command.scope]),
            command.head_span,
            help=f"`{command.keyword}` is not in this caller's grammar; ask for the scope, or leave the command out",
        ),
        missing=command.scope,
    )


def authorize_target(command: Command, caller: Principal, inventory: Inventory, now: float) -> Decision:
    """Decide whether the node's name is one that the caller may use with it. Only such names are suggested."""
    if inventory.allows(command.names, command.target):
        return _ALLOW
    # A name that the caller may use with no other command is as unknown to them as one that is not there.
    fits = [
        other
        for other in vocabulary(caller, now)
        if other.names is not command.names and inventory.allows(other.names, command.target)
    ]
    near = nearest(command.target, inventory.names(command.names))
    mend = f"did you mean `{near}`?" if near is not None else None
    if near is None and fits:
        mend = f"`{command.target}` can be used with {', '.join(f'`{other.keyword}`' for other in fits)}"
    message = _unknown(command, fits)
    allowed = _few(inventory.spellings(command.names), command.target)
    return Deny(Diagnostic(Code.UNKNOWN_TARGET, message, command.target_span, allowed, mend))


def require_scopes(analysis: Analysis, caller: Principal, source: Source, now: float) -> None:
    """Raise ``Refusal`` unless the caller holds the scope of every node, also of those that may not run."""
    _require((authorize_scope(command, caller, now) for command in analysis.commands), analysis, caller, source, now)


def require_targets(analysis: Analysis, caller: Principal, inventory: Inventory, source: Source, now: float) -> None:
    """Raise ``Refusal`` unless every target is one that the caller may use there."""
    decisions = (authorize_target(command, caller, inventory, now) for command in analysis.commands)
    _require(decisions, analysis, caller, source, now)


def refusal(denied: Iterable[Deny], analysis: Analysis, caller: Principal, source: Source, now: float) -> Refusal:
    """Return the refusal for what was denied. Where scopes are missing it names all that the whole program needs."""
    return Refusal(
        (deny.diagnostic for deny in denied),
        source,
        required_scopes=analysis.scopes,
        missing_scopes=frozenset(scope for scope in analysis.scopes if not caller.holds(scope, now)),
    )


def _require(decisions: Iterable[Decision], analysis: Analysis, caller: Principal, source: Source, now: float) -> None:
    denied: list[Deny] = []
    for decision in decisions:
        match decision:
            case Deny():
                denied.append(decision)
            case Allow():
                pass
        if len(denied) == MOST_DIAGNOSTICS:
            break
    if denied:
        raise refusal(denied, analysis, caller, source, now)


def _unknown(command: Command, fits: Sequence[type[Command]]) -> str:
    match command.names:
        case Target.HOST:
            return f"this inventory has no host `{command.target}`"
        case Target.RESTARTABLE if any(other.names is Target.SERVICE for other in fits):
            return f"`{command.target}` may not be restarted here"
        case Target.SERVICE | Target.RESTARTABLE:
            return f"this inventory has no service `{command.target}`"
        case _:
            assert_never(command.names)


def _few(names: tuple[Spelling, ...], but: str, most: int = 8) -> tuple[str, ...]:
    """Return the first of what there is, and how many more; a pattern that spells a name says that it leaves it out."""
    quoted = tuple(
        f'"{name}" but not "{but}"' if isinstance(name, NamePattern) and but in name.but else f'"{name}"'
        for name in names[:most]
    )
    return (*quoted, f"… {len(names) - most} more") if len(names) > most else quoted

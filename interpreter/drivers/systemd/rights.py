"""What systemd's refusals mean, and the polkit rule that would lift one of them for a single unit.

Owns the names of systemd's and the bus's errors (org.freedesktop.systemd1(5)). Reaches nothing.
"""

import json
import os
import pwd
from typing import Final

from guideway.interpreter.drivers.base import SAYS_WHAT_TO_GRANT, Fault
from guideway.interpreter.drivers.systemd.bus import Refusal
from guideway.interpreter.drivers.systemd.unit import NOT_BY_HAND
from guideway.interpreter.results import Reason

#: What a restart asks systemd for: the second lifts a start limit that the restart itself ran into.
VERBS: Final = ("restart", "reset-failed")

_SYSTEMD: Final = "org.freedesktop.systemd1."
_BUS: Final = "org.freedesktop.DBus.Error."

_MEANINGS: Final = {
    _SYSTEMD + "NoSuchUnit": (Reason.NOT_FOUND, "systemd has no unit of the configured name"),
    _SYSTEMD + "UnitMasked": (Reason.START_FAILED, "it is masked: nothing can start it until it is unmasked"),
    _SYSTEMD + "BadUnitSetting": (Reason.START_FAILED, "its unit file has mistakes, so systemd does not start it"),
    _SYSTEMD + "LoadFailed": (Reason.START_FAILED, "its unit file cannot be loaded"),
    _SYSTEMD + "OnlyByDependency": (Reason.NO_PERMISSION, NOT_BY_HAND),
    _SYSTEMD + "TransactionIsDestructive": (
        Reason.START_FAILED,
        "systemd is doing something else that must not be undone, such as shutting down",
    ),
    _SYSTEMD + "TransactionJobsConflicting": (Reason.START_FAILED, "what the unit requires is in conflict"),
    _SYSTEMD + "TransactionOrderIsCyclic": (Reason.START_FAILED, "what the unit requires waits for itself"),
    _SYSTEMD + "ShuttingDown": (Reason.UNREACHABLE, "systemd is shutting down"),
    _BUS + "ServiceUnknown": (Reason.UNREACHABLE, "systemd is not on this bus"),
    _BUS + "NameHasNoOwner": (Reason.UNREACHABLE, "systemd is not on this bus"),
    _BUS + "NoReply": (Reason.UNREACHABLE, "systemd did not answer"),
    _BUS + "Timeout": (Reason.UNREACHABLE, "systemd did not answer"),
    _BUS + "TimedOut": (Reason.UNREACHABLE, "systemd did not answer"),
    _BUS + "Disconnected": (Reason.UNREACHABLE, "systemd did not answer"),
}
_NOT_ALLOWED: Final = {
    _BUS + "AccessDenied",
    _BUS + "InteractiveAuthorizationRequired",
    _BUS + "AuthFailed",
}


def fault_of(refusal: Refusal) -> Fault:
    """Return what a refusal means."""
    # A polkit that cannot be started is told as an error about its unit, under the name of an error about ours.
    if refusal.name in _NOT_ALLOWED or "polkit" in refusal.text:
        return Fault(
            Reason.NO_PERMISSION,
            f"systemd does not let this process do that{SAYS_WHAT_TO_GRANT}",
            refusal.text,
        )
    if refusal.name.startswith(_BUS + "Spawn."):  # how a bus says that it could not start who is asked for
        return Fault(Reason.UNREACHABLE, "systemd is not on this bus", refusal.text)
    reason, message = _MEANINGS.get(refusal.name, (Reason.UNKNOWN, "systemd refused, with an error not known here"))
    return Fault(reason, message, refusal.text or refusal.name)


def polkit_rule(unit: str, user: str) -> str:
    """Return the rule that lets a user restart one unit, as one line of a file in ``/etc/polkit-1/rules.d``."""
    return (
        'polkit.addRule(function(action, subject) { if (action.id == "org.freedesktop.systemd1.manage-units"'
        f' && action.lookup("unit") == {json.dumps(unit)}'
        f' && {json.dumps(list(VERBS))}.indexOf(action.lookup("verb")) >= 0'
        f" && subject.user == {json.dumps(user)}) return polkit.Result.YES; }});"
    )


def user_name(uid: int | None) -> str:
    """Return the name of a user, this process's where none is given; the number where it has no name here."""
    uid = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

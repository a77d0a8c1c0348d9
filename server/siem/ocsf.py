"""Records as events of the Open Cybersecurity Schema Framework, https://schema.ocsf.io, version 1.6.0.

Whatever was asked, allowed, refused or done is API Activity [6003], the one class with who called what on which
resource, and a decision (profile ``security_control``). Application Lifecycle [6002] would say of a restart neither who
asked nor why; it is for the server's own beginning and end. What happened to the trail itself is Event Log Activity
[1008].
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from guideway import __version__
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Kept

VERSION: Final = "1.6.0"

_API, _LIFECYCLE, _LOG = 6003, 6002, 1008
_CATEGORY: Final = {_API: 6, _LIFECYCLE: 6, _LOG: 1}
_OTHER: Final = 99

#: For each kind: its class, and the activity there.
_ACTIVITY: Final[Mapping[str, tuple[int, int, str]]] = {
    Kind.CALL_REFUSED: (_API, _OTHER, "Call"),
    Kind.RUN_REFUSED: (_API, _OTHER, "Run"),
    Kind.RUN_BEGUN: (_API, _OTHER, "Run"),
    Kind.RUN_ENDED: (_API, _OTHER, "Run"),
    Kind.RUN_REPEATED: (_API, _OTHER, "Run"),
    Kind.RESTART_BEGUN: (_API, 3, "Update"),
    Kind.RESTART_ENDED: (_API, 3, "Update"),
    Kind.RESTART_UNKNOWN: (_API, 3, "Update"),
    Kind.TICKET_ASKED: (_API, 1, "Create"),
    Kind.TICKET_DECIDED: (_API, 3, "Update"),
    Kind.TICKET_USED: (_API, 3, "Update"),
    Kind.TICKET_EXPIRED: (_API, 3, "Update"),
    Kind.SERVER_STARTED: (_LIFECYCLE, 3, "Start"),
    Kind.SERVER_STOPPED: (_LIFECYCLE, 4, "Stop"),
    Kind.TRAIL_SIGNED: (_LOG, _OTHER, "Signed"),
    Kind.TRAIL_GAP: (_LOG, _OTHER, "Gap"),
    Kind.TRAIL_PRUNED: (_LOG, 2, "Delete"),
}
_INFORMATIONAL, _LOW, _MEDIUM, _HIGH = 1, 2, 3, 4
_UNKNOWN, _SUCCESS, _FAILURE = 0, 1, 2
_STATUS: Final = {_UNKNOWN: "Unknown", _SUCCESS: "Success", _FAILURE: "Failure"}
_ALLOWED, _DENIED = 1, 2
_SHA_256: Final = 3
_GOOD: Final = frozenset({"ok", "completed", "contained"})
_REFUSED: Final = frozenset({Kind.CALL_REFUSED, Kind.RUN_REFUSED})


def line(record: Kept) -> str:
    """Return a record as a line of JSON. Raises ``ValueError`` for a body that does not read."""
    return json.dumps(event(record), separators=(",", ":"))


def event(record: Kept) -> dict[str, Any]:
    """Return a record as an event. Raises ``ValueError`` for a body that does not read."""
    body = json.loads(record.body)
    klass, activity, name = _ACTIVITY.get(record.kind, (_API, _OTHER, "Other"))
    status = _status(record.kind, body)
    found: dict[str, Any] = {
        "category_uid": _CATEGORY[klass],
        "class_uid": klass,
        "activity_id": activity,
        "activity_name": name,
        "type_uid": klass * 100 + activity,
        "severity_id": _severity(record.kind, status),
        "status_id": status,
        "status": _STATUS[status],
        "time": int(datetime.fromisoformat(body["time"]).timestamp() * 1_000),
        "message": record.kind,
        "metadata": _metadata(record, body),
        "raw_data": record.body,
    }
    if (code := _code(body)) is not None:
        found["status_code"] = code
    if klass == _LIFECYCLE:
        found["app"] = _product()
    else:
        found["actor"] = _actor(body)
    if klass == _LOG:
        found["log_name"] = found["metadata"]["log_name"]
    if klass == _API:
        found |= _call(record.kind, body)
    return found


def _metadata(record: Kept, body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": VERSION,
        "product": _product(),
        "profiles": ["security_control"],
        "uid": record.hash,  # it names the record, and that the trail has it as it was written
        "event_code": record.kind,
        "log_name": f"audit trail {record.trail}".strip(),
        "sequence": record.seq,
        "original_time": body["time"],
    }
    if record.trail:
        found["tenant_uid"] = record.trail
    if isinstance(body.get("run"), str):
        found["correlation_uid"] = body["run"]
    return found


def _product() -> dict[str, Any]:
    return {"name": "Guideway", "vendor_name": "Guideway", "version": __version__}


def _actor(body: Mapping[str, Any]) -> dict[str, Any]:
    who = body.get("by") if isinstance(body.get("by"), dict) else body.get("caller")
    if not isinstance(who, dict):
        return {"app_name": "Guideway"}
    found: dict[str, Any] = {"user": {"uid": str(who.get("subject")), "domain": str(who.get("issuer"))}}
    if who.get("client") is not None:
        found["app_uid"] = str(who["client"])
    if body.get("client_says") is not None:
        found["app_name"] = str(body["client_says"])
    return found


def _call(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an API Activity has beside: the operation, its decision, and what it was about."""
    refused = kind in _REFUSED or (kind == Kind.TICKET_DECIDED and not body.get("approved"))
    api: dict[str, Any] = {"operation": _operation(kind, body), "service": {"name": "Guideway"}}
    if isinstance(body.get("run"), str):
        api["request"] = {"uid": body["run"]}
    found: dict[str, Any] = {
        "api": api,
        "src_endpoint": {"name": str(body.get("door") or "unknown")},  # by which door it came; no address is recorded
        "action_id": _DENIED if refused else _ALLOWED,
        "disposition_id": 2 if refused else 1,  # blocked, allowed
    }
    if resources := _resources(body):
        found["resources"] = resources
    if body.get("policy"):
        found["policy"] = {"name": "risk", "version": str(body["policy"])}
    return found


def _operation(kind: str, body: Mapping[str, Any]) -> str:
    if kind.startswith("restart."):
        return "RESTART"
    if kind == Kind.TICKET_DECIDED:
        return "approve" if body.get("approved") else "deny"
    return kind


def _resources(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    names: dict[tuple[str, str], None] = {}
    if isinstance(body.get("service"), str):
        names["service", body["service"]] = None
    for key in ("commands", "worst_case"):
        for each in body.get(key) or ():
            names["host" if each.get("command") == "PING" else "service", str(each.get("target"))] = None
    if isinstance(body.get("ticket"), str):
        names["ticket", body["ticket"]] = None
    return [{"type": kind, "name": name} for kind, name in names]


def _status(kind: str, body: Mapping[str, Any]) -> int:
    if kind in _REFUSED or kind == Kind.TRAIL_GAP:
        return _FAILURE
    if kind == Kind.RESTART_UNKNOWN:
        return _UNKNOWN
    ended = body.get("outcome") if kind == Kind.RESTART_ENDED else body.get("status")
    if kind in (Kind.RESTART_ENDED, Kind.RUN_ENDED):
        return _SUCCESS if ended in _GOOD else _UNKNOWN if ended == "unknown" else _FAILURE
    return _SUCCESS


def _severity(kind: str, status: int) -> int:
    if kind in (Kind.TRAIL_GAP, Kind.RESTART_UNKNOWN):
        return _HIGH
    if kind in _REFUSED:
        return _LOW
    if kind == Kind.RESTART_ENDED and status != _SUCCESS:
        return _MEDIUM
    return _INFORMATIONAL


def _code(body: Mapping[str, Any]) -> str | None:
    refusal = body.get("refusal")
    found = refusal.get("code") if isinstance(refusal, dict) else body.get("outcome") or body.get("status")
    return str(found) if found is not None else None

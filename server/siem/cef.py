"""Records in the Common Event Format (ArcSight, version 0): for collectors that read nothing newer.

Its dictionary has a name for some of what a record says, and numbered fields for the rest: those are named by their
labels. What it has no room for is in the native form.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from guideway import __version__
from guideway.interpreter.audit.keeping import Kept
from guideway.server.siem import ocsf

_SEVERITY: Final = {1: 2, 2: 4, 3: 6, 4: 8}  # of OCSF, on CEF's scale of 0 to 10


def line(record: Kept) -> str:
    """Return a record as a line. Raises ``ValueError`` for a body that does not read."""
    event = ocsf.event(record)
    body = json.loads(record.body)
    head = [
        "CEF:0",
        "Guideway",
        "Guideway",
        __version__,
        record.kind,
        _name(event),
        str(_SEVERITY[event["severity_id"]]),
    ]
    fields = {key: value for key, value in _fields(record, event, body).items() if value is not None}
    extension = " ".join(f"{key}={_value(str(value))}" for key, value in fields.items())
    return "|".join([head[0], *(_header(part) for part in head[1:])]) + f"|{extension}"


def _name(event: Mapping[str, Any]) -> str:
    api = event.get("api")
    return str(api["operation"]) if isinstance(api, dict) else str(event["activity_name"])


def _fields(record: Kept, event: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    user = event.get("actor", {}).get("user", {})
    resources = ", ".join(f"{each['type']} {each['name']}" for each in event.get("resources", ()))
    return {
        "rt": int(datetime.fromisoformat(body["time"]).timestamp() * 1_000),
        "externalId": record.hash,
        "suid": user.get("uid"),
        "sntdom": user.get("domain"),
        "requestClientApplication": event.get("actor", {}).get("app_uid"),
        "act": {1: "allowed", 2: "denied"}.get(event.get("action_id", 0)),
        "outcome": event["status"].lower(),
        "reason": event.get("status_code"),
        "cs1": body.get("run") if isinstance(body.get("run"), str) else None,
        "cs1Label": "run" if isinstance(body.get("run"), str) else None,
        "cs2": resources or None,
        "cs2Label": "resources" if resources else None,
        "cs3": record.trail or None,
        "cs3Label": "tenant" if record.trail else None,
        "cn1": record.seq,
        "cn1Label": "place in the trail",
    }


def _header(text: str) -> str:
    """Escape a part of the head: no line ends, and what would part it."""
    return re.sub(r"([\\|])", r"\\\1", " ".join(text.split()))


def _value(text: str) -> str:
    """Escape a value: ``=`` and the backslash; line ends are written as letters."""
    return re.sub(r"([\\=])", r"\\\1", text).replace("\r", "\\r").replace("\n", "\\n")

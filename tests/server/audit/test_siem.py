"""What a SIEM gets: events that the published schema of OCSF takes, and lines of CEF that nothing can break out of."""

import json
import re
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.keeping import Kept
from guideway.server.siem import cef, ocsf
from tests.interpreter.trails import CALLER, NOW, kept

CLASSES = {6003: "api_activity", 6002: "application_lifecycle", 1008: "event_log_actvity"}  # spelled so there
FACTS: dict[str, Any] = {
    "run": "5d0c21f3-0000-4000-8000-000000000000",
    "caller": CALLER | {"tenant": "acme"},
    "door": "http",
    "client_says": "claude",
    "policy": "a1b2",
    "ticket": "Zk3vQ1Zk3vQ1Zk3vQ1Zk3vQ1",
    "service": "database",
    "outcome": "ok",
    "status": "completed",
    "commands": [{"command": "RESTART", "target": "database"}, {"command": "PING", "target": "api.internal"}],
}
HOSTILE = 'eve|x=1 \\ \n CEF:0|other "\u2028\x00'


def record(kind: Kind, facts: dict[str, Any], tenant: str | None = "acme") -> Kept:
    return kept(Entry(kind, tenant, NOW, facts), 7, "0" * 64)


@cache
def schema(version: str, name: str) -> Draft202012Validator:
    found = OcsfJsonSchemaEmbedded(get_ocsf_schema(version)).get_class_schema(name, ["security_control"])
    return Draft202012Validator(found)


@pytest.mark.parametrize("version", [ocsf.VERSION, "1.8.0"])
@pytest.mark.parametrize("kind", Kind)
def test_each_kind_is_an_event_of_the_published_schema(kind: Kind, version: str) -> None:
    hostile = FACTS | {"caller": CALLER | {"subject": HOSTILE}, "service": HOSTILE}
    for facts, tenant in ((FACTS, "acme"), ({}, None), (hostile, "acme")):
        event = json.loads(ocsf.line(record(kind, facts, tenant)))
        found = [error.message[:200] for error in schema(version, CLASSES[event["class_uid"]]).iter_errors(event)]
        assert found == []
        assert event["metadata"]["version"] == ocsf.VERSION


def test_an_event_says_who_did_what_on_which_service_and_which_record_says_so() -> None:
    row = record(Kind.RESTART_ENDED, FACTS)
    event = ocsf.event(row)
    assert event["actor"]["user"] == {"uid": "mona", "domain": "https://login.example"}
    assert event["api"] == {
        "operation": "RESTART",
        "service": {"name": "Guideway"},
        "request": {"uid": FACTS["run"]},
    }
    assert {"type": "service", "name": "database"} in event["resources"]
    assert (event["status"], event["time"], event["type_uid"]) == ("Success", int(NOW * 1_000), 600_303)
    metadata = event["metadata"]
    assert (metadata["uid"], metadata["sequence"], metadata["tenant_uid"]) == (row.hash, 7, "acme")
    assert event["raw_data"] == row.body


@pytest.mark.parametrize(
    ("kind", "facts", "status", "action"),
    [
        (Kind.RUN_REFUSED, {"refusal": {"code": "frozen"}}, "Failure", 2),
        (Kind.CALL_REFUSED, {"refusal": {"code": "invalid_token"}}, "Failure", 2),
        (Kind.RESTART_ENDED, {"outcome": "start_failed"}, "Failure", 1),
        (Kind.RESTART_ENDED, {"outcome": "unknown"}, "Unknown", 1),
        (Kind.RESTART_UNKNOWN, {}, "Unknown", 1),
        (Kind.RUN_ENDED, {"status": "contained"}, "Success", 1),
        (Kind.RUN_ENDED, {"status": "cancelled"}, "Failure", 1),
        (Kind.TICKET_DECIDED, {"approved": False}, "Success", 2),
        (Kind.TICKET_DECIDED, {"approved": True}, "Success", 1),
    ],
)
def test_what_was_refused_and_what_failed_can_be_told(kind: Kind, facts: Any, status: str, action: int) -> None:
    event = ocsf.event(record(kind, FACTS | facts))
    assert (event["status"], event["action_id"]) == (status, action)


def test_who_decided_is_the_actor_of_a_decision() -> None:
    event = ocsf.event(record(Kind.TICKET_DECIDED, FACTS | {"by": CALLER | {"subject": "ada"}, "approved": True}))
    assert event["actor"]["user"]["uid"] == "ada"
    assert event["api"]["operation"] == "approve"


@pytest.mark.parametrize("kind", Kind)
def test_no_text_of_others_breaks_out_of_a_line_of_cef(kind: Kind) -> None:
    facts = FACTS | {"caller": CALLER | {"subject": HOSTILE}, "service": HOSTILE, "outcome": HOSTILE}
    line = cef.line(record(kind, facts))
    assert line.isprintable() or "\u2028" in line or "\x00" in line
    assert "\n" not in line
    head = re.split(r"(?<!\\)\|", line, maxsplit=7)
    assert head[:3] == ["CEF:0", "Guideway", "Guideway"]
    assert head[4] == kind
    keys = re.findall(r"(?:^| )([A-Za-z0-9]+)(?<!\\)=", head[7])
    assert keys[:2] == ["rt", "externalId"]
    assert len(keys) == len(set(keys))
    assert "x" not in keys

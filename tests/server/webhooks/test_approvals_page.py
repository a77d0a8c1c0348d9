"""What the page on approvals says of webhooks is what receivers get."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guideway.interpreter.approvals import TicketState, Who
from guideway.interpreter.notices import Event, of_run, of_ticket
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import Tier
from guideway.server.webhooks.payload import TYPES, body
from guideway.server.webhooks.webhook import key_of, signed
from tests.server.webhooks.notices import SECRET, page, ticket

PAGE = (Path(__file__).parents[3] / "docs" / "approvals.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the block in a language of the chapter on webhooks."""
    chapter = PAGE.partition("## Being told")[2]
    return str(re.findall(rf"^```{language}\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)[0])


def shape(value: Any) -> Any:
    """Return the names in a document, whatever the values."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def test_a_notice_has_the_members_that_are_shown() -> None:
    documented = json.loads(block("json"))
    sent = json.loads(body(of_ticket(Event.PENDING, ticket(), time.time()), page("T")))
    assert shape(sent) == shape(documented)
    now = time.time()
    decided = replace(ticket(), state=TicketState.DENIED, decided_at=now, decided_by=Who("i", "ada"), reason="no")
    told = json.loads(body(of_ticket(Event.DECIDED, decided, now), None))
    assert told["data"].keys() == documented["data"].keys()
    assert told["data"]["decided_by"]["subject"] == "ada"
    run = of_run(
        Event.REVIEW,
        now,
        run_id="r",
        digest="d",
        caller=Principal("mona", frozenset()),
        tier=Tier.REVIEW,
        worst_case={},
        client_says=None,
        ticket=replace(decided, question=replace(decided.question, break_glass="it burns")),
    )
    ran = json.loads(body(run, None))
    assert ran["data"].keys() - documented["data"].keys() == {"run_id"}
    assert (ran["data"]["break_glass"], ran["data"]["reason"]) == ("it burns", "no")
    assert (ran["data"]["tier"], ran["data"]["needs_person"]) == (2, ["tier 3"])


def test_each_event_is_in_the_table_with_its_type() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", PAGE, re.MULTILINE))
    assert rows.pop("events") == "type"  # its head
    assert rows == {event.value: kind for event, kind in TYPES.items()}


@pytest.mark.parametrize(("seconds", "change", "ours"), [(0, b"", True), (600, b"", False), (0, b" ", False)])
def test_the_program_that_verifies_by_hand_does(seconds: int, change: bytes, ours: bool) -> None:
    named: dict[str, Any] = {}
    exec(block("python"), named)  # noqa: S102  # it is the page's own
    sent = body(of_ticket(Event.PENDING, ticket(), time.time()), None)
    headers = signed(key_of(SECRET), "pending_T", time.time() - seconds, sent)
    assert named["is_ours"](SECRET, dict(headers), sent + change) is ours

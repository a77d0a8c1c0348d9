"""What a notice looks like in a chat that takes Slack's incoming webhooks: a text, and blocks where they are drawn.

No word of a caller, a client or an issuer may call people, look like a link or be laid out: in blocks it stands in
``plain_text`` alone, and what of it is in the text has its marks replaced, for Slack's and for Markdown's reading.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from guideway.dsl.ast import COMMANDS
from guideway.interpreter.notices import Event
from guideway.server.webhooks.payload import facts_of, words

_HEADS: Final = {
    Event.PENDING: "Somebody must approve a program",
    Event.DECIDED: "A program was decided on",
    Event.EXPIRED: "A request for approval has expired",
    Event.REVIEW: "A program runs that people are told of",
    Event.BREAK_GLASS: "A program runs in spite of a freeze",
}

#: What both readings of a text take for marks, and signs that look alike and are none.
_MARKS: Final = str.maketrans("*_~`@[]|#\\!", "∗＿∼ˋ＠［］｜＃＼！")  # noqa: RUF001  # that they look alike is the point
_MOST_FIELD: Final = 300  # characters; Slack takes 2,000 before they are escaped
_MOST_TARGETS: Final = 10
_MUTATING: Final = frozenset(command.keyword for command in COMMANDS if command.mutates)
_RUNS: Final = frozenset({Event.REVIEW, Event.BREAK_GLASS})


def body(event: Mapping[str, Any], page: str | None) -> bytes:
    """Return the body to post; ``page`` is where a person reads and decides, None where there is no page."""
    kind, facts = Event(event["event"]), facts_of(event, page)
    head = _head(kind, facts)
    targets = _targets(facts)
    asked_by = facts["asked_by"]
    fields = [
        ("Does at most" if kind in _RUNS else "Would do at most", targets),
        ("Tier", f"{facts['tier']} ({facts['tier_name']})"),
        ("Needs a person" if kind not in _RUNS else "Needed a person", ", ".join(facts.get("needs_person", ()))),
        ("Asked by", f"{asked_by['subject']} at {asked_by['issuer']}"),
        ("Client", asked_by["client"]),
        ("The client calls itself", asked_by["client_says"]),
        ("Tenant", facts["tenant"]),
        ("Why", "; ".join(f"{cause['target']}: {cause['source']}" for cause in facts.get("causes", ()))),
        ("Reason to break the freeze", facts.get("break_glass")),
        ("Decided by", facts["decided_by"]["subject"] if facts.get("decided_by") else None),
        ("In these words", facts.get("reason")),
        ("Until", facts.get("expires_at") if kind is Event.PENDING else None),
        ("Program", f"sha256:{facts['digest'][:16]}"),
    ]
    told = [_plain(f"{name}: {words(value, _MOST_FIELD)}") for name, value in fields if value]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(head)},
        {"type": "section", "fields": told[:10]},  # Slack takes ten in a section
        *([{"type": "section", "fields": told[10:]}] if told[10:] else []),
    ]
    text = f"{_text(head)}: {_text(targets)}; asked by {_text(asked_by['subject'])}"
    if page is not None:
        blocks.append({"type": "actions", "elements": [_link(page)]})
        text += f"\n{_escaped(page)}"
    document = {"text": text, "blocks": blocks, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return json.dumps(document, separators=(",", ":")).encode()


def _head(kind: Event, facts: dict[str, Any]) -> str:
    if kind is not Event.DECIDED:
        return _HEADS[kind]
    return f"A program was {'approved' if facts['state'] == 'approved' else 'refused'}"


def _targets(facts: dict[str, Any]) -> str:
    found = [each for each in facts["targets"] if each["command"] in _MUTATING] or facts["targets"]
    shown = [
        f"{each['command']} {each['target']}" + (f" x{each['times']}" if each["times"] > 1 else "") for each in found
    ]
    more = len(shown) - _MOST_TARGETS + facts["targets_left_out"]
    return ", ".join(shown[:_MOST_TARGETS]) + (f" and {more} more" if more > 0 else "")


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escaped(text), "emoji": False}


def _link(page: str) -> dict[str, Any]:
    return {"type": "button", "text": _plain("Open"), "url": page, "action_id": "open"}


def _text(text: str) -> str:
    """Return somebody's words for a text in which marks count: none of them can be one, and no address is a link."""
    return _escaped(words(text, _MOST_FIELD).translate(_MARKS).replace("://", ":／／"))  # noqa: RUF001


def _escaped(text: str) -> str:
    """Return a text in which Slack sees no mention, channel or link (its "Escaping text")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

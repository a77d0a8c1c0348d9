"""A caller writes what a chat would take for a mention, a link or markup, to make approvers click or look away.

Whatever is in their own words (their names, what their client calls itself, their reason to break a freeze) reaches
the chat as text and nothing else, and bounded, however long it is.
"""

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from guideway.interpreter.approvals import TicketState, Who
from guideway.interpreter.notices import Event, of_run, of_ticket
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import Tier
from guideway.server.webhooks import payload, slack
from tests.server.webhooks.notices import PAGE, page, ticket

ATTACKS = {
    "mention": "<!channel> <!here> <@U024BE7LH> <#C024BE7LR>",
    "link": "<https://evil.example/approve|Approve here>",
    "bare link": "https://evil.example/approve",
    "entity": "&lt;!channel&gt; &amp;lt;!here&amp;gt;",
    "markdown": "[Approve](https://evil.example) ![](https://evil.example/pixel) @channel @all",
    "layout": "*approved* _by_ ~nobody~ `ada`\n> quoted\n```\ncode\n```\n# head",
    "emoji": ":white_check_mark: approved by ada",
    "control": "ada\x1b[2J\x00\u202eknil\u2066\u200b\nTier: 0 (safe)",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "json": '"}],"text":"approved","x":[{"y":"',
    "long": "A" * 1_000_000,
    "long entities": "<&>" * 100_000,
    "surrogate": "ada \ud800",
}


def told(words: str) -> list[dict[str, Any]]:
    """Return what is told of tickets and a run, with somebody's words wherever there can be any."""
    asked = ticket(issuer=words, subject=words, client=words, client_says=words, break_glass=words)
    now = time.time()
    denied = replace(asked, state=TicketState.DENIED, decided_at=now, decided_by=Who(words, words, words), reason=words)
    ran = of_run(
        Event.REVIEW,
        now,
        run_id="r",
        digest="ab" * 32,
        caller=Principal(words, frozenset(), words, words, words),
        tier=Tier.REVIEW,
        worst_case=asked.question.worst_case,
        client_says=words,
        ticket=denied,
    )
    return [of_ticket(Event.PENDING, asked, now), of_ticket(Event.DECIDED, denied, now), ran]


def texts(found: Any) -> list[dict[str, Any]]:
    """Return every text object of a message."""
    if isinstance(found, list):
        return [text for each in found for text in texts(each)]
    if not isinstance(found, dict):
        return []
    inner = [text for each in found.values() for text in texts(each)]
    return [found, *inner] if found.get("type") in ("plain_text", "mrkdwn") else inner


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_chat_sees_text_and_nothing_else(attack: str) -> None:
    for event in told(ATTACKS[attack]):
        body = slack.body(event, page("T"))
        assert len(body) < 20_000
        message = json.loads(body)
        assert set(message) == {"text", "blocks", "mrkdwn", "unfurl_links", "unfurl_media"}
        found = texts(message["blocks"])
        assert found
        for each in found:
            assert (each["type"], each["emoji"]) == ("plain_text", False)
            assert len(each["text"]) <= 2_000
            assert not re.search(r"[<>\x00-\x1f\u202e\u2066\u200b]|&(?!amp;|lt;|gt;)", each["text"])
        text = message["text"]
        assert text.endswith(f"\n{PAGE}T")
        said = text.removesuffix(f"\n{PAGE}T")
        assert not re.search(r"[<>*_~`@\[\]|#!\\\x00-\x1f\u202e\u2066\u200b]|://|&(?!amp;|lt;|gt;)", said)
        assert [each["url"] for block in message["blocks"] for each in block.get("elements", [])] == [f"{PAGE}T"]
        assert max(len(block.get("fields", [])) for block in message["blocks"]) <= 10
        assert len(message["blocks"][0]["text"]["text"]) <= 150


@pytest.mark.parametrize("attack", ATTACKS)
def test_other_receivers_get_bounded_text_without_what_cannot_be_seen(attack: str) -> None:
    for event in told(ATTACKS[attack]):
        body = payload.body(event, page("T"))
        assert len(body) < 20_000
        document = json.loads(body)

        def every(value: Any) -> list[str]:
            if isinstance(value, dict):
                return [each for inner in value.values() for each in every(inner)]
            if isinstance(value, list):
                return [each for inner in value for each in every(inner)]
            return [value] if isinstance(value, str) else []

        for each in every(document):
            assert len(each) <= 500
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2066\u200b\ud800-\udfff]", each)


def test_a_program_with_very_many_targets_stays_small_and_says_what_is_left_out() -> None:
    many = {("RESTART", f"service-{number:05}"): 1 for number in range(5_000)}
    event = of_ticket(Event.PENDING, ticket(worst_case=many), time.time())
    document = json.loads(payload.body(event, None))
    assert len(document["data"]["targets"]) == 50
    assert document["data"]["targets_left_out"] == 4_950
    assert "and 4990 more" in json.loads(slack.body(event, None))["text"]

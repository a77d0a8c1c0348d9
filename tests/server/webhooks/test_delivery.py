"""Notices reach a receiver: signed, again where it failed, each at least once, and never in anybody's way."""

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from standardwebhooks import Webhook as Verifier

from guideway.interpreter.notices import CLAIM_SECONDS, Event, Notice, of_ticket
from guideway.server.webhooks import courier as courier_module
from guideway.server.webhooks.courier import FIRST_WAIT, LONGEST_WAIT, Courier, wait_after, worth_until
from guideway.server.webhooks.posting import post
from guideway.server.webhooks.webhook import Webhook, key_of, signed
from tests.server.certificates import Authority
from tests.server.webhooks.notices import SECRET, page, pending, ticket, webhook
from tests.server.webhooks.outbox import OutboxInMemory
from tests.server.webhooks.receiver import SILENT, receiving, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait long for the next attempt."""
    monkeypatch.setattr(courier_module, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(courier_module, "_IDLE", 0.02)


@asynccontextmanager
async def delivering(outbox: OutboxInMemory, *webhooks: Webhook) -> AsyncIterator[None]:
    async def expire() -> None:
        """There are no tickets."""

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Courier(outbox, webhooks, page).run, expire)
        yield
        tasks.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    await anyio.to_thread.run_sync(wait_until, holds)


async def test_a_notice_arrives_once_with_a_signature_that_others_verify() -> None:
    with receiving() as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending(break_glass="the shop\nis down"))
        async with delivering(outbox, hook):
            await until(lambda: len(outbox.delivered) == 1)
        (received,) = receiver.received
    assert received.headers["content-type"] == "application/json"
    assert received.headers["webhook-id"] == f"pending_{'T' * 24}"
    document = Verifier(SECRET).verify(received.body, received.headers)
    assert document["type"] == "approval.pending"
    data = document["data"]
    assert data["url"] == page("T" * 24)
    assert (data["tier"], data["tier_name"], data["digest"]) == (3, "approval_required", "ab" * 32)
    assert {"command": "RESTART", "target": "database", "times": 2} in data["targets"]
    assert data["asked_by"]["subject"] == "mona"
    assert data["break_glass"] == "the shop is down"
    assert 'RESTART "' not in received.body.decode()  # no program's text


async def test_a_changed_body_and_another_key_do_not_verify() -> None:
    body = b'{"type":"approval.pending"}'
    headers = dict(signed(key_of(SECRET), "pending_1", time.time(), body))
    Verifier(SECRET).verify(body, headers)
    for changed, secret in ((body + b" ", SECRET), (body, f"{SECRET[:-4]}AAAA")):
        with pytest.raises(Exception, match="No matching signature"):
            Verifier(secret).verify(changed, headers)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "not base64 at all, whatever it is", "A" * 120])
def test_a_secret_that_is_none_is_told(secret: str) -> None:
    with pytest.raises(ValueError, match="is no secret of a webhook"):
        key_of(secret)


@pytest.mark.usefixtures("quick")
async def test_a_receiver_that_fails_is_tried_again_until_it_takes_the_notice() -> None:
    with receiving(500, 503, 307, 200, Location="/elsewhere") as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending())
        async with delivering(outbox, hook):
            await until(lambda: len(outbox.delivered) == 1)
        assert outbox.delivered[0].attempts == 4
        assert [each.path for each in receiver.received] == ["/hook"] * 4  # no redirect was followed
        assert len({each.headers["webhook-id"] for each in receiver.received}) == 1
        for each in receiver.received:
            Verifier(SECRET).verify(each.body, each.headers)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    with receiving() as elsewhere, receiving(status, Location=elsewhere.url) as receiver:
        posted = await post(webhook(receiver.url), b"{}", {})
        assert posted.error == f"it answered HTTP {status}, and no redirect is followed"
        assert elsewhere.received == []


async def test_a_receiver_without_an_answer_ends_an_attempt_and_holds_up_nobody() -> None:
    with receiving(*[SILENT] * 8) as silent, receiving() as other:
        slow, quick = webhook(silent.url, name="slow"), webhook(other.url, name="quick")
        outbox = OutboxInMemory(slow, quick)
        began = time.monotonic()
        for number in range(8):
            outbox.enqueue(pending(f"{number:024}"))
        assert time.monotonic() - began < 1.0  # who posts waits for no receiver
        async with delivering(outbox, slow, quick):
            await until(lambda: len(other.received) == 8)
            assert time.monotonic() - began < 8.0  # less than one attempt
        posted = await post(slow, b"{}", {}, seconds=0.2)
    assert posted.error == "no answer within 0.2 s"


async def test_what_never_arrives_is_given_up_and_recorded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(courier_module, "_IDLE", 0.02)
    with receiving(*[500] * 100) as receiver, caplog.at_level(logging.INFO):
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending(lifetime=0.5))
        async with delivering(outbox, hook):
            await until(lambda: [kept.due_at for kept in outbox.kept.values()] == [None])
    (lost,) = await outbox.undelivered(10)
    assert lost.error.startswith("it answered HTTP 500; given up after ")
    assert lost.notice.attempts >= 2
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said == [f"webhook ops: notice pending_{'T' * 24} is undeliverable: {lost.error}"]


async def test_a_receiver_that_is_gone_is_given_up_at_once() -> None:
    with receiving(410) as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending())
        await Courier(outbox, [hook], page).run_for(10.0)
        (lost,) = await outbox.undelivered(10)
        assert (lost.due_at, lost.error) == (None, "it answered HTTP 410; given up after 1 attempt")
        assert len(receiver.received) == 1


@pytest.mark.usefixtures("quick")
async def test_whoever_is_lost_between_claim_and_delivery_leaves_the_notice_to_others() -> None:
    with receiving() as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending() | {"at": time.time() - CLAIM_SECONDS})
        (lost,) = await outbox.claim(time.time() - CLAIM_SECONDS + 0.5, 1, hook.name)  # and dies here
        await Courier(outbox, [hook], page).run_for(0.1)
        assert receiver.received == []  # it may be under way
        async with delivering(outbox, hook):
            await until(lambda: len(outbox.delivered) == 1)
        assert (lost.attempts, outbox.delivered[0].attempts) == (0, 2)


async def test_two_couriers_do_not_deliver_the_same_notice_at_once() -> None:
    with receiving() as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        for number in range(30):
            outbox.enqueue(pending(f"{number:024}"))
        async with delivering(outbox, hook), delivering(outbox, hook), delivering(outbox, hook):
            await until(lambda: len(outbox.delivered) == 30)
        ids = [each.headers["webhook-id"] for each in receiver.received]
    assert len(ids) == len(set(ids)) == 30


@pytest.mark.parametrize("kind", ["json", "slack"])
async def test_a_notice_of_another_version_stops_no_other(kind: Any) -> None:
    with receiving() as receiver:
        hook = webhook(receiver.url, format=kind)
        outbox = OutboxInMemory(hook)
        outbox.enqueue({"event": "pending", "at": time.time(), "ticket": "new", "tier": 7, "targets": []})
        outbox.enqueue(pending())
        async with delivering(outbox, hook):
            await until(lambda: len(outbox.delivered) == 1)
            await until(lambda: [kept.due_at for kept in outbox.kept.values()] == [None])
    (lost,) = await outbox.undelivered(10)
    assert lost.error.startswith("what is kept of it is not what this version writes")


async def test_what_a_command_cannot_deliver_in_time_is_left_for_a_server() -> None:
    with receiving(SILENT) as receiver:
        hook = webhook(receiver.url)
        outbox = OutboxInMemory(hook)
        outbox.enqueue(pending())
        began = time.monotonic()
        await Courier(outbox, [hook], page).run_for(0.3)
        assert time.monotonic() - began < 3.0
        (waits,) = await outbox.undelivered(10)
        assert waits.due_at is not None
        assert waits.error == "its answer was not waited for"
        receiver.over.set()
        async with delivering(outbox, hook):  # at once: the claim was given back
            await until(lambda: len(outbox.delivered) == 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest", "link-local, where clouds keep credentials"),
        ("http://[fd00:ec2::254]/latest", "where a cloud keeps credentials"),
        ("http://127.0.0.1:9/hook", "connection refused"),
        ("http://nowhere.invalid/hook", "the address does not resolve"),
    ],
)
async def test_where_nothing_is_sent_and_why(url: str, words: str) -> None:
    posted = await post(webhook(url), b"{}", {})
    assert posted.error is not None
    assert words in posted.error
    assert "/hook" not in posted.error  # the path may be a secret


async def test_tls_is_verified_by_the_name_in_the_url(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with receiving(tls=authority.server()) as receiver:
        posted = await post(webhook(receiver.url), b"{}", {})
        assert posted.error is not None
        assert posted.error.startswith("its certificate is not trusted: ")
        trusting = webhook(receiver.url, trust=authority.trusting())
        assert (await post(trusting, b"{}", {})).error is None
        wrong = webhook(receiver.url.replace("127.0.0.1", "127.0.0.2"), trust=authority.trusting())
        assert (await post(wrong, b"{}", {})).error is not None
        assert len(receiver.received) == 1


async def test_a_receiver_can_ask_for_time_and_does_not_get_more_than_there_is() -> None:
    with receiving(429, Retry_After="7") as receiver:
        posted = await post(webhook(receiver.url), b"{}", {})
    assert (posted.error, posted.retry_after) == ("it answered HTTP 429", 7.0)
    assert wait_after(1, 7.0) == 7.0
    assert wait_after(1, 10**9) == LONGEST_WAIT


def test_waiting_doubles_with_chance_in_it_and_has_an_end() -> None:
    for attempts in range(1, 40):
        expected = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempts - 1))
        found = {wait_after(attempts) for _ in range(50)}
        assert all(expected / 2 <= each <= expected for each in found)
        assert len(found) > 1


def test_nobody_is_asked_to_decide_on_what_has_expired() -> None:
    asked = ticket(lifetime=300)
    for kind, until in ((Event.PENDING, asked.expires_at), (Event.EXPIRED, asked.created_at + 86_400)):
        notice = Notice("1", "ops", of_ticket(kind, asked, asked.created_at), 0, asked.created_at)
        assert worth_until(notice) == until

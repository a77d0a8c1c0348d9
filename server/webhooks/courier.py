"""Delivers notices from the outbox to webhooks: each until it has arrived, or for as long as it is worth it.

One that fails is tried again after a time that doubles, with chance in it so that not all come back together. Each
webhook has a line of its own: one that does not answer holds up nobody else, and nothing here holds up a run.
"""

import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from guideway.interpreter.notices import Event, Notice, Outbox
from guideway.interpreter.records import StoreUnavailable
from guideway.server.door_watch import Delivery, DoorWatch
from guideway.server.webhooks import payload, slack
from guideway.server.webhooks.posting import Posted, post
from guideway.server.webhooks.webhook import Webhook, signed

_log: Final = logging.getLogger(__name__)

FIRST_WAIT: Final = 2.0
LONGEST_WAIT: Final = 900.0
"""Seconds between two attempts, at least and at most; what a receiver asks for by Retry-After counts up to here."""

WORTH_SECONDS: Final = 86_400.0
"""For which a notice is worth being told. A ticket to decide on is until it expires, if that is sooner."""

_AT_ONCE: Final = 4  # attempts to one webhook
_IDLE: Final = 1.0  # seconds between two looks for what is due
_STORE_WAIT: Final = 10.0  # seconds, where the store cannot be used
_EXPIRING: Final = 2.0  # seconds between two looks for tickets whose time is over
_MOST_TRIES: Final = 20  # from here on, doubling changes nothing

#: Returns the address of the page of a ticket, None where there is none.
Page = Callable[[str], str | None]

#: Lets tickets expire whose time is over, so that people are told although nobody looks. May raise
#: ``StoreUnavailable``.
Expire = Callable[[], Awaitable[object]]


class Courier:
    """Delivers what is due. Several may, in one process or in many: a notice is one's at a time."""

    def __init__(
        self, outbox: Outbox, webhooks: Sequence[Webhook], page: Page, *, watch: DoorWatch | None = None
    ) -> None:
        self._watch = watch
        self._outbox = outbox
        self._webhooks = webhooks
        self._page = page

    async def run(self, expire: Expire) -> None:
        """Deliver until cancelled."""
        async with anyio.create_task_group() as tasks:
            for webhook in self._webhooks:
                tasks.start_soon(self._serve, webhook)
            tasks.start_soon(self._look_for_expired, expire)

    async def run_for(self, seconds: float) -> None:
        """Deliver what is due now, for so long at most; the rest is left for a server."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for webhook in self._webhooks:
                    tasks.start_soon(self._once, webhook)

    async def _once(self, webhook: Webhook) -> None:
        try:
            while await self.deliver(webhook):
                pass
        except StoreUnavailable as error:
            _log.error("webhook %s: the outbox: %s", webhook.name, error)

    async def _serve(self, webhook: Webhook) -> None:
        broken = False
        while True:
            wait = _IDLE
            try:
                if await self.deliver(webhook):
                    wait = 0.0
                broken = False
            except StoreUnavailable as error:
                if not broken:
                    _log.error("webhook %s: the outbox: %s", webhook.name, error)
                broken, wait = True, _STORE_WAIT
            await anyio.sleep(wait)

    async def _look_for_expired(self, expire: Expire) -> None:
        while True:
            try:
                await expire()
            except StoreUnavailable:  # which ``_serve`` tells
                await anyio.sleep(_STORE_WAIT)
            await anyio.sleep(_EXPIRING)

    async def deliver(self, webhook: Webhook) -> bool:
        """Try what is due for a webhook now, a few at once; say whether there was anything.

        Raises ``StoreUnavailable``.
        """
        found = await self._outbox.claim(time.time(), _AT_ONCE, webhook.name)
        try:
            async with anyio.create_task_group() as tasks:
                for notice in found:
                    tasks.start_soon(self._try, webhook, notice)
        except* StoreUnavailable as errors:
            raise StoreUnavailable(str(errors.exceptions[0])) from None
        return bool(found)

    async def _try(self, webhook: Webhook, notice: Notice) -> None:
        try:
            posted = await self._post(webhook, notice)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):  # else nobody would try it before the claim ends
                await self._outbox.again(notice.id, time.time(), "its answer was not waited for")
            raise
        await self._keep(webhook, notice, posted)

    async def _post(self, webhook: Webhook, notice: Notice) -> Posted:
        ticket = notice.event.get("ticket")
        page = self._page(ticket) if ticket else None
        try:
            body = (slack if webhook.format == "slack" else payload).body(notice.event, page)
        except (KeyError, TypeError, ValueError):  # one that reads otherwise must not stop the others
            return Posted("what is kept of it is not what this version writes", gone=True)
        return await post(webhook, body, signed(webhook.key, message_id(notice), time.time(), body))

    async def _keep(self, webhook: Webhook, notice: Notice, posted: Posted) -> None:
        attempts, kind = notice.attempts + 1, notice.event["event"]
        if posted.error is None:
            self._delivered(webhook, Delivery.DELIVERED)
            await self._outbox.done(notice.id)
            return
        now = time.time()
        due_at = now + wait_after(attempts, posted.retry_after)
        if posted.gone or due_at > worth_until(notice):
            why = f"{posted.error}; given up after {attempts} attempt{'s' if attempts > 1 else ''}"
            self._delivered(webhook, Delivery.GIVEN_UP)
            _log.error("webhook %s: notice %s is undeliverable: %s", webhook.name, message_id(notice), why)
            await self._outbox.give_up(notice.id, why)
            return
        self._delivered(webhook, Delivery.RETRIED)
        _log.log(
            logging.WARNING if attempts == 1 else logging.INFO,
            "webhook %s: notice of kind %s did not arrive and is tried again in %.0f s: %s",
            *(webhook.name, kind, due_at - now, posted.error),
        )
        await self._outbox.again(notice.id, due_at, posted.error)

    def _delivered(self, webhook: Webhook, outcome: Delivery) -> None:
        if self._watch is not None:
            self._watch.delivered(webhook.name, outcome)


def message_id(notice: Notice) -> str:
    """Return what receivers tell a second copy by: the same for each attempt, and for each webhook."""
    event = notice.event
    return f"{event['event']}_{event.get('run_id') or event.get('ticket')}"


def wait_after(attempts: int, retry_after: float | None = None) -> float:
    """Return the seconds to wait after so many attempts: doubled each time, from half of it on by chance."""
    doubled = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempts - 1, _MOST_TRIES))
    asked = min(retry_after or 0.0, LONGEST_WAIT)
    return max(asked, doubled * random.uniform(0.5, 1.0))  # noqa: S311  # nothing depends on its being unguessable


def worth_until(notice: Notice) -> float:
    """Return until when a notice is worth delivering: who cannot decide any more need not be asked to."""
    until: float = notice.created_at + WORTH_SECONDS
    if notice.event["event"] == Event.PENDING:
        until = min(until, notice.event["expires_at"])
    return until

"""An outbox of one process, for tests of what stands above a store: the store has its own tests."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from guideway.interpreter.notices import CLAIM_SECONDS, Notice, Undelivered
from guideway.server.webhooks.webhook import Webhook


@dataclass
class Kept:
    """A notice, when it is due (None: given up), and why it did not arrive."""

    notice: Notice
    due_at: float | None
    error: str | None = None


class OutboxInMemory:
    """Notices by their id. ``done`` ones are in ``delivered``."""

    def __init__(self, *webhooks: Webhook) -> None:
        self.kept: dict[str, Kept] = {}
        self.delivered: list[Notice] = []
        self._webhooks = webhooks

    def enqueue(self, event: Mapping[str, Any]) -> None:
        for webhook in self._webhooks:
            if event["event"] in webhook.events:
                notice = Notice(f"{len(self.kept) + len(self.delivered)}", webhook.name, dict(event), 0, event["at"])
                self.kept[notice.id] = Kept(notice, event["at"])

    async def claim(self, now: float, most: int, webhook: str) -> list[Notice]:
        due = [
            kept
            for kept in self.kept.values()
            if kept.notice.webhook == webhook and kept.due_at is not None and kept.due_at <= now
        ]
        found = [kept.notice for kept in due[:most]]
        for notice in found:
            self.kept[notice.id] = Kept(replace(notice, attempts=notice.attempts + 1), now + CLAIM_SECONDS)
        return found

    async def done(self, notice_id: str) -> None:
        self.delivered.append(self.kept.pop(notice_id).notice)

    async def again(self, notice_id: str, at: float, error: str) -> None:
        self.kept[notice_id] = replace(self.kept[notice_id], due_at=at, error=error)

    async def give_up(self, notice_id: str, error: str) -> None:
        self.kept[notice_id] = replace(self.kept[notice_id], due_at=None, error=error)

    async def undelivered(self, most: int) -> list[Undelivered]:
        found = [Undelivered(kept.notice, kept.due_at, kept.error) for kept in self.kept.values() if kept.error]
        return found[::-1][:most]

"""What ``guideway doctor`` says of webhooks: whether each can be signed for, and who was not told. It posts nothing."""

from collections.abc import Iterator
from typing import Final

import anyio

from guideway.interpreter.notices import Undelivered
from guideway.interpreter.records import StoreUnavailable
from guideway.server import wiring
from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError
from guideway.server.stores import is_there
from guideway.server.webhooks.configured import configured

_MOST: Final = 1_000


def look_at_webhooks(config: Config) -> Iterator[Finding]:
    """Yield what is found of each webhook, in the order of the file."""
    if not config.approvals.webhooks:
        return
    try:
        configured(config)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding(Grade.WRONG, "webhooks", problem.message, "mend the file or the variable, or name another")
    undelivered = anyio.run(_undelivered, config) if is_there(config) else []
    for name in config.approvals.webhooks:
        yield _of(name, [each for each in undelivered if each.notice.webhook == name])


def _of(name: str, undelivered: list[Undelivered]) -> Finding:
    if not undelivered:
        return Finding(Grade.OK, f"webhook {name}", "nothing is known that did not arrive")
    lost = [each for each in undelivered if each.due_at is None]
    waiting = len(undelivered) - len(lost)
    said = [f"{len(lost)} undeliverable"] if lost else []
    said += [f"{waiting} not delivered yet"] if waiting else []
    mend = "mend its address or its receiver; `guideway approvals list` says which these are, and they go after 90 days"
    return Finding(Grade.WRONG, f"webhook {name}", f"{', '.join(said)}, the last one: {undelivered[0].error}", mend)


async def _undelivered(config: Config) -> list[Undelivered]:
    """Return what did not arrive; nothing where the store cannot be used, which is told where the store is."""
    pipeline = wiring.build(config)
    try:
        return [] if pipeline.gate.outbox is None else await pipeline.gate.outbox.undelivered(_MOST)
    except StoreUnavailable:
        return []
    finally:
        with anyio.CancelScope(shield=True):
            await pipeline.close()

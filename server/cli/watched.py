"""A run that somebody watches: its list lives while it goes on, a signal cancels it, and one more ends the process."""

import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from guideway.server.cli.steps import StepList
from guideway.server.last_signal import end_at_next_signal

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def watch(run: Callable[[], Awaitable[None]], steps: StepList) -> int | None:
    """Run something until it ends or a signal comes, which cancels it; return the signal."""
    received: list[int] = []

    async def cancel_at_signal(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as numbers:
            task_status.started()
            async for number in numbers:
                received.append(number)
                break
        end_at_next_signal()
        steps.cancelling()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        await tasks.start(cancel_at_signal)
        tasks.start_soon(steps.live)
        await run()
        tasks.cancel_scope.cancel()
    return received[0] if received else None

"""One run of a call's program: its progress, to a client that asked for it, and its end, in the log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Event, Report
from guideway.interpreter.weighing import Asked
from guideway.server.oauth.refusal_log import set_recorded
from guideway.server.progress import Progress
from guideway.server.render import event_line
from guideway.server.run_log import log_run
from guideway.server.runs import Runs


class ToolRun:
    """Runs programs by a pipeline, each of which ``runs`` counts and may cancel."""

    def __init__(self, pipeline: Pipeline, runs: Runs) -> None:
        self._pipeline = pipeline
        self._runs = runs

    async def until_cancelled(self, program: str, asked: Asked, caller: Principal, progress: Progress) -> Report:
        """Run a program; return its report, also where ``cancel_calls`` ended it.

        A client's own cancellation is raised: it wants no answer.
        """
        ended: list[Report] = []

        def end(report: Report) -> None:
            log_run(report, caller, asked.ticket)  # here, because whoever cancels a run gets no report of it
            self._runs.ended(report)
            ended.append(report)

        with self._runs.one():
            await self._run(program, asked, caller, progress, end)
        [report] = ended
        return report

    async def _run(
        self, program: str, asked: Asked, caller: Principal, progress: Progress, end: Callable[[Report], None]
    ) -> None:
        """Run a program, and report progress to a client that asked for it; ``end`` is given the report in any case.

        A disconnect cancels this task.
        """
        if not progress.asked:
            with _told_by_its_run():
                report = await self._pipeline.run(program, caller, asked=asked, on_cancel=end)
            end(report)
            return
        # An observer must not wait, so the events lie in a stream until the client has taken them; there are at most
        # three for each command of a program. Nor may it raise: the stream is whole until the pipeline has ended, also
        # where ``tell`` was cancelled first.
        send, receive = anyio.create_memory_object_stream[Event](float("inf"))

        async def tell() -> None:
            async for event in receive:
                await progress.tell(event_line(event))

        with receive:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell)
                with send:
                    observe = send.send_nowait
                    with _told_by_its_run():
                        report = await self._pipeline.run(program, caller, asked=asked, observe=observe, on_cancel=end)
                    end(report)


@contextmanager
def _told_by_its_run() -> Iterator[None]:
    """Let what breaks a run off leave no record beside the one of the run's end, which the pipeline has put."""
    try:
        yield
    except BaseException:
        set_recorded()
        raise

"""The steps of a run as they happen: a list that lives on a terminal, plain lines elsewhere.

What it shows is ``render``'s; here is only where and when. A reader who goes away must not stop a pipeline half-way:
what cannot be written any more is dropped.
"""

import os
from typing import Final

import anyio

from guideway.interpreter.results import Event, Outcome, Step
from guideway.server.cli.console import BACK_AND_CLEAR, BOLD, DIM, GREEN, RED, YELLOW, Console, Span, is_lively
from guideway.server.render import event_line, output_lines

_COLORS: Final = {Outcome.OK: GREEN, Outcome.FAILED: RED, Outcome.RUNNING: DIM}


class StepList:
    """Shows events: it is the pipeline's observer. ``quiet`` shows nothing."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._lives = not quiet and is_lively(console.stream)
        self._running: str | None = None
        self._since = 0.0
        self._ends: float | None = None  # of what is waited for, and counted down to

    def __call__(self, event: Event) -> None:
        """Show one event."""
        self.show(event_line(event), event.outcome if isinstance(event, Step) else None)
        if isinstance(event, Step):
            self.output(event)

    def show(self, line: str, outcome: Outcome | None) -> None:
        """Show the line of one event: of a step with this outcome, or of none."""
        if outcome is Outcome.RUNNING:
            self._running, self._since, self._ends = line, anyio.current_time(), None
            self._draw()
            return
        if outcome is not None:
            self._running = None
        self.line(*_colored(line, outcome))

    def wait(self, what: str, seconds: float) -> None:
        """Show what is waited for, with the seconds that are left for it: counted down where the list lives."""
        if self._lives:
            self._running, self._ends = what, anyio.current_time() + seconds
            self._draw()
        else:
            self.line((f"{what}, {seconds:.0f} s left", YELLOW))

    def wait_no_more(self) -> None:
        """Take the line of what is waited for away."""
        if self._lives and self._ends is not None:
            self._running = self._ends = None
            self._write(BACK_AND_CLEAR)

    @property
    def lives(self) -> bool:
        """Whether it draws over what it drew."""
        return self._lives

    def output(self, step: Step) -> None:
        """Show what the service of a step said itself, where a person wants to read it."""
        for line in output_lines(step) if step.outcome is not Outcome.RUNNING else ():
            self.line((line, DIM))

    def line(self, *spans: Span) -> None:
        """Write a line of its own, in the place of the one that lives."""
        if self._quiet:
            return
        self._write((BACK_AND_CLEAR if self._lives else "") + self._console.spans(*spans) + "\n")

    def cancelling(self) -> None:
        """Say that a signal was heard, where somebody watches: a restart under way takes its time to be given up."""
        if self._ends is not None:
            self.wait_no_more()
        elif self._lives:
            self.line(("cancelling: a restart under way still asks for the start", YELLOW))
            self._running = None  # what else is written meanwhile finds an empty line

    async def live(self) -> None:
        """Keep the time beside the running step, until it is cancelled."""
        while self._lives:
            self._draw()
            await anyio.sleep(0.2)

    def _draw(self) -> None:
        if not self._lives or self._running is None:
            return
        now = anyio.current_time()
        if self._ends is None:
            line = f"{self._running} {now - self._since:.0f} s"
        else:
            line = f"{self._running}, {max(0.0, self._ends - now):.0f} s left"
        try:
            columns = os.get_terminal_size(self._console.stream.fileno()).columns or 80  # 0: it does not know
        except OSError:
            columns = 80
        # A line that wraps could not be taken back.
        self._write(BACK_AND_CLEAR + self._console.spans((line[: max(columns - 1, 1)], DIM)))

    def _write(self, text: str) -> None:
        try:
            self._console.stream.write(text)
            self._console.stream.flush()
        except OSError:
            self._console.drop()


def _colored(line: str, outcome: Outcome | None) -> tuple[Span, ...]:
    if outcome is None:  # a containment
        return ((line, YELLOW),)
    # A step's number, its outcome in the colour of it, and the rest.
    head, word, rest = line.partition(outcome.value)
    return head, (word, f"{BOLD};{_COLORS.get(outcome, YELLOW)}"), rest

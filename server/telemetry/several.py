"""Several that watch runs, as one."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from guideway.interpreter.results import Report, Step
from guideway.interpreter.watch import Gate, Watch


class Several:
    """Tells each of them what it is told (``Watch``)."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches

    @contextmanager
    def gate(self, gate: Gate) -> Iterator[None]:
        """See ``Watch``."""
        with ExitStack() as stack:
            for watch in self._watches:
                stack.enter_context(watch.gate(gate))
            yield

    def stepped(self, step: Step) -> None:
        """See ``Watch``."""
        for watch in self._watches:
            watch.stepped(step)

    def waited(self, seconds: float, *, got: bool) -> None:
        """See ``Watch``."""
        for watch in self._watches:
            watch.waited(seconds, got=got)

    def ran(self, report: Report) -> None:
        """See ``Watch``."""
        for watch in self._watches:
            watch.ran(report)

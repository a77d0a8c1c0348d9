"""What this program and its libraries log, on standard error: each line cleaned, because a record may quote anybody."""

import logging
import sys
from typing import TextIO

from guideway.server.cli.console import BACK_AND_CLEAR, clean, is_lively


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record whose later lines stand indented, so that none can pass for a record of its own."""
        first, *rest = super().format(record).split("\n")
        # On a terminal a step may be shown as running: a record takes the place of that line, which is drawn anew.
        start = BACK_AND_CLEAR if is_lively(sys.stderr) else ""
        return start + "\n".join([clean(first), *(f"  {clean(line)}" for line in rest)])


class _Handler(logging.StreamHandler[TextIO]):
    """The one of this program: by it is known that nobody else has configured logging."""


def log_from(level: str) -> None:
    """Write what this program logs from a level of ``LEVELS`` on, and what its libraries do from ``warning`` on.

    Below that, libraries write down what they are sent: the text of a program, say. Where logging was configured
    already it stays as it is.
    """
    if not any(isinstance(handler, _Handler) for handler in logging.getLogger().handlers):
        return
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.WARNING))
    logging.getLogger("guideway").setLevel(number)


def show_log() -> None:
    """Write warnings and errors to standard error. Where logging is configured already it stays as it is."""
    if logging.getLogger().handlers:
        return
    handler = _Handler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)

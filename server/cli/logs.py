"""What this program and its libraries log, on standard error: each line cleaned, because a record may quote anybody."""

import logging
import sys

from guideway.server.cli.console import BACK_AND_CLEAR, clean, is_lively


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record whose later lines stand indented, so that none can pass for a record of its own."""
        first, *rest = super().format(record).split("\n")
        # On a terminal a step may be shown as running: a record takes the place of that line, which is drawn anew.
        start = BACK_AND_CLEAR if is_lively(sys.stderr) else ""
        return start + "\n".join([clean(first), *(f"  {clean(line)}" for line in rest)])


def show_log() -> None:
    """Write warnings and errors to standard error. Where logging is configured already it stays as it is."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)

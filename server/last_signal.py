"""What one more signal does to a process that is winding down already: it ends at once, whatever it is in the midst of.

Libraries wind down at their own pace, and some take an interrupt for one more error to tidy up after. Whoever sends a
signal again does not want to wait for any of that.
"""

import logging
import os
import signal
from typing import Final

_log: Final = logging.getLogger(__name__)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_at_next_signal() -> None:
    """Let the next SIGINT, SIGTERM or SIGHUP end this process: with 128 and its number, as shells count."""
    for number in _SIGNALS:
        signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    try:
        _log.warning("a signal came while this was ending, so that it ends at once: a restart may be half done")
    finally:
        os._exit(128 + number)

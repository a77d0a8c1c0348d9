"""What this program and its libraries log, on standard error: each line cleaned, because a record may quote anybody.

A record is a line for people, or one object of JSON for whatever gathers logs. Fields of a record come with it as
``extra={"fields": …}``: names and values of JSON.
"""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from guideway.server.cli.console import BACK_AND_CLEAR, Console, clean, is_lively
from guideway.server.sections import LogFormat

_CORRELATED = ("trace_id", "span_id")
"""What tracing adds to the records that are made within a span."""


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record whose later lines stand indented, so that none can pass for a record of its own."""
        first, *rest = super().format(record).split("\n")
        if (trace := getattr(record, "trace_id", None)) is not None:
            first += f" trace_id={trace}"
        # On a terminal a step may be shown as running: a record takes the place of that line, which is drawn anew.
        start = BACK_AND_CLEAR if is_lively(sys.stderr) else ""
        return start + "\n".join([clean(first), *(f"  {clean(line)}" for line in rest)])


class JsonFormatter(logging.Formatter):
    """One object a record, in one line of ASCII: whatever a record quotes, it can begin no line and no field."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and its fields."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {name: value for name in _CORRELATED if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            said["stack"] = self.formatStack(record.stack_info)
        # What every record has comes first, and no field can take its place.
        return json.dumps(said | {**getattr(record, "fields", {}), **said}, default=str)


class _Handler(logging.StreamHandler[TextIO]):
    """The one of this program: by it is known that nobody else has configured logging."""


def _own() -> list[_Handler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, _Handler)]


def log_from(level: str, form: LogFormat = "text") -> None:
    """Write what this program logs from a level of ``LEVELS`` on, and what its libraries do from ``warning`` on.

    Below that, libraries write down what they are sent: the text of a program, say. Where logging was configured
    already it stays as it is.
    """
    if not (own := _own()):
        return
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.WARNING))
    logging.getLogger("guideway").setLevel(number)
    if form == "json":
        for handler in own:
            handler.setFormatter(JsonFormatter())


def correlate(add: Callable[[logging.LogRecord], bool]) -> None:
    """Have each record that is written looked at first, so that it can be given its ``trace_id`` and ``span_id``."""
    for handler in _own():
        handler.addFilter(add)


def show_log() -> None:
    """Write warnings and errors to standard error. Where logging is configured already it stays as it is."""
    if logging.getLogger().handlers:
        return
    handler = _Handler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def teller(console: Console, form: LogFormat, name: str) -> Callable[[str], None]:
    """Return what tells people on a console what a command does, whatever is logged; as records where those are JSON.

    ``name`` is that of the records' logger.
    """
    if form == "text":
        return console.line
    formatter = JsonFormatter()

    def tell(text: str) -> None:
        record = logging.LogRecord(name, logging.INFO, "", 0, "%s", (text,), None)
        console.stream.write(formatter.format(record) + "\n")

    return tell

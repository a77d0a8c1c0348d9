"""What ``guideway doctor`` says of how the server is seen: what is on, and whether it can be reached.

It sends the collector a request without any span, which is one that a collector takes.
"""

import http.client
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError
from guideway.server.listen import authorities, listen
from guideway.server.telemetry.opened import require_installed
from guideway.server.telemetry_sections import MetricsSection, TelemetrySection

_SECONDS: Final = 3.0
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_MOST: Final = 200  # characters of what a library says


def look_at_telemetry(config: Config) -> Iterator[Finding]:
    """Yield what is found of each that is on, and nothing of what is off."""
    for name, look in (("metrics", _metrics), ("telemetry", _telemetry)):
        section = getattr(config, name)
        if section is None:
            continue
        try:
            require_installed(config, name)
        except ConfigError as error:
            yield Finding(Grade.WRONG, name, error.problems[0].message)
        else:
            yield look(section)


def _metrics(section: MetricsSection) -> Finding:
    """Ask for metrics where a server would have them; where nobody answers, see whether one could."""
    where = next(authorities(section.host, section.port))
    if section.port == 0:
        return Finding(Grade.OK, "metrics", "`guideway serve` takes a free port for them, and says which")
    connection = http.client.HTTPConnection(section.host, section.port, timeout=_SECONDS)
    try:
        connection.request("GET", "/metrics")
        is_ours = b"guideway_build_info" in connection.getresponse().read(1_000_000)
    except ConnectionRefusedError:
        return _listens(section, where)
    except (OSError, http.client.HTTPException):
        is_ours = False
    finally:
        connection.close()
    if is_ours:
        return Finding(Grade.OK, "metrics", f"a server has them at http://{where}/metrics")
    return Finding(
        Grade.WRONG, "metrics", f"something else answers at {where}", "name another `port` in [metrics], or end that"
    )


def _listens(section: MetricsSection, where: str) -> Finding:
    try:
        listen(section.host, section.port).close()
    except OSError as error:
        reason = str(error.args[-1]).lower()
        mend = "name an address of this machine as `host` in [metrics], and a `port` that this user may take"
        return Finding(Grade.WRONG, "metrics", f"{where} cannot be listened on: {reason}", mend)
    return Finding(
        Grade.OK, "metrics", f"`guideway serve` will have them at http://{where}/metrics; none runs here now"
    )


def _telemetry(section: TelemetrySection) -> Finding:
    from guideway.server.telemetry.tracing import endpoint, exporter  # noqa: PLC0415  # of an extra

    where = endpoint(section)
    try:
        sends = exporter(section, seconds=_SECONDS)
    except ValueError as error:
        return Finding(Grade.WRONG, "telemetry", str(error), "mend the file, or name another")
    with _overheard() as said:
        done = sends.export(()).name == "SUCCESS"
        sends.shutdown()
    if done:
        return Finding(Grade.OK, "telemetry", f"traces can be sent to {where}")
    why = said[0][:_MOST] if said else "it did not take an empty request"
    mend = "start the collector, or mend `endpoint` in [telemetry]; calls go on without it, and spans are dropped"
    return Finding(Grade.WRONG, "telemetry", f"traces cannot be sent to {where}: {why}", mend)


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Give what the exporter says of what went wrong, which it tells nobody but the log."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            said.append(
                ", ".join(
                    _words(each) for each in arguments if each != "spans" and isinstance(each, Exception | str | int)
                )
            )

    logger, listener = logging.getLogger(_EXPORTER), Listener()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagates


def _words(argument: Exception | str | int) -> str:
    """Return what a record says: of an error the cause of all its causes, as the system names it."""
    if not isinstance(argument, Exception):
        return str(argument)
    error: BaseException = argument
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)

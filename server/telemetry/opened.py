"""What the configuration asks for of metrics and traces, put together; and how long it is there."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from guideway.interpreter.extras import install
from guideway.interpreter.records import Records
from guideway.interpreter.watch import StoreWatch, Watch
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import FILE_NAME
from guideway.server.door_watch import DoorWatch

if TYPE_CHECKING:
    from mcp.server.context import ServerMiddleware

    from guideway.server.telemetry.metrics import Metrics
    from guideway.server.telemetry.tracing import Tracing

FLUSH_SECONDS: Final = 5.0
"""Seconds that an end waits until a collector has the last spans."""


_PACKAGES: Final = {
    "metrics": ("prometheus_client",),
    "telemetry": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}
"""What is loaded, by the extra that has it and the table that asks for it."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Whoever watches, None where nobody does; ``calls`` is a middleware of the protocol server."""

    config: Config
    metrics: "Metrics | None"
    tracing: "Tracing | None"
    watch: Watch

    @property
    def store(self) -> StoreWatch | None:
        """Who watches the store."""
        return self.metrics

    @property
    def doors(self) -> DoorWatch | None:
        """Who watches the doors."""
        return self.metrics

    def calls(self, tool: str) -> "ServerMiddleware[Any] | None":
        """Return what makes a span of each call, None where nothing does."""
        if self.tracing is None:
            return None
        from guideway.server.telemetry.call_spans import CallSpans  # noqa: PLC0415  # only where there are traces

        return CallSpans(self.tracing.tracer, tool)

    @asynccontextmanager
    async def running(self, records: Records | None, tell: Callable[[str], None]) -> AsyncIterator[None]:
        """Serve metrics, and send what is left of traces at the end. ``tell`` is told where metrics are.

        Raises ``OSError`` where the address of metrics cannot be bound.
        """
        try:
            async with AsyncExitStack() as stack:
                if self.metrics is not None and self.config.metrics is not None:
                    from guideway.server.telemetry import exposition  # noqa: PLC0415  # only where there are metrics

                    serving = exposition.serving(self.metrics, self.config.metrics, records)
                    tell(f"metrics are at {await stack.enter_async_context(serving)}")
                yield
        finally:
            if self.tracing is not None:
                with anyio.CancelScope(shield=True):  # it has its bound
                    await self.tracing.close(FLUSH_SECONDS)


def open_telemetry(config: Config) -> Telemetry | None:
    """Return what the configuration asks for, None for nothing. Raises ``ConfigError``."""
    metrics, tracing = None, None
    watches: list[Watch] = []
    if config.metrics is not None:
        require_installed(config, "metrics")
        from guideway.server.telemetry.metrics import Metrics  # noqa: PLC0415  # of an extra

        watches.append(metrics := Metrics())
    if config.telemetry is not None:
        require_installed(config, "telemetry")
        from guideway.server.telemetry.tracing import Tracing  # noqa: PLC0415  # of an extra

        try:
            watches.append(tracing := Tracing(config.telemetry))
        except ValueError as error:
            raise _error(config, str(error)) from None
    if not watches:
        return None
    from guideway.server.telemetry.several import Several  # noqa: PLC0415  # as above

    return Telemetry(config, metrics, tracing, watches[0] if len(watches) == 1 else Several(watches))


def require_installed(config: Config, extra: str) -> None:
    """Raise ``ConfigError`` where a package of an extra is not there; load none of them."""
    for package in _PACKAGES[extra]:
        if not _is_installed(package):
            raise _error(config, f"[{extra}] needs the package `{package}`; {install(extra)}")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it would be in is not there
        return False


def _error(config: Config, message: str) -> ConfigError:
    return ConfigError(config.path or Path(FILE_NAME), [Problem(message)])

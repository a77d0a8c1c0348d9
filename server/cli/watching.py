"""How ``guideway serve`` is watched, as the configuration says; where it says nothing, nothing of it is loaded."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from guideway.interpreter.pipeline import Pipeline
from guideway.server import wiring
from guideway.server.cli.command import Complaint
from guideway.server.cli.configured import complaint
from guideway.server.cli.logs import correlate
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError
from guideway.server.tool import TOOL_NAME, ToolServer

if TYPE_CHECKING:
    from guideway.server.telemetry.opened import Telemetry

Serve = Callable[[ToolServer], Awaitable[None]]


def opened(config: Config) -> "Telemetry | None":
    """Return who watches, None for nobody. Raises ``Complaint``."""
    if config.metrics is None and config.telemetry is None:
        return None
    from guideway.server.telemetry.opened import open_telemetry  # noqa: PLC0415  # see above

    try:
        telemetry = open_telemetry(config)
    except ConfigError as error:
        raise complaint(error) from None
    if telemetry is not None and telemetry.tracing is not None:
        correlate(telemetry.tracing.correlate)
    return telemetry


def built(config: Config, telemetry: "Telemetry | None") -> Pipeline:
    """Return the pipeline of a configuration, watched."""
    if telemetry is None:
        return wiring.build(config)
    return wiring.build(config, watch=telemetry.watch, store_watch=telemetry.store)


def serving(serve: Serve, telemetry: "Telemetry | None", say: Callable[[str], None]) -> Serve:
    """Return what serves while it is watched. ``say`` tells people where metrics are."""
    if telemetry is None:
        return serve

    async def watched(server: ToolServer) -> None:
        server.be_watched(telemetry.doors, telemetry.calls(TOOL_NAME))
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(telemetry.running(server.records, say))
            except OSError as error:
                reason = str(error.args[-1]).lower()
                raise Complaint(f"cannot listen on the address of [metrics]: {reason}", code="usage") from None
            await serve(server)

    return watched

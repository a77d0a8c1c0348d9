"""What a client that asked for it is told while its call goes on. One count for the whole call: it only ever grows."""

from typing import Any

from mcp.server.context import ServerRequestContext


class Progress:
    """The notes of one call. ``asked`` is whether its client wants them; it is told nothing otherwise."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self.asked = ctx.meta is not None and "progress_token" in ctx.meta
        self._session = ctx.session
        self._count = 0

    async def tell(self, message: str) -> None:
        """Tell one thing more."""
        if self.asked:
            self._count += 1
            await self._session.report_progress(self._count, message=message)

"""The one MCP tool: what each caller is told about it, and a call of it.

It translates between the protocol and ``Pipeline.run`` and holds no rule of its own: what may run is decided below.
The text of a program is never logged.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, ValidationError

import guideway
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Event, Report, Status
from guideway.server.describe import describe
from guideway.server.render import event_line, report_lines
from guideway.server.schema import input_schema

TOOL_NAME: Final = "execute_diagnostic_pipeline"
INSTRUCTIONS: Final = (
    f"Guideway runs small diagnostic programs on the hosts and services of one installation. Its one tool, "
    f"`{TOOL_NAME}`, describes the language that this caller may write, with its grammar and the names that a program "
    f"can use. A program is checked whole before anything runs; a refusal says where and why, and how to mend it."
)

_log = logging.getLogger(__name__)
_FINE: Final = frozenset({Status.COMPLETED, Status.CONTAINED})
_Context = ServerRequestContext[Any, Any]


class Arguments(BaseModel):
    """What a call carries. Sizes are the pipeline's business: its refusal says more than a schema can."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    program: str


def build_server(pipeline: Pipeline, caller: Callable[[], Principal]) -> Server[Any]:
    """Return a server with the one tool. ``caller`` is asked at each request who is asking."""
    tool = _Tool(pipeline, caller)
    server: Server[Any] = Server(
        "guideway",
        title="Guideway",
        version=guideway.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=tool.list,
        # No argument is mirrored into a header, so there is no schema to hold headers against at each call.
        get_tool_input_schema=lambda _: None,
        # A caller who steps up must see the longer grammar at once, and nobody another caller's.
        cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
    )
    # Like ``on_call_tool``, for a handler that gives the wire form: a model in between costs 40 µs a call.
    server.add_request_handler("tools/call", types.CallToolRequestParams, tool.call)
    return server


class _Tool:
    def __init__(self, pipeline: Pipeline, caller: Callable[[], Principal]) -> None:
        self._pipeline = pipeline
        self._caller = caller
        self._input_schema = input_schema(pipeline.limits)
        self._described: dict[frozenset[Scope], types.Tool] = {}

    async def list(self, ctx: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:  # noqa: ARG002
        """Answer ``tools/list``: the tool as this caller may use it, or nothing."""
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: this list has one page")
        caller, now = self._caller(), time.time()
        scopes = frozenset(scope for scope in PROGRAM_SCOPES if caller.holds(scope, now))
        return types.ListToolsResult(tools=[self._describe(scopes)] if scopes else [])

    def _describe(self, scopes: frozenset[Scope]) -> types.Tool:
        tool = self._described.get(scopes)
        if tool is None:
            tool = self._described[scopes] = describe(TOOL_NAME, self._pipeline, scopes, self._input_schema)
        return tool

    async def call(self, ctx: _Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        """Answer ``tools/call``. Whatever a model can mend is a result of the tool, never a protocol error."""
        if params.name != TOOL_NAME:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            arguments = Arguments.model_validate(params.arguments or {})
        except ValidationError as error:
            return _result(_what_is_wrong(error), is_error=True)
        try:
            report = await self._run(ctx, arguments.program)
        except Exception as error:  # the SDK would put the exception's text on the wire
            _log.exception("a pipeline ended in an error of this program")
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from error
        _log.info("run %s: %s, %d steps, %.3f s", report.run_id, report.status, len(report.steps), report.seconds)
        shown = _result("\n".join(report_lines(report)), is_error=report.status not in _FINE)
        return shown | {"structuredContent": report.to_json()}

    async def _run(self, ctx: _Context, program: str) -> Report:
        """Run a program, and report progress to a client that asked for it. A disconnect cancels this task."""
        if ctx.meta is None or "progress_token" not in ctx.meta:
            return await self._pipeline.run(program, self._caller())
        # An observer must not wait, so the events lie in a stream until the client has taken them; there are at most
        # three for each command of a program.
        send, receive = anyio.create_memory_object_stream[Event](float("inf"))

        async def tell() -> None:
            count = 0
            async with receive:
                async for event in receive:
                    count += 1
                    await ctx.session.report_progress(count, message=event_line(event))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            with send:
                report = await self._pipeline.run(program, self._caller(), observe=send.send_nowait)
        return report


def _what_is_wrong(error: ValidationError) -> str:
    found = (f"`{'.'.join(map(str, e['loc'])) or 'arguments'}`: {e['msg']}" for e in error.errors(include_input=False))
    return f'invalid arguments: {"; ".join(found)}\nthe one argument is `program`, a string: {{"program": "..."}}'


def _result(text: str, *, is_error: bool) -> dict[str, Any]:
    """Return a ``CallToolResult`` in its wire form; the SDK checks it against the schema of the client's revision."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}

"""The protocol server and its one tool: what each caller is told about it, and a call of it.

It translates between the protocol and ``Pipeline.run`` and holds no rule of its own: what may run is decided below.
The text of a program is never logged.
"""

import logging
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
from guideway.dsl.errors import Refusal, quoted
from guideway.dsl.scopes import Scope
from guideway.grammar import GrammarCopy
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Event, Report, Status
from guideway.server.approvals.desk import Desk
from guideway.server.describe import describe
from guideway.server.kept import Kept
from guideway.server.publish import KEPT, Audience, NoCopy, Publisher, Wanted, nameable
from guideway.server.render import event_line, report_lines
from guideway.server.resources import Resources
from guideway.server.run_log import log_run
from guideway.server.schema import input_schema

TOOL_NAME: Final = "execute_diagnostic_pipeline"
INSTRUCTIONS: Final = (
    f"Guideway runs small diagnostic programs on the hosts and services of one installation. Its one tool, "
    f"`{TOOL_NAME}`, describes the language that this caller may write, with its grammar and the names that a program "
    f"can use. A program is checked whole before anything runs; a refusal says where and why, and how to mend it."
)

_log = logging.getLogger(__name__)
_MOST_MISTAKES: Final = 5
_FINE: Final = frozenset({Status.COMPLETED, Status.CONTAINED})
_Context = ServerRequestContext[Any, Any]


class Arguments(BaseModel):
    """What a call carries. Sizes are the pipeline's business: its refusal says more than a schema can."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    program: str


class ToolServer(Server[Any]):
    """The protocol server. ``publisher`` has what each caller is shown, for doors that do not speak the protocol.

    ``limits`` are those of a program. At ``desk`` people decide on what waits for them.
    """

    def __init__(self, pipeline: Pipeline, caller: Callable[[], Principal]) -> None:
        self.publisher = Publisher(pipeline, caller)
        self.limits = pipeline.limits
        self.desk = Desk(pipeline)
        self._tool = tool = _Tool(pipeline, caller, self.publisher)
        resources = Resources(self.publisher)
        # A caller who steps up must see the longer grammar at once, and nobody another caller's.
        fresh = CacheHint(ttl_ms=0, scope="private")
        super().__init__(
            "guideway",
            title="Guideway",
            version=guideway.__version__,
            instructions=INSTRUCTIONS,
            on_list_resources=resources.list_resources,
            on_list_resource_templates=resources.list_templates,
            on_read_resource=resources.read,
            on_completion=resources.complete,
            # No argument is mirrored into a header, so there is no schema to hold headers against at each call.
            get_tool_input_schema=lambda _: None,
            cache_hints={
                "tools/list": fresh,
                "resources/list": fresh,
                "resources/templates/list": fresh,
                "resources/read": fresh,
            },
        )
        # Like ``on_list_tools`` and ``on_call_tool``, for handlers that give the wire form: a model in between costs
        # 40 µs a call.
        self.add_request_handler("tools/list", types.PaginatedRequestParams, tool.list_tools)
        self.add_request_handler("tools/call", types.CallToolRequestParams, tool.call)

    def required_scopes(self, call: object) -> frozenset[Scope]:
        """Return the scopes that the program of a ``tools/call`` needs, by the call's ``params``.

        None for what ``tools/call`` would not run: saying why is its business.
        """
        return self._tool.required_scopes(call)

    def cancel_calls(self) -> None:
        """Cancel every call that is running; each client is given the report of what its call did until then."""
        self._tool.cancel_calls()


def build_server(pipeline: Pipeline, caller: Callable[[], Principal]) -> ToolServer:
    """Return a server with the one tool. ``caller`` is asked at each request who is asking."""
    return ToolServer(pipeline, caller)


class _Tool:
    def __init__(self, pipeline: Pipeline, caller: Callable[[], Principal], publisher: Publisher) -> None:
        self._pipeline = pipeline
        self._caller = caller
        self._publisher = publisher
        self._input_schema = input_schema(pipeline.limits)
        self._listed = Kept[Audience, dict[str, Any]](KEPT)
        self._running = set[anyio.CancelScope]()

    async def list_tools(self, ctx: _Context, params: types.PaginatedRequestParams) -> dict[str, Any]:  # noqa: ARG002
        """Answer ``tools/list``: the tool as this caller may use it, or nothing."""
        if params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: this list has one page")
        audience = self._publisher.audience()
        listed = self._listed.get(audience)
        if listed is None:
            tools = await self._describe(audience)
            listed = types.ListToolsResult(tools=tools).model_dump(mode="json", by_alias=True, exclude_none=True)
            self._listed.keep(audience, listed)
        return listed

    async def _describe(self, audience: Audience) -> list[types.Tool]:
        try:
            published = await self._publisher.copy(audience, Wanted("lark"))
        except NoCopy:
            return []
        try:
            generating: GrammarCopy | str = await self._publisher.copy(audience, Wanted("gbnf"))
        except NoCopy as none:
            generating = f"There is no copy in GBNF: {none}"
        tool = describe(
            TOOL_NAME,
            audience.scopes,
            nameable(audience.inventory),
            published=published,
            generating=generating,
            input_schema=self._input_schema,
        )
        return [tool]

    async def call(self, ctx: _Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        """Answer ``tools/call``. Whatever a model can mend is a result of the tool, never a protocol error."""
        if params.name != TOOL_NAME:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            arguments = Arguments.model_validate(params.arguments or {})
        except ValidationError as error:
            return _result(_what_is_wrong(error), is_error=True)
        try:
            report = await self._until_cancelled(ctx, arguments.program)
        except Exception as error:  # the SDK would put the exception's text on the wire
            _log.exception("a pipeline ended in an error of this program")
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from error
        shown = _result("\n".join(report_lines(report)), is_error=report.status not in _FINE)
        return shown | {"structuredContent": report.to_json()}

    def required_scopes(self, call: object) -> frozenset[Scope]:
        """Return the scopes that a call's program needs; none where there is none to run."""
        if not isinstance(call, dict) or call.get("name") != TOOL_NAME:
            return frozenset()
        try:
            arguments = Arguments.model_validate(call.get("arguments") or {})
            return self._pipeline.required_scopes(arguments.program)
        except (ValidationError, Refusal):
            return frozenset()

    def cancel_calls(self) -> None:
        """Cancel every call that is running."""
        for scope in self._running:
            scope.cancel()

    async def _until_cancelled(self, ctx: _Context, program: str) -> Report:
        """Run a program; return its report, also where ``cancel_calls`` ended it.

        A client's own cancellation is raised: it wants no answer.
        """
        ended: list[Report] = []
        caller = self._caller()

        def end(report: Report) -> None:
            log_run(report, caller)  # here, because whoever cancels a run gets no report of it
            ended.append(report)

        with anyio.CancelScope() as scope:
            self._running.add(scope)
            try:
                await self._run(ctx, program, caller, end)
            finally:
                self._running.remove(scope)
        [report] = ended
        return report

    async def _run(self, ctx: _Context, program: str, caller: Principal, end: Callable[[Report], None]) -> None:
        """Run a program, and report progress to a client that asked for it; ``end`` is given the report in any case.

        A disconnect cancels this task.
        """
        if ctx.meta is None or "progress_token" not in ctx.meta:
            end(await self._pipeline.run(program, caller, on_cancel=end))
            return
        # An observer must not wait, so the events lie in a stream until the client has taken them; there are at most
        # three for each command of a program. Nor may it raise: the stream is whole until the pipeline has ended, also
        # where ``tell`` was cancelled first.
        send, receive = anyio.create_memory_object_stream[Event](float("inf"))

        async def tell() -> None:
            count = 0
            async for event in receive:
                count += 1
                await ctx.session.report_progress(count, message=event_line(event))

        with receive:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell)
                with send:
                    observe = send.send_nowait
                    end(await self._pipeline.run(program, caller, observe=observe, on_cancel=end))


def _what_is_wrong(error: ValidationError) -> str:
    """Return what a model can mend. The names that it made up are its own text: quoted, cut, and a few of them."""
    errors = error.errors(include_input=False)
    found = [f"{quoted('.'.join(map(str, e['loc'])) or 'arguments')}: {e['msg']}" for e in errors[:_MOST_MISTAKES]]
    more = [f"{len(errors) - _MOST_MISTAKES} more"] if errors[_MOST_MISTAKES:] else []
    return (
        f'invalid arguments: {"; ".join(found + more)}\nthe one argument is `program`, a string: {{"program": "..."}}'
    )


def _result(text: str, *, is_error: bool) -> dict[str, Any]:
    """Return a ``CallToolResult`` in its wire form; the SDK checks it against the schema of the client's revision."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}

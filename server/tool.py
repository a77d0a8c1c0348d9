"""The protocol server and its one tool: what each caller is told about it, and a call of it.

How a call goes on when a person must approve its program is ``asking``'s.

It translates between the protocol and ``Pipeline.run`` and holds no rule of its own: what may run is decided below.
The text of a program is never logged.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

import guideway
from guideway.dsl.errors import Refusal
from guideway.dsl.scopes import Scope
from guideway.grammar import GrammarCopy
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report, Status
from guideway.interpreter.risk import MODEL_VERSION
from guideway.interpreter.weighing import Asked
from guideway.server.approvals.desk import Desk
from guideway.server.arguments import Arguments, what_is_wrong
from guideway.server.asking import Asking, Conversation, Decided, Reply, Undecided
from guideway.server.describe import describe
from guideway.server.door_watch import DoorWatch
from guideway.server.elicit import client_says, model_says
from guideway.server.idempotency import key_in
from guideway.server.kept import Kept
from guideway.server.load import Load, Place
from guideway.server.oauth.refusal_log import RefusalLog
from guideway.server.progress import Progress
from guideway.server.publish import KEPT, Audience, NoCopy, Publisher, Wanted, nameable
from guideway.server.recorded import recording
from guideway.server.render import report_lines
from guideway.server.request_state import Keys, boundary, own_keys
from guideway.server.resources import Resources
from guideway.server.runs import Runs
from guideway.server.schema import CONFIRMATION, input_schema
from guideway.server.too_much import Bound, TooMuch
from guideway.server.tool_run import ToolRun
from guideway.server.undecided import BREAK_GLASS, approval_lines, not_run, with_way_out

TOOL_NAME: Final = "execute_diagnostic_pipeline"
RISK_KEY: Final = "io.github.guideway/risk"
"""Among the experimental capabilities: by which rules it is decided whether a person has to approve a program."""
INSTRUCTIONS: Final = (
    f"Guideway runs small diagnostic programs on the hosts and services of one installation. Its one tool, "
    f"`{TOOL_NAME}`, describes the language that this caller may write, with its grammar and the names that a program "
    f"can use. A program is checked whole before anything runs; a refusal says where and why, and how to mend it."
)

_log = logging.getLogger(__name__)
_FINE: Final = frozenset({Status.COMPLETED, Status.CONTAINED})
_Context = ServerRequestContext[Any, Any]


class ToolServer(Server[Any]):
    """The protocol server. ``publisher`` has what each caller is shown, for doors that do not speak the protocol.

    ``limits`` are those of a program, ``load`` counts calls. At ``desk`` people decide on what waits for them.
    ``forms`` are the clients that may have their own person answer in a form, where people may approve their own
    requests. ``keys`` seal what a question leaves with its client. ``doors`` watches whoever comes in.
    """

    def __init__(
        self, pipeline: Pipeline, caller: Callable[[], Principal], *, forms: Collection[str], keys: Keys, load: Load
    ) -> None:
        self.caller = caller
        self.load = load
        self.runs = Runs()
        self.publisher = Publisher(pipeline, caller)
        self.refusals = RefusalLog(trail=pipeline.trail)
        self.records = pipeline.gate.records
        self.doors: DoorWatch | None = None
        self.limits = pipeline.limits
        self.desk = Desk(pipeline, refusals=self.refusals)
        self._asking = Asking(pipeline.gate, forms)
        self._tool = tool = _Tool(
            pipeline, caller, self.publisher, self._asking, self.refusals, load=load, runs=self.runs
        )
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
        self.middleware.clear()  # the SDK's own makes spans: even where nobody wants them, and in a client's words
        self.middleware.append(recording(self.refusals, caller))
        self.middleware.append(boundary(keys, lifetime=pipeline.gate.rules.lifetime))
        # Like ``on_list_tools`` and ``on_call_tool``, for handlers that give the wire form: a model in between costs
        # 40 µs a call.
        self.add_request_handler("tools/list", types.PaginatedRequestParams, tool.list_tools)
        self.add_request_handler("tools/call", types.CallToolRequestParams, tool.call)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Return what ``initialize`` and ``server/discover`` say, with the version of the risk model."""
        stated = (experimental_capabilities or {}) | {RISK_KEY: {"version": MODEL_VERSION}}
        return super().get_capabilities(notification_options, stated, extensions, protocol_version=protocol_version)

    def required_scopes(self, call: object) -> frozenset[Scope]:
        """Return the scopes that the program of a ``tools/call`` needs, by the call's ``params``.

        None for what ``tools/call`` would not run: saying why is its business.
        """
        return self._tool.required_scopes(call)

    def record_challenged(self, caller: Principal, call: object) -> None:
        """Record a ``tools/call``, by its ``params``, whose caller was told which scope is missing and nothing else."""
        self._tool.record_challenged(caller, call)

    def be_watched(self, doors: DoorWatch | None, calls: ServerMiddleware[Any] | None) -> None:
        """Have the doors and each call watched, from before anything is served on."""
        self.doors = doors
        if doors is not None:
            doors.reads("calls_running", lambda: self.load.running)
            doors.reads("calls_queued", lambda: self.load.queued)
            doors.counts("throttled", lambda: {bound.value: self.load.refused[bound] for bound in Bound})
        if calls is not None:
            self.middleware.insert(0, calls)

    def show_tickets_at(self, url: str) -> None:
        """Send people who are to approve something to the pages below a URL, each ticket's by its id."""
        self._asking.page = url

    @property
    def stopping(self) -> bool:
        """Whether the server was told to stop: it should be sent nothing more, though it may answer a while yet."""
        return self.runs.stopping

    def begin(self) -> None:
        """Take calls, also after the server was stopped once."""
        self.runs.stopping = False
        self.load.let_in()

    def stop(self) -> None:
        """Note that the server was told to stop."""
        self.runs.stopping = True

    def turn_away(self) -> None:
        """Let no call begin any more."""
        self.load.turn_away()

    def end_waits(self) -> None:
        """Let no call wait for a person any more: each client is told what to do with its ticket."""
        self._asking.waits.stop()

    def cancel_calls(self) -> None:
        """Cancel every call that is running; each client is given the report of what its call did until then."""
        self.runs.cancel()


def build_server(
    pipeline: Pipeline,
    caller: Callable[[], Principal],
    *,
    forms: Collection[str] = (),
    keys: Keys | None = None,
    load: Load | None = None,
) -> ToolServer:
    """Return a server with the one tool. ``caller`` is asked at each request who is asking.

    Without ``keys`` an answer to a question finds this server only, and only while it runs. Without ``load`` the
    bounds are those that hold by themselves.
    """
    return ToolServer(pipeline, caller, forms=forms, keys=keys or own_keys(), load=load or Load())


class _Tool:
    def __init__(
        self,
        pipeline: Pipeline,
        caller: Callable[[], Principal],
        publisher: Publisher,
        asking: Asking,
        refusals: RefusalLog,
        *,
        load: Load,
        runs: Runs,
    ) -> None:
        self._pipeline = pipeline
        self._refusals = refusals
        self._caller = caller
        self._publisher = publisher
        self._asking = asking
        self._input_schema = input_schema(pipeline.limits)
        self._listed = Kept[Audience, dict[str, Any]](KEPT)
        self._load = load
        self._run = ToolRun(pipeline, runs)

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
            key_in(ctx.meta)
        except ValueError as error:  # pydantic's own among them
            why = what_is_wrong(error) if isinstance(error, ValidationError) else str(error)
            self._refusals.note_caller(self._caller(), "invalid_arguments", why)
            return _result(why, is_error=True)
        try:
            async with self._load.run() as place:
                return await self._answer(ctx, params, arguments, place)
        except TooMuch as too_much:
            self._refusals.note_caller(self._caller(), too_much.bound, str(too_much))
            return _result(too_much.words, is_error=True)
        except MCPError:
            raise
        except Exception as error:  # the SDK would put the exception's text on the wire
            _log.exception("a pipeline ended in an error of this program")
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from error

    async def _answer(
        self, ctx: _Context, params: types.CallToolRequestParams, arguments: Arguments, place: Place
    ) -> dict[str, Any]:
        """Run a program, after a person's yes where it needs one; or ask for that, or say how it is got."""
        caller, progress = self._caller(), Progress(ctx)
        call = Conversation(ctx, caller, progress, place)
        asked = Asked(
            arguments.confirmation_token,
            arguments.break_glass,
            client_says(ctx.session.client_params),
            model_says=model_says(ctx.meta),
            door="stdio" if ctx.request is None else "http",
            idempotency_key=key_in(ctx.meta),
        )

        async def run(ticket: str | None) -> Report:
            try:
                await place.resume()
            except TooMuch as too_much:
                too_much.add(f'then call again with the same program and "{CONFIRMATION}": "{ticket}"')
                raise
            return await self._run.until_cancelled(arguments.program, replace(asked, ticket=ticket), caller, progress)

        turn = await self._asking.resume(call, params)
        if isinstance(turn, Reply):
            return turn.result
        if isinstance(turn, Undecided):
            unrun = not_run(self._pipeline, arguments.program, caller, turn)
            self._pipeline.record_unrun(arguments.program, caller, asked, unrun.refusal)
            return self._reported(unrun, turn.why)
        report = await run(turn.ticket if turn else arguments.confirmation_token)
        if turn is not None or not isinstance(report.refusal, NeedsApproval):
            return self._reported(report)
        again = arguments.confirmation_token is not None
        turn = await self._asking.ask(call, report.refusal.ticket, again=again)
        match turn:
            case Reply(result):
                return result
            case Decided(ticket):
                return self._reported(await run(ticket))
            case Undecided():
                return self._reported(report, turn.why)

    def _reported(self, report: Report, why: str = "") -> dict[str, Any]:
        """Return a report as a result; where it waits for a person, with what its caller does next."""
        report = with_way_out(report, BREAK_GLASS)
        lines, structured = report_lines(report), report.to_json()
        if isinstance(report.refusal, NeedsApproval):
            url = self._asking.url(report.refusal.ticket)
            lines += approval_lines(report.refusal.ticket, url, why)
            structured["refusal"]["approval"]["url"] = url
        return _result("\n".join(lines), is_error=report.status not in _FINE) | {"structuredContent": structured}

    def required_scopes(self, call: object) -> frozenset[Scope]:
        """Return the scopes that a call's program needs; none where there is none to run."""
        arguments = _arguments(call)
        try:
            return frozenset() if arguments is None else self._pipeline.required_scopes(arguments.program)
        except Refusal:
            return frozenset()

    def record_challenged(self, caller: Principal, call: object) -> None:
        """Record a call whose caller was told which scope is missing."""
        arguments = _arguments(call)
        if arguments is not None:
            asked = Asked(arguments.confirmation_token, arguments.break_glass, door="http")
            self._pipeline.record_unrun(arguments.program, caller, asked)


def _arguments(call: object) -> Arguments | None:
    """Return the arguments of a call of the tool, by the call's ``params``; None where they are none."""
    if not isinstance(call, dict) or call.get("name") != TOOL_NAME:
        return None
    try:
        return Arguments.model_validate(call.get("arguments") or {})
    except ValidationError:
        return None


def _result(text: str, *, is_error: bool) -> dict[str, Any]:
    """Return a ``CallToolResult`` in its wire form; the SDK checks it against the schema of the client's revision."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}

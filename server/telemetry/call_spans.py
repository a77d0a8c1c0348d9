"""The span of a call, as the conventions for MCP have it, and whose trace it belongs to.

W3C Trace Context comes in ``params._meta`` (SEP-414), or in the request's headers. Where both are there the first is
the parent, and the other a link: one is the client's call, the other the way that it came. What does not read as one is
as if it were not there. Nothing that a client chose becomes a name or an attribute.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import ValidationError
from starlette.requests import Request

_W3C: Final = TraceContextTextMapPropagator()
_KEYS: Final = ("traceparent", "tracestate")
_MOST_STATE: Final = 512
"""Characters of a ``tracestate``: as many as everybody has to pass on (Trace Context, section 3.3.1.5)."""

_OTHER: Final = "_OTHER"
_METHODS: Final = frozenset(
    {
        *("initialize", "ping", "server/discover", "completion/complete", "logging/setLevel", "subscriptions/listen"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
        *("resources/unsubscribe", "notifications/initialized", "notifications/cancelled", "notifications/progress"),
        "notifications/roots/list_changed",
    }
)
_ID: Final = re.compile(r"[0-9]{1,20}")


class CallSpans:
    """Middleware of the protocol server: a span for each message of a client. ``tool`` is the one tool's name."""

    def __init__(self, tracer: Tracer, tool: str) -> None:
        self._tracer = tracer
        self._tool = tool

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Surround a message with its span."""
        method = ctx.method if ctx.method in _METHODS else _OTHER
        is_call = method == "tools/call"
        is_ours = is_call and (ctx.params or {}).get("name") == self._tool
        over_http = isinstance(ctx.request, Request)
        attributes: dict[str, str] = {
            "mcp.method.name": method,
            "mcp.protocol.version": ctx.protocol_version,
            "network.transport": "tcp" if over_http else "pipe",
        }
        if over_http:
            attributes["network.protocol.name"] = "http"
        if ctx.request_id is not None and _ID.fullmatch(identifier := str(ctx.request_id)):
            attributes["jsonrpc.request.id"] = identifier
        if is_call:
            attributes["gen_ai.operation.name"] = "execute_tool"
            attributes["gen_ai.tool.name"] = self._tool if is_ours else _OTHER
        parent, links = _whose(ctx)
        with self._tracer.start_as_current_span(
            f"{method} {self._tool}" if is_ours else method,
            context=parent,
            kind=SpanKind.SERVER,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            return await _noted(span, ctx, call_next, is_call=is_call)


async def _noted(
    span: Span, ctx: ServerRequestContext[Any, Any], call_next: CallNext, *, is_call: bool
) -> HandlerResult:
    """Go on, and note in a span what went wrong: its kind, and never in which words."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        _failed(span, str(error.error.code), status=str(error.error.code))
        raise
    except ValidationError:
        _failed(span, str(INVALID_PARAMS), status=str(INVALID_PARAMS))
        raise
    except anyio.get_cancelled_exc_class():
        _failed(span, "cancelled")
        raise
    except Exception as error:
        _failed(span, type(error).__qualname__)
        raise
    match result:
        case CallToolResult(is_error=True) | {"isError": True} if is_call:
            _failed(span, "tool_error")
    return result


def _failed(span: Span, kind: str, *, status: str | None = None) -> None:
    span.set_attribute("error.type", kind)
    if status is not None:
        span.set_attribute("rpc.response.status_code", status)
    span.set_status(StatusCode.ERROR)


def _whose(ctx: ServerRequestContext[Any, Any]) -> tuple[Context, list[Link]]:
    """Return the context that a call's span is made in, and what it is linked to."""
    by_meta = _extracted(ctx.meta or {})
    by_headers = _extracted(ctx.request.headers) if isinstance(ctx.request, Request) else None
    if by_meta is None:
        return by_headers or Context(), []
    links = [] if by_headers is None else [Link(trace.get_current_span(by_headers).get_span_context())]
    return by_meta, links


def _extracted(carrier: Mapping[str, Any]) -> Context | None:
    """Return the context of another's span that a carrier holds, None where it holds none."""
    found = {key: value for key in _KEYS if isinstance(value := carrier.get(key), str)}
    if len(found.get("tracestate", "")) > _MOST_STATE:
        del found["tracestate"]
    context = _W3C.extract(found, context=Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None

"""Traces: a span a call, a span a gate, a span a step; sent by OTLP over HTTP, from a thread of its own.

Calls never wait for a collector. What cannot be sent is dropped: the queue is bounded, and so is the time that an end
waits for it. A span has names of this program's and of the inventory, outcomes and ids in it: no text of a program, no
token, nothing that a client or a service chose to say.

Call spans follow the conventions for MCP and GenAI (OpenTelemetry, in development): they take the place of the SDK's
own, which put a client's words into names and attributes.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from anyio import to_thread
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_SERVICE_NAME,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.re import parse_env_headers

from guideway import __version__
from guideway.dsl.errors import Refusal
from guideway.interpreter.results import Outcome, Report, Step
from guideway.interpreter.secret import read_secret
from guideway.interpreter.watch import Gate
from guideway.server.telemetry.seldom import Seldom
from guideway.server.telemetry_sections import TelemetrySection

_NAME: Final = "guideway"
_MILLISECOND: Final = 1_000_000  # in nanoseconds, which spans have
_TRACES: Final = "/v1/traces"
_DEFAULT: Final = "http://localhost:4318"
_BATCH: Final = ("opentelemetry.sdk._shared_internal", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
"""What logs that spans could not be sent, each time."""


def endpoint(section: TelemetrySection) -> str:
    """Return where spans go: the signal's own URL of the environment as it is, any other with its path behind it."""
    if section.endpoint is None and (whole := os.environ.get(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)):
        return whole
    base = (section.endpoint or os.environ.get(OTEL_EXPORTER_OTLP_ENDPOINT) or _DEFAULT).rstrip("/")
    return base if base.endswith(_TRACES) else base + _TRACES


def exporter(section: TelemetrySection, *, seconds: float | None = None) -> SpanExporter:
    """Return what sends spans to the collector of a configuration, each time for so long at most.

    Raises ``ValueError``, which names a key.
    """
    return OTLPSpanExporter(endpoint=endpoint(section), headers=_headers(section), timeout=seconds)


def _headers(section: TelemetrySection) -> Mapping[str, str] | None:
    if section.headers_file is None:
        return None
    try:
        headers = parse_env_headers(read_secret(section.headers_file, None), liberal=True)
    except ValueError as error:
        raise ValueError(f"[telemetry] `headers_file`: what it names {error}") from None
    if not headers:
        raise ValueError(
            "[telemetry] `headers_file`: what it names holds no header: NAME=VALUE, with commas between them"
        )
    return headers


class Tracing:
    """What makes spans, until it is closed. It watches runs (``interpreter.watch``)."""

    def __init__(self, section: TelemetrySection, sends: SpanExporter | None = None) -> None:
        resource = Resource.create(
            {
                SERVICE_NAME: section.service_name or os.environ.get(OTEL_SERVICE_NAME) or _NAME,
                SERVICE_VERSION: __version__,
                SERVICE_INSTANCE_ID: str(uuid.uuid4()),
            }
        )
        ratio = section.sample_ratio
        self._provider = TracerProvider(
            resource=resource,
            sampler=None if ratio is None else ParentBasedTraceIdRatio(ratio),
            shutdown_on_exit=False,  # it would hold the process up for as long as a collector does not answer
        )
        self._processor = BatchSpanProcessor(sends or exporter(section))
        self._provider.add_span_processor(self._processor)
        for name in _BATCH:
            logging.getLogger(name).addFilter(Seldom())
        self.tracer = self._provider.get_tracer(_NAME, __version__)

    @contextmanager
    def gate(self, gate: Gate) -> Iterator[None]:
        """Make a span of a gate, within a call that has one."""
        if not trace.get_current_span().is_recording():
            yield
            return
        with self.tracer.start_as_current_span(
            f"gate {gate.value}",
            attributes={"guideway.gate": gate.value},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            outcome = "broken"
            try:
                yield
                outcome = "passed"
            except Refusal as refusal:
                outcome = "refused"
                span.set_attribute("error.type", refusal.code.value)
                raise
            finally:
                span.set_attribute("guideway.gate.outcome", outcome)

    def stepped(self, step: Step) -> None:
        """Make a span of a step that is over.

        It has just ended, or was begun ahead of its turn: when, it says to the millisecond.
        """
        if not trace.get_current_span().is_recording():
            return
        took = round(step.seconds * 1_000_000_000)
        begun = min(time.time_ns() - took, _nanoseconds(step.started) + _MILLISECOND - 1)
        span = self.tracer.start_span(
            f"step {step.command}",
            start_time=begun,
            attributes={
                "guideway.step.number": step.number,
                "guideway.step.command": step.command,
                "guideway.step.target": step.target,
                "guideway.step.outcome": step.outcome.value,
            },
        )
        if step.outcome is not Outcome.OK:
            span.set_attribute("error.type", (step.reason or step.outcome).value)
            span.set_status(Status(StatusCode.ERROR))
        span.end(begun + took)

    def waited(self, seconds: float, *, got: bool) -> None:
        """Note on the call that a restart waited for what others held."""
        trace.get_current_span().add_event("lease wait", {"guideway.lease.seconds": seconds, "guideway.lease.got": got})

    def ran(self, report: Report) -> None:
        """Say in the call's span which run it was, and how that ended."""
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attributes({"guideway.run.id": report.run_id, "guideway.run.status": report.status.value})
            if report.refusal is not None:
                span.set_attribute("guideway.refusal.code", report.refusal.code.value)

    @staticmethod
    def correlate(record: logging.LogRecord) -> bool:
        """Give a record the ids of the span that it is made within."""
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            record.trace_id = trace.format_trace_id(context.trace_id)
            record.span_id = trace.format_span_id(context.span_id)
        return True

    async def close(self, seconds: float) -> None:
        """Send what is there still, for so long at most."""
        # In a thread of its own that nobody waits for: the exporter's time is the collector's.
        until = time.monotonic() + seconds
        closing = threading.Thread(target=self._processor.shutdown, args=(), daemon=True, name="end of tracing")
        closing.start()
        await to_thread.run_sync(closing.join, max(0.0, until - time.monotonic()))


def _nanoseconds(started: str) -> int:
    return round(datetime.fromisoformat(started).timestamp() * 1_000) * _MILLISECOND

"""A collector of traces: it takes what an exporter posts, and reads it with OpenTelemetry's own messages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What came: paths and headers, and each body. Nobody is answered while ``answers`` is not set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.answers = threading.Event()
        self.answers.set()
        self.came = threading.Event()
        self.url = ""

    @property
    def spans(self) -> list[Span]:
        """All spans, the first that was begun first."""
        spans = [
            span
            for body in self.bodies
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]
        return sorted(spans, key=lambda span: span.start_time_unix_nano)

    @property
    def resource(self) -> dict[str, Any]:
        """What the first spans are of."""
        request = ExportTraceServiceRequest.FromString(self.bodies[0])
        return attributes(request.resource_spans[0].resource)

    def named(self, name: str) -> list[Span]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]


def attributes(of: Any) -> dict[str, Any]:
    """Return the attributes of a span or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port of loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.came.set()
            collector.answers.wait(60)
            collector.requests.append((self.path, dict(self.headers)))
            if collector.status == 200:
                collector.bodies.append(body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        collector.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()

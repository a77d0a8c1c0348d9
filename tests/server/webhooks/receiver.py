"""A receiver of webhooks: a real HTTP server on loopback that answers as it is told and keeps what it was sent."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.server.certificates import Pair

SILENT = 0
"""A status that stands for no answer at all, until the receiver ends."""

PATIENCE = 30.0


@dataclass
class Received:
    """A request: its path, its headers by lower-case name, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Receiver:
    """What came, and how the next requests are answered: by these statuses in turn, and then by 204."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def wait_for(self, count: int) -> list[Received]:
        """Wait until so many requests have come, and return them."""
        wait_until(lambda: len(self.received) >= count)
        return self.received


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.01)


@contextmanager
def receiving(*statuses: int, tls: Pair | None = None, **headers: str) -> Iterator[Receiver]:
    """Receive on a free port of loopback."""
    receiver = Receiver(statuses=list(statuses), headers=headers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            named = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, named, body, time.time()))
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            if status == SILENT:
                receiver.over.wait(PATIENCE)
                return
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that it has above
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        receiver.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.over.set()
            server.shutdown()
            thread.join()

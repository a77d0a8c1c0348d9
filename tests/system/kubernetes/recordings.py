"""Answers of a real API server, kept in files, and the server on loopback that records them and gives them again.

A recording is a list in the order of what happened: what the driver asked and was answered, and what the test did to
the cluster meanwhile. Answers of one call that follow one another and say the same stand once. On the way back time
does not count: a look brings the next of the answers that were given before the next change, and then the last one for
as long as it is asked; where none was, what the change before was answered with. The change is the driver's own or the
test's, and both must come as they were recorded.
"""

import http.server
import json
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from tests.server.certificates import Authority
from tests.system.supervisord import wait_for


class Recording:
    """What happened. Without ``content`` it is to be made."""

    def __init__(self, content: list[dict[str, Any]] | None = None) -> None:
        self.content = content or []
        self._at = self._mark = 0  # what comes before has happened
        self._given: dict[str, int] = {}
        self._unanswered = 0  # changes of the driver's whose answer is not sent yet
        self._lock = threading.Condition()

    @classmethod
    def of(cls, file: Path) -> "Recording":
        """Return one from its file."""
        assert file.exists(), f"nothing is recorded in {file.name}: make test-kubernetes GUIDEWAY_RECORD=1"
        return cls(json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """Keep it."""
        file.parent.mkdir(exist_ok=True)
        entries = ",\n".join(json.dumps(entry, sort_keys=True, separators=(",", ":")) for entry in self.content)
        file.write_text(f"[\n{entries}\n]\n")

    def mark(self) -> None:
        """Remember how far this is, for ``rewind``."""
        self._mark = self._at

    def rewind(self) -> None:
        """Give again what came after the mark."""
        self._at, self._given = self._mark, {}

    def add(self, kind: str, call: str, status: int, body: Any) -> None:
        """Note what was asked (``asked``) or done (``did``), and the answer."""
        entry = {kind: call, "status": status, "body": _lean(body)}
        with self._lock:
            before = next((one for one in reversed(self.content) if one.get(kind) == call or _changes(one)), None)
            if _changes(entry) or entry != before:
                self.content.append(entry)

    def give(self, kind: str, call: str) -> dict[str, Any]:
        """Return the answer to what is asked or done now. What the test does waits for what the driver did before.

        It waits for the answer to that, too, of which ``answered`` is told: a server that the test ends would take it
        along.
        """
        with self._lock:
            if _changes({kind: call}):
                turn = self._lock.wait_for(
                    lambda: self._may(kind) and self._turn_of(kind, call), 30 if kind == "did" else 0
                )
                assert turn, f"nothing of the kind is recorded to come next: {call}"
                self._at, self._given = turn, {}
                self._unanswered += kind == "asked"
                self._lock.notify_all()
                return self.content[turn - 1]
            end = next((i for i in range(self._at, len(self.content)) if _changes(self.content[i])), len(self.content))
            here = [one for one in self.content[self._at : end] if one.get(kind) == call]
            if here:
                turn = self._given.get(call, 0)
                self._given[call] = turn + 1
                return here[min(turn, len(here) - 1)]
            known = [one for one in self.content[: self._at] if one.get(kind) == call or _made(one, call)][-1:]
            known += [one for one in self.content[end:] if one.get(kind) == call][:1]
            assert known, f"nothing of the kind is recorded: {call}"
            return known[0]

    def answered(self, call: str) -> None:
        """Be told that an answer that was given has been sent, or cannot be."""
        if _changes({"asked": call}):
            with self._lock:
                self._unanswered -= 1
                self._lock.notify_all()

    def _may(self, kind: str) -> bool:
        return kind == "asked" or not self._unanswered

    def _turn_of(self, kind: str, call: str) -> int:
        """Return how far this is with a change, 0 where another one has to come before."""
        for index in range(self._at, len(self.content)):
            if _changes(self.content[index]):
                return index + 1 if self.content[index].get(kind) == call else 0
        return 0


def _changes(entry: dict[str, Any]) -> bool:
    """Whether something is another afterwards: all that the test does, and what the driver changes."""
    return "did" in entry or not str(entry.get("asked", "GET")).startswith(("GET", "POST"))


def _made(entry: dict[str, Any], call: str) -> bool:
    """Whether an entry is a change of what a call asks for: what it was answered with is what that is since then."""
    method, _, what = str(entry.get("asked") or entry.get("did")).partition(" ")
    return method == "PATCH" and entry["status"] == 200 and call == f"GET {what.partition('?')[0]}"


def _lean(body: Any) -> Any:
    """Leave out who wrote which field, which is long and which nobody reads."""
    if isinstance(body, dict):
        return {key: _lean(value) for key, value in body.items() if key != "managedFields"}
    return [_lean(value) for value in body] if isinstance(body, list) else body


class Front:
    """An HTTPS server, as a context manager: it passes on to ``upstream`` and records, or gives again."""

    def __init__(self, folder: Path, recording: Recording, upstream: httpx2.Client | None) -> None:
        self.recording = recording
        self._authority = Authority(folder, "front")
        self.authority = self._authority.file
        pair = self._authority.server("front-server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self.faults: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.front, self._server.upstream = self, upstream
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.address = f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def quiet(self) -> None:
        """Wait until nobody is connected: what was asked is answered then."""
        wait_for(self._server.is_quiet, "the last connection to be served")

    def end(self) -> None:
        """Be gone, with every connection."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server.drop()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    front: Front
    upstream: httpx2.Client | None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def is_quiet(self) -> bool:
        return not self._open

    def drop(self) -> None:
        for one in list(self._open):
            super().shutdown_request(one)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away: that is what some tests are about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    timeout = 30

    def setup(self) -> None:
        super().setup()
        self.request.do_handshake()

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = f"{self.command} {self.path}"
        if self.server.upstream is None:
            try:
                found = self.server.front.recording.give("asked", call)
            except AssertionError as error:
                self.server.front.faults.append(str(error))
                self._send(500, {"kind": "Status", "message": str(error), "status": "Failure"})
                return
            try:
                self._send(found["status"], found["body"])
            finally:
                self.server.front.recording.answered(call)
        else:
            headers = {
                name: self.headers[name] for name in ("Authorization", "Content-Type", "Accept") if name in self.headers
            }
            answer = self.server.upstream.request(self.command, self.path, content=content, headers=headers)
            status, body = answer.status_code, answer.json()
            self.server.front.recording.add("asked", call, status, body)
            self._send(status, body)

    def _send(self, status: int, body: Any) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PATCH = do_POST = _answer  # noqa: N815  # the names that the library looks for

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

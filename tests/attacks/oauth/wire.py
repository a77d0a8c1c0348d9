"""HTTP as bytes: an attacker is not held to what a client library can send.

Owns how a request is spelled and how the answers to it are read. Every answer is kept, so that the tests can look for
secrets in all of them.
"""

import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from guideway.server.tool import TOOL_NAME

ANSWERED: list[bytes] = []
"""All that was ever answered, to the byte."""

Fields = Iterable[tuple[str, str]]
MODERN: Final = "2026-07-28"
RESTART: Final = 'RESTART "database"'
STATUS: Final = 'GET_STATUS "database"'

_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_PARAMETER: Final = re.compile(r'\s*([a-z_]+)="([^"\\]*)"\s*(?:,|$)')


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for key, value in self.headers if key == name]

    def json(self) -> Any:
        """Return the body's JSON, also where it came as one event of a stream."""
        text = self.body.decode()
        if self.all("content-type")[0].startswith("text/event-stream"):
            text = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")][-1]
        return json.loads(text)

    @property
    def facts(self) -> dict[str, Any]:
        """What the body of a request that was not let in says: an error of JSON-RPC, with the status as its code."""
        body = self.json()
        assert body.keys() == {"jsonrpc", "id", "error"}
        assert body["error"]["code"] == self.status
        return {"message": body["error"]["message"], **body["error"]["data"]}

    @property
    def challenges(self) -> list[dict[str, str]]:
        """The challenges, each by the names of its parameters, with its scheme under ``scheme``.

        A challenge that is not one plain scheme with plain quoted parameters, each once, is a failure.
        """
        return [_challenge(value) for value in self.all("www-authenticate")]

    @property
    def challenge(self) -> dict[str, str]:
        """The one challenge."""
        [only] = self.challenges
        return only


def request(
    url: str,
    *,
    method: str = "POST",
    target: str | None = None,
    fields: Fields = (),
    body: bytes = b"",
    without: Iterable[str] = (),
    close: bool = True,
) -> bytes:
    """Return a request as bytes. What it needs is added to the fields, but for those in ``without``."""
    at = urlsplit(url)
    own = [("Host", at.netloc), ("Content-Length", str(len(body))), *([("Connection", "close")] if close else [])]
    head = [f"{method} {target or at.path} HTTP/1.1"]
    left_out = {name.lower() for name in without}
    kept = [(name, value) for name, value in own if name.lower() not in left_out]
    head += [f"{name}: {value}" for name, value in (*kept, *fields)]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def message(method: str, params: Mapping[str, Any] | None = None, *, number: Any = 1) -> dict[str, Any]:
    """Return a request of the protocol in its newest revision."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**(params or {}), "_meta": _META}}


def call(program: str = RESTART, **more: Any) -> dict[str, Any]:
    """Return a call of the tool."""
    return message("tools/call", {"name": TOOL_NAME, "arguments": {"program": program}, **more})


def call_bytes(program: str = RESTART) -> bytes:
    """Return a call of the tool as it is sent."""
    return json.dumps(call(program)).encode()


def listing_bytes() -> bytes:
    """Return a listing as it is sent."""
    return json.dumps(message("tools/list")).encode()


def headers_of(sent: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headers that go with a message."""
    named = [("Mcp-Name", TOOL_NAME)] if sent.get("method") == "tools/call" else []
    return [*JSON, ("MCP-Protocol-Version", MODERN), ("Mcp-Method", str(sent.get("method"))), *named]


INITIALIZE: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    }
).encode()
"""What opens a session of an older revision."""

INITIALIZED: Final = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
LEGACY: Final = "2025-11-25"

JSON: Final = (("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"))


def calling(
    url: str,
    authorization: str | None,
    sent: Mapping[str, Any] | None = None,
    *,
    fields: Fields = (),
    body: bytes | None = None,
    **more: Any,
) -> bytes:
    """Return a call of the tool as bytes, under an Authorization header. ``body`` stands for what is sent."""
    sent = call() if sent is None else sent
    shown = [] if authorization is None else [("Authorization", authorization)]
    written = json.dumps(sent).encode() if body is None else body
    return request(url, fields=[*headers_of(sent), *shown, *fields], body=written, **more)


def opening(url: str, token: str) -> bytes:
    """Return what opens a session of an older revision."""
    return request(url, fields=[*JSON, ("Authorization", f"Bearer {token}")], body=INITIALIZE)


def in_session(url: str, token: str | None, session: str, body: bytes, *, method: str = "POST") -> bytes:
    """Return a message in such a session."""
    shown = [] if token is None else [("Authorization", f"Bearer {token}")]
    own = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", LEGACY)]
    return request(url, method=method, fields=[*JSON, *own, *shown], body=body)


def answers(url: str, sent: bytes, *, method: str = "POST") -> list[Answer]:
    """Send bytes on a connection of their own, and return every response until the server closes it."""
    at = urlsplit(url)
    received = b""
    with socket.create_connection((str(at.hostname), at.port or 0), timeout=20) as stream:
        try:
            stream.sendall(sent)
            while block := stream.recv(65_536):
                received += block
        except (ConnectionResetError, BrokenPipeError):
            pass  # it had read enough; what it said before counts
    ANSWERED.append(received)
    return list(_read(received, method))


def answer(url: str, sent: bytes, *, method: str = "POST") -> Answer:
    """Send one request, and return its one response."""
    [only] = answers(url, sent, method=method)
    return only


def _challenge(value: str) -> dict[str, str]:
    scheme, _, rest = value.partition(" ")
    found: dict[str, str] = {"scheme": scheme}
    at = 0
    while at < len(rest):
        match = _PARAMETER.match(rest, at)
        assert match, f"no plain challenge: {value}"
        assert match[1] not in found, f"{match[1]} stands twice: {value}"
        found[match[1]] = match[2]
        at = match.end()
    return found


def _read(received: bytes, method: str) -> Iterable[Answer]:
    while received:
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method=method, target="/", headers=[("Host", "any"), ("Content-Length", "0")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(received)
        reader.receive_data(b"")
        head, body = None, b""
        while not isinstance(event := reader.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
        assert head is not None, received
        fields = tuple((name.decode().lower(), value.decode("latin-1")) for name, value in head.headers)
        yield Answer(head.status_code, fields, body)
        received = reader.trailing_data[0]

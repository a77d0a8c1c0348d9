"""An identity provider over loopback HTTP that answers whatever a test wants: a trusted one, or one turned hostile.

Owns metadata, a key set and introspection, and keeps every request that reached it, to the byte. Makes no token.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.attacks.oauth.forge import Key

Reply = tuple[int, Mapping[str, str], bytes]


def json_reply(content: Any, status: int = 200, **headers: str) -> Reply:
    """Return an answer of JSON."""
    return status, {"Content-Type": "application/json", **headers}, json.dumps(content).encode()


def redirect(to: str, status: int = 302) -> Reply:
    """Return an answer that leads elsewhere."""
    return status, {"Location": to}, b""


@dataclass
class Provider:
    """``keys`` and ``metadata`` are served as they stand; ``replies`` replace what a path gives. ``active`` is what
    introspection says, by token. It listens while it is entered; ``seen`` is what reached it, ``asked`` the paths.
    """

    keys: list[Any] = field(default_factory=list)
    active: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    seen: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                provider.seen.append(f"{self.requestline}\r\n{self.headers}".encode() + body)
                path = urlsplit(self.path).path
                provider.asked.append(path)
                status, headers, content = provider.reply(path, body)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815  # the name that the library looks for

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "introspection_endpoint": f"{self.url}/introspect",
            "response_types_supported": ["code"],
        }

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.01), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def publish(self, *keys: Key, **more: Any) -> Self:
        """Publish keys."""
        self.keys.extend(key.jwk(**more) for key in keys)
        return self

    def reply(self, path: str, body: bytes) -> Reply:
        """Return what a path gives."""
        if path in self.replies:
            return self.replies[path]
        if path.startswith("/.well-known/"):
            return json_reply(self.metadata)
        if path == "/jwks":
            return json_reply({"keys": self.keys})
        if path == "/introspect":
            [token] = parse_qs(body.decode()).get("token", [""])
            return json_reply(self.active.get(token, {"active": False}))
        return 404, {}, b""

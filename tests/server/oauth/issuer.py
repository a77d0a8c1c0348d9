"""An authorization server for the tests: real HTTP on loopback, real keys, and whatever fault a test asks for.

It publishes metadata, keys and introspection, and signs whatever it is told to. It issues nothing over HTTP.
"""

import json
import secrets
import socket
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote_plus

import anyio
import uvicorn
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from guideway.server.sections import IntrospectionSection, IssuerSection

RESOURCE: Final = "https://diag.example.com/mcp"
MISSING: Final = object()
"""As the value of a claim or of a header's member: leave it out."""

CLIENT_ID: Final = "guide:way"
# Every character that a careless encoding gets wrong (RFC 6749, section 2.3.1).
CLIENT_SECRET: Final = "s3cret/+ %:"  # noqa: S105  # nobody else's


def encode(part: bytes | str | Mapping[str, Any]) -> str:
    """Return a segment of a token: of bytes or text as they are, of anything else as JSON."""
    if isinstance(part, Mapping):
        part = json.dumps(part)
    if isinstance(part, str):
        part = part.encode()
    return urlsafe_b64encode(part).rstrip(b"=").decode()


def sign(header: bytes | str | Mapping[str, Any], payload: bytes | str | Mapping[str, Any], signer: "Signer") -> str:
    """Return a token over any header and payload, however wrong they are."""
    signed = f"{encode(header)}.{encode(payload)}"
    algorithm = JWSRegistry.algorithms[signer.algorithm]
    return f"{signed}.{encode(algorithm.sign(signed.encode(), signer.key))}"


def with_changes(parts: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with changes made to it."""
    return {name: value for name, value in {**parts, **changes}.items() if value is not MISSING}


@dataclass(frozen=True)
class Signer:
    """A private key with the algorithm and the key id that it signs under."""

    algorithm: str
    key: Key
    kid: str

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as it is published."""
        return {**self.key.as_dict(private=False), "kid": self.kid, "use": "sig", "alg": self.algorithm}


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> RSAKey:
    """Return an RSA key: the same for the same arguments, since making one takes long."""
    del number
    return RSAKey.generate_key(bits)


def signer(algorithm: str = "ES256", kid: str | None = None) -> Signer:
    """Make a signer. RSA keys are shared among those that ask for none of their own."""
    key: Key
    match algorithm[:2]:
        case "RS" | "PS":
            key = rsa_key()
        case "ES":
            curve: Any = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
            key = ECKey.generate_key(curve)
        case "Ed":
            key = OKPKey.generate_key("Ed25519")
        case _:
            key = OctKey.generate_key(256)
    return Signer(algorithm, key, kid or secrets.token_hex(8))


Reply = Callable[[], Response]


class _Server(uvicorn.Server):
    """Ends at once when it is told to."""

    async def main_loop(self) -> None:
        while not self.should_exit:
            await anyio.sleep(0.005)


@dataclass
class Issuer:
    """The server, listening while it is entered. ``requests`` counts what was asked, by the endpoint's name:
    ``metadata`` (RFC 8414), ``openid``, ``keys``, ``introspection``, ``token``, which has only what ``replies`` has.

    ``metadata``, ``signers`` and ``junk_keys`` are published as they are at the time. ``replies`` has, by the same
    names, what is answered instead, and ``shown`` the last Authorization header. An endpoint whose name is in
    ``stuck``, or about a token that is, answers when it is taken out. With a
    ``certificate`` it speaks TLS; the key is in ``key.pem`` beside it.
    """

    path: str = ""
    algorithm: str = "ES256"
    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    requests: Counter[str] = field(default_factory=Counter)
    shown: dict[str, str] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    signers: list[Signer] = field(default_factory=list)
    junk_keys: list[Any] = field(default_factory=list)
    opaque_tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    certificate: Path | None = None

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread()
        self.signers.append(signer(self.algorithm))
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "jwks_uri": f"{self.origin}/keys",
            "introspection_endpoint": f"{self.origin}/introspection",
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "response_types_supported": ["code"],
        }

    @property
    def origin(self) -> str:
        """Where it listens."""
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """Its name, which tokens and metadata have as issuer."""
        return f"{self.origin}{self.path}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, at the same address as before."""
        listener = socket.create_server(("127.0.0.1", self._port))
        names = {
            f"/.well-known/oauth-authorization-server{self.path.rstrip('/')}": "metadata",
            f"{self.path.rstrip('/')}/.well-known/openid-configuration": "openid",
            "/keys": "keys",
            "/introspection": "introspection",
            "/token": "token",
        }
        routes = [Route(path, self._endpoint(name), methods=["GET", "POST"]) for path, name in names.items()]
        config = uvicorn.Config(Starlette(routes=routes), http="h11", ws="none", lifespan="off", log_config=None)
        config.timeout_graceful_shutdown = 1
        if self.certificate:
            config.ssl_certfile, config.ssl_keyfile = str(self.certificate), str(self.certificate.with_name("key.pem"))
        self._server = server = _Server(config)
        self._thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
        self._thread.start()
        while not server.started:
            time.sleep(0.002)

    def stop(self) -> None:
        """Be gone: connections are refused from now on."""
        if self._server is not None:
            self.stuck.clear()
            self._server.should_exit = True
            self._thread.join()
            self._server = None

    def section(self, **changes: Any) -> IssuerSection:
        """Return the configuration that trusts it."""
        return IssuerSection.model_validate({"issuer": self.url, **changes})

    def opaque_section(self, **changes: Any) -> IssuerSection:
        """Return the configuration that asks it about opaque tokens. The secret is in ``GUIDEWAY_TEST_SECRET``."""
        asks = {"client_id": self.client_id, "client_secret_env": "GUIDEWAY_TEST_SECRET"}
        asks.update(changes.pop("introspection", {}))
        return self.section(tokens="opaque", introspection=IntrospectionSection.model_validate(asks), **changes)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a good token (RFC 9068, section 2.2), with changes."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "alice",
            "aud": RESOURCE,
            "client_id": "laptop",
            "iat": now,
            "exp": now + 600,
            "jti": secrets.token_hex(8),
            "scope": "mcp:diag:read",
        }
        return with_changes(claims, changes)

    def header(self, by: Signer | None = None, **changes: Any) -> dict[str, Any]:
        """Return the header of a good token, with changes."""
        by = by or self.signers[-1]
        return with_changes({"typ": "at+jwt", "alg": by.algorithm, "kid": by.kid}, changes)

    def token(self, *, header: Mapping[str, Any] | None = None, by: Signer | None = None, **changes: Any) -> str:
        """Return a good JWT with changes to its claims and its header, signed with the newest key or ``by`` another."""
        by = by or self.signers[-1]
        return sign(self.header(by, **(header or {})), self.claims(**changes), by)

    def opaque_token(self, **changes: Any) -> str:
        """Return an opaque token; asked about it, the issuer answers with these claims."""
        token = secrets.token_urlsafe(24)
        self.opaque_tokens[token] = with_changes({"active": True, "token_type": "Bearer", **self.claims()}, changes)
        return token

    def rotate(self, *, keep: bool = False, algorithm: str | None = None) -> Signer:
        """Sign with a new key from now on; the old ones are withdrawn unless they are kept."""
        if not keep:
            self.signers.clear()
        self.signers.append(signer(algorithm or self.algorithm))
        return self.signers[-1]

    def _endpoint(self, name: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self.requests[name] += 1
            await request.body()
            self.shown[name] = request.headers.get("Authorization", "")
            while name in self.stuck:
                await anyio.sleep(0.01)
            if name in self.replies:
                return self.replies[name]()
            match name:
                case "keys":
                    return JSONResponse({"keys": [*self.junk_keys, *(by.jwk for by in self.signers)]})
                case "introspection":
                    return await self._introspect(request)
                case _:
                    return JSONResponse(self.metadata)

        return answer

    async def _introspect(self, request: Request) -> Response:
        """RFC 7662, section 2, for a client that authenticates as RFC 6749, section 2.3.1 has it."""
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        client, _, secret = b64decode(credentials).decode().partition(":")
        known = (unquote_plus(client), unquote_plus(secret)) == (self.client_id, self.client_secret)
        if request.method != "POST" or scheme != "Basic" or not known:
            return JSONResponse({"error": "invalid_client"}, 401)
        token = (await request.form()).get("token")
        while token in self.stuck:
            await anyio.sleep(0.01)
        return JSONResponse(self.opaque_tokens.get(str(token), {"active": False}))

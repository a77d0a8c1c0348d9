"""Requests that show a good token where none belongs, or none at all, or that say two things at once.

Every one is a call that would restart a service, by somebody whose token may do that.
"""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from guideway.server.tool import TOOL_NAME
from tests.attacks.oauth import wire, words
from tests.attacks.oauth.stage import Stage
from tests.attacks.oauth.wire import calling, request

NO_TOKEN: Final = "an access token is needed"  # noqa: S105  # words, no secret
TWICE: Final = "there is more than one Authorization header"
IN_URL: Final = "a token belongs into the Authorization header, never into a URL"
MALFORMED: Final = "the token is malformed"
UNBOUND: Final = "the token is bound to no key, so that its scheme is Bearer"
TOO_LONG: Final = "the token is too long"


@dataclass(frozen=True)
class Hostile:
    """A request, who would send it and why, and how it is answered: ``statuses`` one an answer on its connection.

    ``error`` and ``why`` are what the last answer's challenge says, None where it has none.
    """

    name: str
    story: str
    make: Callable[[Stage, str], bytes]
    statuses: tuple[int, ...] = (401,)
    error: str | None = None
    why: str | None = NO_TOKEN
    challenged: bool = True
    method: str = "POST"

    def __str__(self) -> str:
        return self.name


def shown(name: str, story: str, value: str, why: str | None = NO_TOKEN, status: int = 401) -> Hostile:
    """Return a call under an Authorization header that has the token at `{}`."""
    error = None if why is NO_TOKEN else "invalid_request" if status == 400 else "invalid_token"
    make: Callable[[Stage, str], bytes] = lambda stage, token: calling(stage.url, value.format(token))  # noqa: E731
    return Hostile(name, story, make, (status,), error, why)


def elsewhere(name: str, story: str, *fields: tuple[str, str]) -> Hostile:
    """Return a call without Authorization, and with the token at `{}` in other headers."""
    return Hostile(
        name,
        story,
        lambda stage, token: calling(stage.url, None, fields=[(key, value.format(token)) for key, value in fields]),
    )


def both(name: str, story: str, first: str, second: str) -> Hostile:
    return Hostile(
        name,
        story,
        lambda stage, token: calling(stage.url, first.format(token), fields=[("Authorization", second.format(token))]),
        (400,),
        "invalid_request",
        TWICE,
    )


def asked(name: str, story: str, query: str, *, header: bool = False, status: int = 400) -> Hostile:
    """Return a call whose URL holds the token."""
    return Hostile(
        name,
        story,
        lambda stage, token: calling(
            stage.url, f"Bearer {token}" if header else None, target=f"/mcp?{query.format(token)}"
        ),
        (status,),
        "invalid_request" if status == 400 else None,
        IN_URL if status == 400 else NO_TOKEN,
    )


def refused(name: str, story: str, status: int, make: Callable[[Stage, str], bytes], method: str = "POST") -> Hostile:
    """Return a request that is answered with a status and no challenge."""
    return Hostile(name, story, make, (status,), challenged=False, why=None, method=method)


def named(name: str, story: str, status: int, *fields: tuple[str, str], without: tuple[str, ...] = ()) -> Hostile:
    """Return a good call with headers of its own; `{}` in them is the server's address."""
    return refused(
        name,
        story,
        status,
        lambda stage, token: calling(
            stage.url,
            f"Bearer {token}",
            fields=[(key, value.format(urlsplit(stage.url).netloc)) for key, value in fields],
            without=without,
        ),
    )


def spoken(name: str, story: str, status: int, edit: Callable[[bytes, str], bytes]) -> Hostile:
    """Return a good call whose bytes were edited; the edit is given them, and the token."""
    return refused(name, story, status, lambda stage, token: edit(calling(stage.url, f"Bearer {token}"), token))


def followed(name: str, story: str, head: Callable[[Stage, str, bytes], bytes], *statuses: int) -> Hostile:
    """Return two requests on one connection; the second, which is hidden in the first for some, shows no token."""
    return Hostile(
        name,
        story,
        lambda stage, token: head(stage, token, calling(stage.url, None)),
        statuses,
        why=NO_TOKEN if statuses[-1] == 401 else None,
        challenged=statuses[-1] == 401,
    )


def at(target: str, story: str, status: int, method: str = "POST") -> Hostile:
    """Return a call without a token at another spelling of the path."""
    make: Callable[[Stage, str], bytes] = lambda stage, _: calling(stage.url, None, target=target, method=method)  # noqa: E731
    if status == 401:
        return Hostile(f"{method} {target}", story, make, method=method)
    return refused(f"{method} {target}", story, status, make, method)


def listing(stage: Stage, token: str, *fields: tuple[str, str], close: bool = False, **more: Any) -> bytes:
    """Return a listing, which a reader may ask for and which touches nothing."""
    return calling(stage.url, f"Bearer {token}", wire.message("tools/list"), fields=fields, close=close, **more)


def under_both_lengths(stage: Stage, token: str, hidden: bytes) -> bytes:
    """Return a request with a length and chunks: who goes by the length sees no second one (RFC 9112, section 11.2)."""
    first = listing(stage, token, ("Transfer-Encoding", "chunked"), without=("Content-Length",))
    head, _, body = first.partition(b"\r\n\r\n")
    chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    length = f"\r\nContent-Length: {len(chunks) + len(hidden)}\r\n\r\n".encode()
    return head + length + chunks + hidden


IN_HEADERS: Final = (
    Hostile("no token", "anybody", lambda stage, _: calling(stage.url, None)),
    shown("the token alone", "no scheme", "{}"),
    shown("the scheme alone", "no token", "Bearer", MALFORMED),
    shown("the scheme and a space", "no token", "Bearer ", MALFORMED),
    shown("a tab behind the scheme", "another separator, which some split at", "Bearer\t{}"),
    shown("the scheme glued on", "no separator", "Bearer{}"),
    shown("a colon behind the scheme", "a header in a header", "Bearer: {}"),
    shown("an equals sign behind the scheme", "a parameter", "Bearer={}"),
    shown("the token in quotes", "a string", 'Bearer "{}"', MALFORMED),
    shown("the token in brackets", "an address", "Bearer <{}>", MALFORMED),
    shown("a word behind the token", "two values, of which one is read", "Bearer {} admin", MALFORMED),
    shown("a parameter behind the token", "what another scheme has", "Bearer {};scope=admin", MALFORMED),
    shown("a comma behind the token", "the beginning of a list", "Bearer {},", MALFORMED),
    shown(
        "two tokens in a list",
        "who reads the first and who reads the last do not read the same",
        "Bearer {0}, Bearer {0}",
        MALFORMED,
    ),
    shown("another scheme in front, in a list", "the same", "Basic eDp5, Bearer {}"),
    shown("two tokens behind one scheme", "the same", "Bearer {0} {0}", MALFORMED),
    shown("the scheme twice", "a scheme that is a token", "Bearer Bearer {}", MALFORMED),
    shown("bytes that are no ASCII", "what is cut or mapped on the way", "Bearer {}\u00e9", MALFORMED),
    shown("a no-break space", "what is trimmed by some", "Bearer \u00a0{}", MALFORMED),
    shown("the scheme of another", "tokens are no passwords", "Token {}"),
    shown("a scheme that begins like it", "a prefix", "Bearerx {}"),
    shown("a token that is too long", "work without end", "Bearer " + "a" * 20_000, TOO_LONG),
    shown("the scheme for bound tokens, and a token that is not", "a proof that nobody asks for", "DPoP {}", UNBOUND),
    Hostile(
        "as a password",
        "a token where some programs put it",
        lambda stage, token: calling(stage.url, f"Basic {b64encode(f'mallory:{token}'.encode()).decode()}"),
    ),
    both("the header twice", "a proxy checks one, the server reads the other", "Bearer {}", "Bearer {}"),
    both("the header twice, the first one bad", "the same", "Bearer x", "Bearer {}"),
    both("the header twice, the second one bad", "the same", "Bearer {}", "Bearer x"),
    both("the header twice, once for another scheme", "the same", "Basic eDp5", "Bearer {}"),
    both("the header twice, once empty", "the same", "", "Bearer {}"),
    elsewhere(
        "in a cookie",
        "what a browser sends by itself, for any page",
        ("Cookie", "access_token={0}; Authorization=Bearer {0}"),
    ),
    elsewhere(
        "in headers of its own",
        "what other programs read",
        ("X-Authorization", "Bearer {}"),
        ("X-Access-Token", "{}"),
        ("X-Api-Key", "{}"),
    ),
    elsewhere(
        "in a proxy's headers",
        "what a proxy would set",
        ("Proxy-Authorization", "Bearer {}"),
        ("X-Forwarded-Access-Token", "{}"),
        ("X-Forwarded-Authorization", "Bearer {}"),
        ("X-Original-Authorization", "Bearer {}"),
    ),
    elsewhere(
        "with an underscore", "what becomes the same name in a CGI's variables", ("HTTP_AUTHORIZATION", "Bearer {}")
    ),
    elsewhere(
        "in a socket's subprotocol",
        "where browsers put it for want of headers",
        ("Sec-WebSocket-Protocol", "bearer, {}"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Sec-WebSocket-Version", "13"),
    ),
    elsewhere(
        "in words of a proxy about somebody",
        "who is asking is in the token alone",
        ("X-Forwarded-User", "alice"),
        ("X-Remote-User", "alice"),
        ("Remote-User", "alice"),
        ("X-Forwarded-Email", "alice@example.com"),
        ("X-Auth-Request-User", "alice"),
    ),
    elsewhere(
        "in words about where it comes from",
        "nobody is let in for an address",
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-Ip", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1;host=localhost;proto=https"),
    ),
    elsewhere(
        "in words about where it goes",
        "a client that was challenged must be led to this server, not to Mallory's",
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "1"),
        ("X-Forwarded-Prefix", "/evil"),
    ),
    elsewhere(
        "in words about another path",
        "a path that needs no token, for who believes it",
        ("X-Original-Url", "/.well-known/oauth-protected-resource/mcp"),
        ("X-Rewrite-Url", "/.well-known/oauth-protected-resource/mcp"),
    ),
    elsewhere(
        "in a client certificate that somebody speaks of",
        "a header is no certificate",
        ("X-Client-Cert", "CN=alice"),
        ("X-Ssl-Client-Verify", "SUCCESS"),
        ("X-Forwarded-Client-Cert", "Subject=alice"),
    ),
)

IN_PLACES: Final = (
    asked("in the query", "what stands in every log on the way", "access_token={}"),
    asked("in the query and in the header", "the same, beside the right way", "access_token={}", header=True),
    asked("in the query under an escape", "the same name", "%61ccess_token={}"),
    asked("in the query in upper case", "the same name, to some", "ACCESS_TOKEN={}", header=True),
    asked("in the query behind others", "the same, later", "a=b&c&access_token={}&d"),
    asked("in the query and empty", "a name without a token", "access_token=", header=True),
    asked(
        "in the query under another name",
        "nobody reads it",
        "token={0}&bearer={0}&authorization=Bearer%20{0}",
        status=401,
    ),
    Hostile(
        "in a form",
        "RFC 6750, section 2.2, which nobody here asked for",
        lambda stage, token: request(
            stage.url,
            fields=[("Content-Type", "application/x-www-form-urlencoded")],
            body=f"access_token={token}".encode(),
        ),
    ),
    Hostile(
        "in the message",
        "a member that is no header",
        lambda stage, token: calling(stage.url, None, wire.call(access_token=token, authorization=f"Bearer {token}")),
    ),
    Hostile(
        "in the message's arguments",
        "a token that a model holds",
        lambda stage, token: calling(
            stage.url,
            None,
            wire.message(
                "tools/call", {"name": TOOL_NAME, "arguments": {"program": wire.RESTART, "access_token": token}}
            ),
        ),
    ),
    Hostile(
        "in the trailer",
        "a header behind the body",
        lambda stage, token: calling(
            stage.url,
            None,
            fields=[("Transfer-Encoding", "chunked"), ("Trailer", "Authorization")],
            without=["Content-Length"],
            body=b"2\r\n{}\r\n0\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n",
        ),
    ),
    Hostile(
        "in the line before",
        "a header that goes on with what looks like another",
        lambda stage, token: calling(stage.url, None, fields=[("X-Note", f"a\r\n Authorization: Bearer {token}")]),
    ),
    at("/mcp/", "another path, and to some the same", 404),
    at("/%6dcp", "the same path", 401),
    at("/mcp?x=1", "the same path", 401),
    at("//mcp", "another path, and to some the same", 404),
    at("/MCP", "another path, and to some the same", 404),
    at("/mcp;x=1", "another path, and to some the same", 404),
    at("/mcp%2f", "another path, also for who decodes first", 404),
    at("/mcp%00", "another path, and to some the same", 404),
    at("/mcp%0a", "another path, and `$` of a pattern stands before the line's end", 404),
    at("/./mcp", "the same path, for who tidies up first", 404),
    at("/.well-known/../mcp", "a path that begins like one that needs no token", 404),
    at("/.well-known/oauth-protected-resource/mcp/../../../mcp", "the same", 404),
    at("/.well-known/oauth-protected-resource/mcp%2f..%2f..%2f..%2fmcp", "the same, under an escape", 404),
    at("/.well-known/oauth-protected-resource/mcp", "what needs no token takes no call", 405),
    at("/grammar", "a token first, whatever the method", 401),
    at("/grammar", "names are nobody's business", 401, "GET"),
    Hostile(
        "GET /grammar?access_token=",
        "names are nobody's business",
        lambda stage, token: request(stage.grammar, method="GET", target=f"/grammar?access_token={token}"),
        (400,),
        "invalid_request",
        IN_URL,
        method="GET",
    ),
    at("/grammar/", "another path, and to some the same", 404, "GET"),
    at("/grammar", "headers tell of names too", 401, "HEAD"),
    at("/mcp", "a stream is nobody's business", 401, "GET"),
    at("/mcp", "sessions are nobody's to end", 401, "DELETE"),
    at("/mcp", "a browser asks first, without a token", 401, "OPTIONS"),
    at("/mcp", "any method", 401, "PUT"),
    at("/mcp", "any method", 401, "TRACE"),
    at("/mcp", "any method", 401, "MKCOL"),
)

NAMED: Final = (
    named(
        "Host of another",
        "a page of Mallory's whose name now leads here (DNS rebinding)",
        421,
        ("Host", "evil.example"),
        without=("Host",),
    ),
    named("Host that begins right", "a name of Mallory's", 421, ("Host", "{}.evil.example"), without=("Host",)),
    named("Host with a user", "what stands before `@` is no host", 421, ("Host", "{}@evil.example"), without=("Host",)),
    named("Host with a line of more", "two hosts in one", 421, ("Host", "{}, evil.example"), without=("Host",)),
    named("Host empty", "no host", 421, ("Host", ""), without=("Host",)),
    named("Host missing", "RFC 9112, section 3.2, asks for it", 400, without=("Host",)),
    named("Host twice", "a proxy reads one, the server the other", 400, ("Host", "evil.example")),
    named("Host on another port", "another server of this machine", 421, ("Host", "127.0.0.1:1"), without=("Host",)),
    named(
        "Host on the wildcard's address",
        "an address that leads here from a browser",
        421,
        ("Host", "0.0.0.0:80"),
        without=("Host",),
    ),
    named(
        "Host of another, and forwarded for the right one",
        "a header that only a proxy's word is worth",
        421,
        ("Host", "evil.example"),
        ("X-Forwarded-Host", "{}"),
        without=("Host",),
    ),
    named("Origin of another", "a page of Mallory's", 403, ("Origin", "https://evil.example")),
    named("Origin null", "a page in a sandbox", 403, ("Origin", "null")),
    named("Origin by another scheme", "another origin", 403, ("Origin", "https://{}")),
    named("Origin that begins right", "a name of Mallory's", 403, ("Origin", "http://{}.evil.example")),
    named("Origin with a user", "what stands before `@` is no host", 403, ("Origin", "http://{}@evil.example")),
    named("Origin with a path", "an origin has none", 403, ("Origin", "http://{}/")),
    named(
        "Origin twice, the second one of another",
        "which of them is it?",
        400,
        ("Origin", "http://{}"),
        ("Origin", "https://evil.example"),
    ),
    named(
        "Origin twice, the first one of another",
        "which of them is it?",
        400,
        ("Origin", "https://evil.example"),
        ("Origin", "http://{}"),
    ),
    named("Origin of a file", "a page that somebody saved", 403, ("Origin", "file://")),
    named("Origin of an extension", "a page of the browser's", 403, ("Origin", "chrome-extension://abc")),
    refused(
        "a target with another host",
        "RFC 9112, section 3.2.2: the target's host is the one that counts",
        404,
        lambda stage, token: calling(stage.url, f"Bearer {token}", target="http://evil.example/mcp"),
    ),
)

SPOKEN: Final = (
    spoken(
        "a space before the colon",
        "a header that a proxy does not know, and the server does",
        400,
        lambda sent, _: sent.replace(b"Authorization:", b"Authorization :"),
    ),
    spoken(
        "a NUL in the header's name",
        "what a C string ends at",
        400,
        lambda sent, _: sent.replace(b"Authorization:", b"Authorization\x00:"),
    ),
    spoken(
        "a NUL in the header's value",
        "what a C string ends at",
        400,
        lambda sent, token: sent.replace(token.encode(), token.encode() + b"\x00x"),
    ),
    spoken(
        "a carriage return alone in a header",
        "a line's end, for some",
        400,
        lambda sent, _: sent.replace(b"Authorization:", b"X-Note: a\rAuthorization:"),
    ),
    spoken("a header without a name", "nobody's header", 400, lambda sent, _: sent.replace(b"Authorization:", b":")),
    spoken(
        "an older protocol without a Host",
        "HTTP/1.0 has no Host",
        421,
        lambda sent, _: b"POST /mcp HTTP/1.0\r\n" + sent.partition(b"Host: ")[2].partition(b"\r\n")[2],
    ),
    Hostile(
        "the preface of HTTP/2",
        "another protocol",
        lambda stage, token: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + calling(stage.url, f"Bearer {token}"),
        (421, 400),
        challenged=False,
    ),
    spoken(
        "two lengths",
        "a proxy goes by one, the server by the other (RFC 9112, section 6.3)",
        400,
        lambda sent, _: sent.replace(b"Content-Length:", b"Content-Length: 2\r\nContent-Length:"),
    ),
    spoken(
        "a list of lengths", "the same", 400, lambda sent, _: sent.replace(b"Content-Length: ", b"Content-Length: 2, ")
    ),
    spoken(
        "a length with a sign",
        "a number, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length: ", b"Content-Length: +"),
    ),
    spoken(
        "a length in another base",
        "a number, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length: ", b"Content-Length: 0x"),
    ),
    spoken(
        "an encoding that is not known",
        "chunks, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length:", b"Transfer-Encoding: xchunked\r\nContent-Length:"),
    ),
    spoken(
        "an encoding behind a vertical tab",
        "chunks, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length:", b"Transfer-Encoding: \x0bchunked\r\nContent-Length:"),
    ),
    spoken(
        "two encodings",
        "chunks, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length:", b"Transfer-Encoding: chunked, identity\r\nContent-Length:"),
    ),
    spoken(
        "a chunk with a size that is none",
        "a number, to some",
        400,
        lambda sent, _: sent.replace(b"Content-Length:", b"Transfer-Encoding: chunked\r\nX-Length:").replace(
            b"\r\n\r\n{", b"\r\n\r\n0x10\r\n{"
        ),
    ),
    spoken(
        "a header without end",
        "a server that waits for the end of what has none",
        400,
        lambda sent, _: sent.partition(b"Content-Length")[0] + b"X-Note: " + b"a" * 70_000,
    ),
)

FOLLOWED: Final = (
    followed(
        "behind a good one",
        "a connection has no rights: each request shows its own token",
        lambda stage, token, hidden: listing(stage, token) + hidden,
        200,
        401,
    ),
    followed(
        "hidden by two lengths",
        "a proxy sees one request, the server two; the second has no token of its own",
        under_both_lengths,
        400,
    ),
    followed(
        "hidden in a body",
        "a request that is another one's body stays one",
        lambda stage, token, hidden: listing(stage, token, close=True, body=hidden),
        400,
    ),
    followed(
        "hidden behind a GET's body",
        "a body that nobody expects is no request",
        lambda stage, token, hidden: request(
            stage.grammar, method="GET", fields=[("Authorization", f"Bearer {token}")], body=hidden
        ),
        200,
    ),
    Hostile(
        "hidden behind a refused one",
        "what was refused is not read on as another request",
        lambda stage, token: calling(stage.url, "Bearer x", body=calling(stage.url, f"Bearer {token}")),
        error="invalid_token",
        why=words.ISSUER,
    ),
)


def overridden(header: str) -> Hostile:
    return refused(
        f"{header} on a GET",
        "a harmless method that says that it is another",
        405,
        lambda stage, token: calling(stage.url, f"Bearer {token}", method="GET", fields=[(header, "POST")]),
        "GET",
    )


OVERRIDDEN: Final = tuple(map(overridden, ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method")))

ALL: Final = (*IN_HEADERS, *IN_PLACES, *NAMED, *SPOKEN, *FOLLOWED, *OVERRIDDEN)

#: What looks odd and is right: RFC 9110, sections 5.1, 5.5 and 11.1, and RFC 9112, section 5.2.
HONEST: Final[tuple[tuple[str, Callable[[Stage, str], bytes]], ...]] = (
    ("the scheme in lower case", lambda stage, token: calling(stage.url, f"bearer {token}")),
    ("the scheme in upper case", lambda stage, token: calling(stage.url, f"BEARER {token}")),
    ("two spaces", lambda stage, token: calling(stage.url, f"Bearer  {token}")),
    ("a space behind the token", lambda stage, token: calling(stage.url, f"Bearer {token} ")),
    (
        "the header in another case",
        lambda stage, token: calling(stage.url, None, fields=[("aUTHORIZATION", f"Bearer {token}")]),
    ),
    ("the header over two lines", lambda stage, token: calling(stage.url, f"Bearer\r\n {token}")),
    (
        "an Origin of its own",
        lambda stage, token: calling(stage.url, f"Bearer {token}", fields=[("Origin", stage.url.removesuffix("/mcp"))]),
    ),
)

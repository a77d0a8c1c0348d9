"""Calls by somebody who may only read, each of which would restart a service if anybody read it wrongly.

The gate in front and the protocol behind it parse the same bytes; where they could see different things, an attacker
gets one past the other. Whatever either sees, the pipeline decides.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.server.request_body import most_bytes
from guideway.server.tool import TOOL_NAME
from tests.attacks.oauth.wire import MODERN, RESTART, STATUS, call, message

MOST: Final = most_bytes(DEFAULT_LIMITS.bytes)

CHALLENGED: Final = 403
"""The gate read the program, and asks for the scope that it lacks."""


@dataclass(frozen=True)
class Body:
    """The bytes of a call, who would send them and why, and the status that answers them.

    ``said`` stands in the answer, where its status alone says too little. ``legacy`` is the status in a session of an
    older revision, where that is another; the two are parsed differently.
    """

    name: str
    story: str
    content: bytes
    status: int = CHALLENGED
    said: str = ""
    legacy: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def running(
    name: str, story: str, program: str, status: int = CHALLENGED, said: str = "", *, legacy: int | None = None
) -> Body:
    """Return a call with a program of its own."""
    return Body(f"program: {name}", story, json.dumps(call(program)).encode(), status, said, legacy)


def given(name: str, story: str, params: dict[str, Any], status: int = 200, said: str = "invalid arguments") -> Body:
    """Return a call with parameters of its own. An older revision answers every mistake with 200."""
    content = json.dumps(message("tools/call", params)).encode()
    return Body(f"params: {name}", story, content, status, said, 200 if status == 400 else None)


def text(edit: Callable[[str], str | bytes], program: str = RESTART) -> bytes:
    """Return a call whose text was edited."""
    edited = edit(json.dumps(call(program)))
    return edited if isinstance(edited, bytes) else edited.encode()


def twice(key: str, first: Any, last: Any) -> bytes:
    """Return a call in which a member stands twice, at whatever depth it is."""
    return text(
        lambda whole: whole.replace(
            json.dumps({key: last})[1:-1], f"{json.dumps({key: first})[1:-1]}, {json.dumps({key: last})[1:-1]}", 1
        )
    )


PARAMS: Final = call()["params"]
HARMLESS: Final = call(STATUS)["params"]
ARGUMENTS: Final = {"program": RESTART}

PROGRAMS: Final = (
    running("plain", "the scope is not there", RESTART),
    running("behind a read", "the first command is harmless", f"{STATUS}\n{RESTART}"),
    running(
        "in a branch that is not taken",
        "what does not run this time runs the next",
        f'IF_RUNNING "database" THEN {{ {STATUS} }} ELSE {{ {RESTART} }}',
    ),
    running("in a handler", "what runs only after a failure", f'TRY {{ PING "api.internal" }} CATCH {{ {RESTART} }}'),
    running("deep in blocks", "what is looked for not deep enough", "{" * 60 + RESTART + "}" * 60),
    running("on a line that looks like a comment's", "a carriage return ends no comment", f"# harmless\r\n{RESTART}"),
    running("behind a byte order mark", "a mark that hides the first word", "\ufeff" + RESTART),
    running("in a comment", "what is in a comment is no command", f"{STATUS} # {RESTART}", 200, "completed"),
    running("in lower case", "the language has a case", 'restart "database"', 200, "syntax"),
    running(
        "in full-width letters",
        "becomes the same when it is normalised",
        '\uff32\uff25\uff33\uff34\uff21\uff32\uff34 "database"',
        200,
        "syntax",
    ),
    running(
        "behind a mistake",
        "a program with a mistake is none, whatever else it holds",
        f"PING\n{RESTART}",
        200,
        "syntax",
    ),
    running(
        "too long to read", "a gate that gives up must not let through", f"{RESTART}\n{'#' * 70_000}", 200, "too_large"
    ),
    running("nested too deeply", "the same", "{" * 70 + RESTART + "}" * 70, 200, "too_large"),
    running("with more commands than are read", "the same", f"{STATUS}\n" * 1_030 + RESTART, 200, "too_large"),
    running("with a lone surrogate", "what has no UTF-8", f"{STATUS} # \ud800\n{RESTART}", 200, legacy=400),
    running("with a NUL", "what a C string ends at", f"{STATUS}\x00{RESTART}", 200, "syntax"),
    running("of another tenant", "a name of somebody else's", 'GET_STATUS "vault"', 200, "unknown_target"),
)

ARGUED: Final = (
    given("program a list", "a list whose text is a program", {"name": TOOL_NAME, "arguments": {"program": [RESTART]}}),
    given(
        "program an object",
        "an object that holds one",
        {"name": TOOL_NAME, "arguments": {"program": {"program": RESTART}}},
    ),
    given("program null", "none", {"name": TOOL_NAME, "arguments": {"program": None}}),
    given(
        "one argument more",
        "what one reader skips and the other takes",
        {"name": TOOL_NAME, "arguments": {**ARGUMENTS, "force": True}},
    ),
    given(
        "scopes as an argument",
        "rights that the caller gives itself",
        {"name": TOOL_NAME, "arguments": {**ARGUMENTS, "scopes": ["mcp:diag:write"]}},
    ),
    given(
        "tenant as an argument",
        "a tenant that the caller gives itself",
        {"name": TOOL_NAME, "arguments": {"program": 'RESTART "shop"', "tenant": "acme"}},
    ),
    given("program in another case", "another argument", {"name": TOOL_NAME, "arguments": {"Program": RESTART}}),
    given("no arguments", "none", {"name": TOOL_NAME}),
    given("arguments a list", "pairs", {"name": TOOL_NAME, "arguments": [["program", RESTART]]}, 400, "nvalid"),
    given("arguments a string", "JSON in JSON", {"name": TOOL_NAME, "arguments": json.dumps(ARGUMENTS)}, 400, "nvalid"),
    given("a harmless program beside", "which of the two is it?", {**PARAMS, "program": STATUS}, CHALLENGED, ""),
    given(
        "another tool's name",
        "a tool that nobody has",
        {"name": "execute_diagnostic_pipeline ", "arguments": ARGUMENTS},
        400,
        "",
    ),
    given("a list of names", "one of them is right", {"name": [TOOL_NAME], "arguments": ARGUMENTS}, 400, ""),
)

WRITTEN: Final = (
    Body(
        "params twice, the harmless ones first",
        "two keys of one name: who reads the last sees the restart",
        twice("params", HARMLESS, PARAMS),
    ),
    Body(
        "params twice, the harmless ones last",
        "who reads the first would see the restart",
        twice("params", HARMLESS, PARAMS)
        .replace(b"RESTART", b"%")
        .replace(b"GET_STATUS", b"RESTART")
        .replace(b"%", b"GET_STATUS"),
        200,
        "completed",
    ),
    Body("arguments twice", "the same, deeper", twice("arguments", {"program": STATUS}, ARGUMENTS)),
    Body("program twice", "the same, deeper still", twice("program", STATUS, RESTART)),
    Body("method twice", "a harmless method in front", twice("method", "tools/list", "tools/call")),
    Body(
        "method under an escape",
        "the same method in another spelling",
        text(lambda whole: whole.replace('"tools/call"', '"tools\\u002fc\\u0061ll"')),
    ),
    Body(
        "keys under escapes",
        "the same keys in another spelling",
        text(lambda whole: whole.replace('"params"', '"\\u0070arams"').replace('"program"', '"progr\\u0061m"')),
    ),
    Body(
        "program under escapes",
        "the same program in another spelling",
        text(lambda whole: whole.replace("RESTART", "\\u0052ESTART")),
    ),
    Body(
        "a key twice, once under an escape",
        "two spellings of one key",
        text(lambda whole: whole.replace('{"program":', f'{{"program": {json.dumps(STATUS)}, "progra\\u006d":')),
    ),
    Body("white space around", "what is no space elsewhere", text(lambda whole: f" \t\r\n{whole}\n\n")),
    Body(
        "a byte order mark",
        "what one reader skips and another stumbles over",
        text(lambda whole: whole.encode("utf-8-sig")),
        legacy=400,
    ),
    Body(
        "UTF-16",
        "what one reader guesses and another cannot read",
        text(lambda whole: whole.encode("utf-16-le")),
        legacy=400,
    ),
    Body("UTF-16 with a mark", "the same", text(lambda whole: whole.encode("utf-16")), legacy=400),
    Body("UTF-32", "the same", text(lambda whole: whole.encode("utf-32-be")), legacy=400),
    Body(
        "bytes that are no text",
        "what is replaced by some",
        text(lambda whole: whole.encode().replace(b'"jsonrpc"', b'"\xff":1,"jsonrpc"')),
        400,
    ),
    Body(
        "a number that is none",
        "what is no JSON, and what one reader takes",
        text(lambda whole: whole.replace('"jsonrpc"', '"x": NaN, "jsonrpc"')),
    ),
    Body("an infinite number", "the same", text(lambda whole: whole.replace('"jsonrpc"', '"x": 1e999, "jsonrpc"'))),
    Body(
        "a number of many digits",
        "what takes long to read",
        text(lambda whole: whole.replace('"jsonrpc"', f'"x": {"9" * 5_000}, "jsonrpc"')),
        400,
    ),
    Body("a comment", "what is no JSON, and what some take", text(lambda whole: f"/**/{whole}"), 400),
    Body("a comma at the end", "the same", text(lambda whole: f"{whole[:-1]},}}"), 400),
    Body("single quotes", "the same", text(lambda whole: whole.replace('"jsonrpc"', "'jsonrpc'")), 400),
    Body(
        "two messages", "the first one is harmless", text(lambda whole: json.dumps(message("tools/list")) + whole), 400
    ),
    Body(
        "two messages, a line each",
        "the same",
        text(lambda whole: json.dumps(message("tools/list")) + "\n" + whole),
        400,
    ),
    Body("a batch", "a list of messages, which older revisions had", text(lambda whole: f"[{whole}]"), 400),
    Body(
        "a batch of two",
        "the first one is harmless",
        text(lambda whole: f"[{json.dumps(message('tools/list'))}, {whole}]"),
        400,
    ),
    Body("a batch in a batch", "the same, deeper", text(lambda whole: f"[[{whole}]]"), 400),
    Body("an empty batch", "nothing", b"[]", 400),
    Body(
        "nesting",
        "what ends a reader's stack",
        text(lambda whole: whole.replace('"jsonrpc"', f'"x": {"[" * 100_000}{"]" * 100_000}, "jsonrpc"')),
        400,
    ),
    Body(
        "with the program in its metadata",
        "what some clients would read",
        text(lambda whole: whole.replace('"_meta": {', f'"_meta": {{"program": {json.dumps(RESTART)}, '), STATUS),
        200,
        "completed",
    ),
    Body("nothing", "nothing", b"", 400),
    Body("a string", "JSON in JSON", text(json.dumps), 400),
    Body(
        "compressed",
        "what a gate does not unpack and somebody behind it does",
        text(lambda whole: gzip.compress(whole.encode())),
        400,
        fields=(("Content-Encoding", "gzip"),),
    ),
    Body("said to be compressed", "the other way round", text(str), fields=(("Content-Encoding", "gzip"),)),
    Body(
        "in chunks",
        "a gate that sees the first piece alone",
        b"7\r\n" + text(str)[:7] + b"\r\n" + f"{len(text(str)) - 7:x}\r\n".encode() + text(str)[7:] + b"\r\n0\r\n\r\n",
        fields=(("Transfer-Encoding", "chunked"),),
        without=("Content-Length",),
    ),
    Body(
        "as large as is read",
        "a gate that gives up must not let through",
        text(lambda whole: whole + " " * (MOST - len(whole))),
        CHALLENGED,
    ),
    Body(
        "said to be too large",
        "the same, before it comes",
        b"{",
        413,
        fields=(("Content-Length", "999999999"),),
        without=("Content-Length",),
    ),
    Body("without an id", "a message that wants no answer", text(lambda whole: whole.replace('"id": 1, ', "")), 202),
    Body("with an id of null", "an id that is none", text(lambda whole: whole.replace('"id": 1', '"id": null')), 403),
    Body(
        "with an id that is an object",
        "an id that is none",
        text(lambda whole: whole.replace('"id": 1', '"id": {}')),
        403,
    ),
    Body(
        "with another protocol's version",
        "a message of something else",
        text(lambda whole: whole.replace('"2.0"', '"1.0"')),
        403,
    ),
    Body(
        "with a method in another case",
        "another method",
        text(lambda whole: whole.replace("tools/call", "TOOLS/CALL")),
        400,
        legacy=200,
    ),
    Body(
        "with a method that has a space",
        "another method",
        text(lambda whole: whole.replace("tools/call", "tools/call ")),
        400,
        legacy=200,
    ),
    Body(
        "with a method that is a list",
        "one of them is right",
        text(lambda whole: whole.replace('"tools/call"', '["tools/call"]')),
        400,
    ),
    Body(
        "as an answer",
        "an answer to a question that nobody asked",
        text(lambda whole: whole.replace('"params"', '"result"')),
        400,
        legacy=200,
    ),
    Body(
        "under another Content-Type",
        "what a page can send without asking",
        text(str),
        fields=(("Content-Type", "text/plain"),),
    ),
    Body(
        "of another method, for the header",
        "a header that says what the body does not",
        text(str),
        fields=(("Mcp-Method", "tools/list"),),
    ),
    Body(
        "of two revisions",
        "a gate that parses by one, a protocol that goes by the other",
        text(str),
        fields=(("MCP-Protocol-Version", "2025-11-25"), ("MCP-Protocol-Version", MODERN)),
        without=("MCP-Protocol-Version",),
    ),
    Body(
        "of a revision that is none",
        "neither parser is the right one",
        text(str),
        fields=(("MCP-Protocol-Version", "2999-01-01"),),
        without=("MCP-Protocol-Version",),
    ),
    Body(
        "of an older revision, outside of any session",
        "a session that is not there",
        text(str),
        fields=(("MCP-Protocol-Version", "2025-03-26"),),
        without=("MCP-Protocol-Version",),
    ),
    Body("of no revision", "an old client, or none", text(str), without=("MCP-Protocol-Version",)),
)

ALL: Final = (*PROGRAMS, *ARGUED, *WRITTEN)

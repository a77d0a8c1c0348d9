"""Every call leaves a record, also one that is refused: through each way in, the trail has who, what and why not."""

import ipaddress
import json
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError

from guideway.dsl.scopes import Scope
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.evaluator import Evaluator
from guideway.interpreter.principal import Principal
from guideway.interpreter.weighing import Asked
from guideway.server import request_body, sessions
from guideway.server.asking import Asking
from guideway.server.config import load
from guideway.server.load import Load
from guideway.server.load_bounds import DEFAULT_BOUNDS, LoadBounds
from guideway.server.oauth.caller import caller
from guideway.server.oauth.refusal_log import MOST, MOST_ADDRESSES, RefusalLog, answering
from guideway.server.oauth.verified import IssuerUnavailable
from guideway.server.progress import Progress
from guideway.server.publish import Publisher
from guideway.server.recorded import Recorded
from guideway.server.runs import Runs
from guideway.server.stdio import MOST_BYTES
from guideway.server.stores import NoStore, open_configured
from guideway.server.tool import TOOL_NAME, build_server
from guideway.server.tool_run import ToolRun
from tests.interpreter.test_recorder import TrailInMemory
from tests.server.approvals.served import serving
from tests.server.approvals.site import Person
from tests.server.approvals.site import serving as page_serving
from tests.server.approvals.world import World
from tests.server.oauth.door import READ, Door, Tokens, a_call, bearer, message
from tests.server.world import Era
from tests.server.world import World as ServedWorld

pytestmark = pytest.mark.anyio


@dataclass
class Stage:
    """A server, its trail, and a client of it. ``ticket`` is mona's, ``old`` one that was decided on."""

    http: httpx2.AsyncClient
    ticket: str
    old: str

    async def call(self, *, shown: str = "mona", **changed: Any) -> httpx2.Response:
        """Send a call of the tool, which is right but for what is changed."""
        body, headers = a_call('GET_STATUS "cache"')
        headers |= bearer(shown) | changed.pop("headers", {})
        return await self.http.post("/mcp", **({"json": body} | changed), headers=headers)

    async def decide(self, ticket: str, shown: str = "ada", verb: str = "approve", **sent: Any) -> httpx2.Response:
        """Decide on a ticket by the API."""
        return await self.http.post(f"/api/approvals/{ticket}/{verb}", headers=bearer(shown), **sent)


Asks = Callable[[Stage], Awaitable[httpx2.Response]]


def method(name: str, /, **params: Any) -> Asks:
    body, headers = message(name, **params)
    return lambda stage: stage.call(json=body, headers=headers)


#: What is asked, the status of the answer, who is recorded as the caller, the code, and what else the record has.
REFUSED: dict[str, tuple[Asks, int, str | None, str, dict[str, Any]]] = {
    "no token": (lambda s: s.http.post("/mcp"), 401, None, "no_token", {"from": "127.0.0.1"}),
    "Basic": (lambda s: s.http.post("/mcp", headers={"Authorization": "Basic YTpi"}), 401, None, "no_token", {}),
    "a token in the URL": (lambda s: s.http.post("/mcp?access_token=mona"), 400, None, "invalid_request", {}),
    "two tokens": (
        lambda s: s.http.post("/mcp", headers=[("Authorization", "Bearer mona"), ("Authorization", "Bearer ada")]),
        400,
        None,
        "invalid_request",
        {},
    ),
    "a bad token": (lambda s: s.call(shown="bad"), 401, None, "refused", {"what": "a token"}),
    "an issuer that is away": (lambda s: s.call(shown="away"), 503, None, "issuer_unavailable", {}),
    "a token that breaks the gate": (lambda s: s.call(shown="breaks"), 500, None, "internal_error", {}),
    "a path that is not there": (
        lambda s: s.http.get("/admin"),
        404,
        None,
        "http_404",
        {"asked": "GET elsewhere", "what": "a request"},
    ),
    "a host that is not known": (
        lambda s: s.call(headers={"Host": "evil.example"}),
        421,
        None,
        "refused",
        {"from": "127.0.0.1", "header": "`evil.example`"},
    ),
    "an origin that is not known": (
        lambda s: s.call(headers={"Origin": "https://evil.example"}),
        403,
        None,
        "refused",
        {"header": "`https://evil.example`"},
    ),
    "two Origins": (
        lambda s: s.http.get("/mcp", headers=[("Origin", "https://a.example"), ("Origin", "https://b.example")]),
        400,
        None,
        "ambiguous",
        {},
    ),
    "a body that is too long": (
        lambda s: s.call(content=b"x" * 1_000_000),
        413,
        "mona",
        "http_413",
        {"asked": "POST /mcp"},
    ),
    "no JSON": (
        lambda s: s.call(content=b"{", headers={"Content-Type": "application/json"}),
        400,
        "mona",
        "parse_error",
        {"asked": "POST /mcp"},
    ),
    "a batch": (lambda s: s.call(json=[]), 400, "mona", "invalid_request", {}),
    "another method in the header": (
        lambda s: s.call(headers={"Mcp-Method": "tools/list"}),
        400,
        "mona",
        "header_mismatch",
        {},
    ),
    "a version in the header alone": (
        lambda s: s.call(headers={"MCP-Protocol-Version": "2099-01-01"}),
        400,
        "mona",
        "header_mismatch",
        {},
    ),
    "a wrong content type": (
        lambda s: s.call(headers={"Content-Type": "text/plain", "MCP-Protocol-Version": "2025-11-25"}),
        400,
        "mona",
        "http_400",
        {},
    ),
    "a method of HTTP that is none here": (
        lambda s: s.http.put("/mcp", headers=bearer("mona")),
        405,
        "mona",
        "invalid_request",
        {"asked": "PUT /mcp"},
    ),
    "an unknown tool": (
        method("tools/call", name="rm", arguments={}),
        400,
        "mona",
        "invalid_params",
        {"asked": "tools/call"},
    ),
    "a method that is none": (method("prompts/list"), 404, "mona", "method_not_found", {"asked": "prompts/list"}),
    "params that are none": (method("tools/list", cursor=5), 400, "mona", "invalid_params", {"asked": "tools/list"}),
    "a forged state": (
        method("tools/call", name=TOOL_NAME, arguments={"program": "x"}, requestState="forged"),
        400,
        "mona",
        "invalid_request_state",
        {},
    ),
    "arguments that are none": (
        method("tools/call", name=TOOL_NAME, arguments={"nothing": 1}),
        200,
        "mona",
        "invalid_arguments",
        {},
    ),
    "no scope to decide": (
        lambda s: s.decide(s.ticket, "mona"),
        403,
        "mona",
        "insufficient_scope",
        {"asked": "POST /api/approvals/{ticket}/approve"},
    ),
    "an own request": (
        lambda s: s.decide(s.ticket, "own"),
        403,
        "mona",
        "own_request",
        {"ticket": "{ticket}", "wanted": "approve"},
    ),
    "a ticket that is not there": (
        lambda s: s.decide("nothing", verb="deny"),
        404,
        "ada",
        "unknown_ticket",
        {"ticket": "nothing", "wanted": "refuse"},
    ),
    "a ticket that was decided": (lambda s: s.decide(s.old), 409, "ada", "already_decided", {"ticket": "{old}"}),
    "a body that is no decision": (
        lambda s: s.decide(s.ticket, json={"resaon": ""}),
        400,
        "ada",
        "invalid_request",
        {"ticket": "{ticket}", "wanted": "approve"},
    ),
    "a ticket to look at": (
        lambda s: s.http.get("/api/approvals/nothing", headers=bearer("ada")),
        404,
        "ada",
        "http_404",
        {"asked": "GET /api/approvals/nothing"},
    ),
    "a list of no such state": (
        lambda s: s.http.get("/api/approvals?state=lost", headers=bearer("ada")),
        400,
        "ada",
        "http_400",
        {"asked": "GET /api/approvals"},
    ),
    "a grammar in no such dialect": (
        lambda s: s.http.get("/grammar?dialect=latin", headers=bearer("mona")),
        400,
        "mona",
        "http_400",
        {"asked": "GET /grammar"},
    ),
}


def audited(world: World) -> TrailInMemory:
    trail = TrailInMemory()
    world.pipeline.trail = trail
    return trail


def audited_door(bounds: LoadBounds = DEFAULT_BOUNDS) -> tuple[Door, TrailInMemory]:
    world = ServedWorld()
    world.pipeline.trail = trail = TrailInMemory()
    door = Door(world)
    world.server = build_server(world.pipeline, caller, load=Load(bounds))
    return door, trail


def subject(record: dict[str, Any]) -> str | None:
    return record["caller"]["subject"] if record["caller"] else None


def told(trail: TrailInMemory) -> list[tuple[str | None, str]]:
    """Return who was refused since this was last asked, and the code."""
    found = [(subject(record), record["refusal"]["code"]) for record in trail.facts(Kind.CALL_REFUSED)]
    trail.entries[:] = [entry for entry in trail.entries if entry.kind is not Kind.CALL_REFUSED]
    return found


def recorded_in(file: Path) -> list[dict[str, Any]]:
    """Return the refusals at the door in the store of a configuration."""

    async def read() -> list[dict[str, Any]]:
        store, leases = open_configured(load(file))
        assert not isinstance(store, NoStore)
        found = [json.loads(row.body) for row in await store.records("")]
        await leases.close()
        await store.close()
        return [record for record in found if record["kind"] == Kind.CALL_REFUSED]

    return anyio.run(read)


async def test_each_refusal_over_http_is_in_the_trail_once() -> None:
    world = World()
    trail = audited(world)
    tokens = Tokens()
    tokens.add("ada", {Scope.APPROVE}, subject="ada")
    tokens.add("mona", {Scope.READ, Scope.WRITE}, subject="mona")
    tokens.add("own", {Scope.APPROVE}, subject="mona")
    tokens.fail("away", IssuerUnavailable("the issuer does not answer", 5))
    tokens.fail("breaks", RuntimeError("secret"))
    mona = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), "https://login.example.com", "laptop")
    ids = {"ticket": (await world.ask(mona)).id, "old": (await world.ask(mona, 'RESTART "database"')).id}
    wrong = []
    async with serving(world, tokens) as http:
        stage = Stage(http, **ids)
        assert (await stage.decide(stage.old)).status_code == 200
        for name, (asks, status, caller, code, more) in REFUSED.items():
            trail.entries.clear()
            answer = await asks(stage)
            found = trail.facts(Kind.CALL_REFUSED)
            told = [(subject(record), record["refusal"]["code"]) for record in found]
            expected = {key: value.format(**ids) for key, value in more.items()}
            if (answer.status_code, told) != (status, [(caller, code)]) or not expected.items() <= found[0].items():
                wrong.append((name, answer.status_code, answer.text[:200], found))
    assert not wrong, "\n".join(map(str, wrong))
    assert "secret" not in str(trail.entries)


async def ask_wrongly(client: Client) -> None:
    """Have four calls refused: by the tool, by its arguments, by the resources, and by the protocol."""
    with pytest.raises(MCPError):
        await client.call_tool("rm", {})
    await client.call_tool(TOOL_NAME, {"nothing": 1})
    with pytest.raises(MCPError):
        await client.read_resource("guideway://nothing")
    with pytest.raises(MCPError):
        await client.session.send_request(types.ListPromptsRequest(), types.ListPromptsResult)


def in_words(era: Era) -> list[str]:
    """Return the codes of that: in older revisions a resource that is not there has an error of its own."""
    missing = "resource_not_found" if era == "legacy" else "invalid_params"
    return ["invalid_params", "invalid_arguments", missing, "method_not_found"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_each_error_of_a_session_is_in_the_trail_once(era: Era) -> None:
    """Also in older revisions, where the answer's status is 200 and the error comes in a stream."""
    door, trail = audited_door()
    door.tokens.add("mona", READ, subject="mona", tenant="acme")
    async with door.serving(), door.connected("mona", era) as client:
        trail.entries.clear()
        await ask_wrongly(client)
    assert {entry.tenant for entry in trail.entries} == {"acme"}
    assert told(trail) == [("mona", code) for code in in_words(era)]


async def test_each_error_of_the_protocol_is_in_the_trail_once_without_http_too() -> None:
    world = World()
    trail = audited(world)
    mona = Principal("mona", frozenset({Scope.READ}), "local", "laptop", "acme")
    async with Client(build_server(world.pipeline, lambda: mona)) as client:
        trail.entries.clear()
        await ask_wrongly(client)
    assert told(trail) == [("mona", code) for code in in_words("2026-07-28")]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_each_error_over_stdio_is_in_the_trail_once(era: Era, tmp_path: Path) -> None:
    """Also those that the SDK answers before a call is one; and what is no message, which has no answer."""
    command = ServedWorld().command(tmp_path)
    file = tmp_path / "guideway.toml"
    file.write_text(f'{file.read_text()}\n[store]\nfolder = "store"\n')
    modern, _ = message("tools/call", name="rm", arguments={})
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}
    initialize = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": about}
    legacy = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}
    # Each era's own call of a tool that is not there, and then the beginning of the other.
    sent = [initialize, legacy, modern] if era == "legacy" else [modern, initialize]
    lines = [*map(json.dumps, sent), "{", json.dumps({"x": "x" * (MOST_BYTES + 1)})]
    with subprocess.Popen(
        [command.command, *command.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write("".join(f"{line}\n" for line in lines).encode())
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in sent]
        served.stdin.close()
        assert served.wait(30) == 0
    refused = [answer for answer in answers if "error" in answer]
    assert len(refused) == 2
    codes = sorted(record["refusal"]["code"] for record in recorded_in(file))
    other = "invalid_request" if era == "legacy" else "unsupported_protocol_version"
    assert codes == sorted(["invalid_params", other, "parse_error", "too_long"])
    assert {subject(record) for record in recorded_in(file)} == {"tester"}


async def test_who_is_turned_away_at_the_page_is_in_the_trail_once(tmp_path: Path) -> None:
    world = World()
    trail = audited(world)
    mona = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), "https://login.example.com", "laptop")
    ticket = (await world.ask(mona)).id
    people = {"ada": frozenset({Scope.APPROVE}), "rudi": frozenset({Scope.READ})}
    async with (
        page_serving(world, tmp_path / "issuer", people=people) as site,
        Person(site) as ada,
        Person(site) as rudi,
    ):
        trail.entries.clear()
        await ada.open()
        assert told(trail) == [(None, "no_sign_in")]
        assert (await rudi.sign_in("rudi")).status_code == 403
        assert told(trail) == [(None, "not_signed_in")]  # the issuer gave nothing that would say who
        assert (await rudi.http.get(f"{site.url}/signed-in?code=s3cret&state=forged")).status_code == 400
        [entry] = trail.entries
        assert "s3cret" not in str(entry)
        assert told(trail) == [(None, "not_signed_in")]
        await ada.sign_in("ada")
        assert (await ada.post(f"/{ticket}/approve", "forged")).status_code == 403
        assert told(trail) == [("ada", "foreign_form")]
        assert (await ada.open("/nothing-like-this")).status_code == 404
        assert told(trail) == [("ada", "http_404")]
        assert (await ada.decide(ticket, "deny", "x" * 10_000)).status_code == 422
        assert told(trail) == [("ada", "invalid_request")]
        assert (await ada.decide(ticket, "approve")).status_code == 200
        assert told(trail) == []
        page = await ada.open(f"/{ticket}")
        assert page.status_code == 200
        assert (await ada.http.get(f"{site.url}/a/secret/that/somebody/pasted")).status_code == 404
        [record] = trail.facts(Kind.CALL_REFUSED)
        assert (record["caller"], record["asked"]) == (None, "GET /approvals/…")


async def test_who_signs_in_and_may_not_approve_is_named(tmp_path: Path) -> None:
    """By the record's caller, so that a name that is private can be taken out; by nothing else in it."""
    world = World()
    trail = audited(world)
    async with page_serving(world, tmp_path / "issuer") as site, Person(site) as ada:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Principal, "holds", lambda *_: False)
            assert (await ada.sign_in("ada")).status_code == 403
    record = trail.facts(Kind.CALL_REFUSED)[-1]
    assert (subject(record), record["refusal"]["code"]) == ("ada", "not_signed_in")
    assert "ada" not in str(record | {"caller": None})


async def test_what_is_too_much_is_in_the_trail_once() -> None:
    bounds = LoadBounds(calls_per_minute_of_caller=2, refused_per_minute_of_address=3)
    door, trail = audited_door(bounds)
    door.tokens.add("alice", READ, subject="alice")
    body, headers = a_call('PING "api.internal"')
    async with door.serving() as http:
        for _ in range(3):
            answer = await http.post("/mcp", json=body, headers=headers | bearer("alice"))
        assert answer.status_code == 429
        assert told(trail) == [("alice", "calls_per_minute_of_caller")]
        for _ in range(4):
            answer = await http.post("/mcp", headers=bearer("bad"))
        assert answer.status_code == 429
        assert told(trail) == [(None, "refused")] * 4, "three bad tokens, and one too many"


async def test_a_session_too_many_and_a_call_too_late_are_in_the_trail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 0)
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.1)
    door, trail = audited_door()
    door.tokens.add("alice", READ, subject="alice")
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}
    initialize = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": about}
    accept = {"Accept": "application/json, text/event-stream"} | bearer("alice")

    async with door.serving() as http:
        assert (await http.post("/mcp", json=initialize, headers=accept)).status_code == 503
        assert told(trail) == [("alice", "http_503")]
        assert http.base_url.port is not None
        async with await anyio.connect_tcp("127.0.0.1", http.base_url.port) as slow:
            head = f"POST /mcp HTTP/1.1\r\nHost: {http.base_url.netloc.decode()}\r\nAuthorization: Bearer alice\r\n"
            await slow.send(f"{head}Content-Length: 2\r\n\r\n{{".encode())
            assert (await slow.receive()).startswith(b"HTTP/1.1 408")
        assert told(trail) == [("alice", "http_408")]
        door.world.server.turn_away()
        body, headers = a_call('PING "api.internal"')
        assert (await http.post("/mcp", json=body, headers=headers | bearer("alice"))).status_code == 503
        assert told(trail) == [("alice", "stopping")]


async def test_an_error_of_this_program_is_in_the_trail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the end of its run where there is one; else by a record of the call, without the error's own words."""
    door, trail = audited_door()
    door.tokens.add("alice", READ, subject="alice")
    body, headers = a_call('PING "api.internal"')

    async def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("hunter2")

    async with door.serving() as http:
        with monkeypatch.context() as patch:
            patch.setattr(Evaluator, "_ask", breaks)
            await http.post("/mcp", json=body, headers=headers | bearer("alice"))
            assert trail.kinds() == [Kind.RUN_BEGUN, Kind.RUN_ENDED]
        trail.entries.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Asking, "resume", breaks)
            await http.post("/mcp", json=body, headers=headers | bearer("alice"))
            assert "hunter2" not in str(trail.entries)
            assert told(trail) == [("alice", "internal_error")]
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, "copy", breaks)
            assert (await http.get("/grammar", headers=bearer("alice"))).status_code == 500
            assert "hunter2" not in str(trail.entries)
            assert told(trail) == [("alice", "http_500")]


async def test_a_call_that_was_cut_has_no_record_beside_its_runs() -> None:
    """However it is answered then: with 503, or with the protocol's own error where a stream ends."""
    door, trail = audited_door()
    tells_nothing = cast("Progress", SimpleNamespace(asked=False))
    run = ToolRun(door.world.pipeline, Runs())
    with answering() as answered, anyio.move_on_after(0.2):
        await run.until_cancelled('RESTART "stuck"', Asked(), door.world.principal, tells_nothing)
    assert trail.kinds()[-1] is Kind.RUN_ENDED
    assert answered.recorded


async def test_a_record_says_for_whom_a_proxy_asked() -> None:
    door, trail = audited_door()
    async with door.serving(proxies=[ipaddress.ip_network("127.0.0.0/8")]) as http:
        await http.get("/admin", headers={"X-Forwarded-For": "203.0.113.9, 192.0.2.7"})
    assert [record["from"] for record in trail.facts(Kind.CALL_REFUSED)] == ["192.0.2.7"]


async def test_an_application_that_fails_without_an_answer_is_recorded_and_its_error_goes_on() -> None:
    trail = TrailInMemory()

    async def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    async def nothing(*_: Any) -> Any:
        return {}

    scope = {"type": "http", "method": "BREW", "path": "/mcp", "client": None}
    with pytest.raises(ZeroDivisionError):
        await Recorded(breaks, refusals=RefusalLog(trail=trail))(scope, nothing, nothing)
    [record] = trail.facts(Kind.CALL_REFUSED)
    assert (record["asked"], record["refusal"]["code"], record["from"]) == (
        "another method /mcp",
        "http_500",
        "somebody",
    )


async def test_who_is_only_asked_for_health_is_in_no_trail() -> None:
    door, trail = audited_door()
    async with door.serving() as http:
        door.world.server.stop()
        assert (await http.get("/readyz")).status_code == 503
    assert trail.entries == []


async def test_a_flood_of_what_nobody_knows_fills_no_trail_and_is_counted() -> None:
    """Whoever reaches the port can ask for a thousand paths, and none of it is theirs to write into the trail."""
    door, trail = audited_door()
    async with door.serving() as http:
        for number in range(60):
            await http.get(f"/x{number}%1b[2J")
            await http.post("/mcp", headers=bearer(f"bad{number}"))
            await http.post("/mcp")
        await http.post("/mcp", headers={"Authorization": "Basic YTpi"})
        found = trail.facts(Kind.CALL_REFUSED)
        assert len(found) == 1 + MOST + 1 + 1, found
        assert found[-1]["refusal"]["message"].startswith("its Authorization header"), "the flood hides another reason"
        trail.entries.clear()
    door.world.server.refusals.close()
    late = {record["refusal"]["code"]: record for record in trail.facts(Kind.CALL_REFUSED)}
    assert {code: record["times"] for code, record in late.items()} == {
        "http_404": 59,
        "refused": 60 - MOST,
        "no_token": 59,
    }
    assert late["http_404"]["from"] == "127.0.0.1", "all of them came from there"
    assert "x1" not in str(trail.entries)


def test_a_record_of_many_says_of_none_of_them_what_was_not_the_same_in_all() -> None:
    """One caller's address stood for all that had come since."""
    trail = TrailInMemory()
    log = RefusalLog(lambda: 0.0, trail=trail)
    for number in range(MOST + 3):
        log.note("a token", "it is malformed", f"192.0.2.{number}", key="malformed", facts={"header": f"`{number}`"})
    for scopes in (*[READ] * (MOST + 1), frozenset[Scope]()):
        log.note_caller(Principal("mona", scopes, "local", "laptop"), "unknown_ticket", f"why {len(scopes)}")
    log.close()
    anonymous, known = trail.facts(Kind.CALL_REFUSED)[-2:]
    refusal = {"code": "refused", "message": "it is malformed"}
    assert anonymous == {"caller": None, "what": "a token", "refusal": refusal, "times": 3, "addresses": 3}
    caller = {"issuer": "local", "subject": "mona", "client": "laptop", "tenant": None}
    assert known == {"caller": caller, "refusal": {"code": "unknown_ticket"}, "times": 2}


def test_a_record_of_one_more_says_what_it_was() -> None:
    trail = TrailInMemory()
    log = RefusalLog(lambda: 0.0, trail=trail)
    for _ in range(MOST + 1):
        log.note("a token", "it is malformed", "192.0.2.1")
    log.close()
    last = trail.facts(Kind.CALL_REFUSED)[-1]
    assert (last["from"], last["times"]) == ("192.0.2.1", 1)
    assert "addresses" not in last


def test_addresses_are_told_apart_up_to_a_bound() -> None:
    """Whoever has a network of IPv6 has more addresses than a server has memory."""
    trail = TrailInMemory()
    log = RefusalLog(lambda: 0.0, trail=trail)
    for number in range(MOST + MOST_ADDRESSES + 10):
        log.note("a token", "it is malformed", f"2001:db8::{number:x}")
    log.close()
    last = trail.facts(Kind.CALL_REFUSED)[-1]
    assert (last["times"], last["addresses"]) == (MOST_ADDRESSES + 10, MOST_ADDRESSES)

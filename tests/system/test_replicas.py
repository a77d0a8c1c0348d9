"""Replicas on one PostgreSQL: whatever a caller, a person or a browser begins at one, goes on at any other."""

import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import JSONResponse
from tests.attacks.oauth.forge import proof
from tests.server.certificates import Authority
from tests.server.oauth.issuer import Issuer, sign
from tests.server.oauth.serving import KEY
from tests.server.world import Era
from tests.store import postgresql
from tests.system.replicas import Fleet, Replica, call, ending, result
from tests.system.supervisord import wait_for

from guideway.server.idempotency import IDEMPOTENCY_KEY
from guideway.server.tool import TOOL_NAME

pytestmark = pytest.mark.anyio

ASKS: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}


@pytest.fixture(scope="module")
def database() -> Iterator[postgresql.Server]:
    with postgresql.running() as server:
        yield server


@pytest.fixture(scope="module")
def fleet(database: postgresql.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with Issuer() as issuer, Fleet(folder, issuer, database, Authority(folder)).running() as fleet:
        yield fleet


async def test_asked_at_one_decided_at_another_run_at_a_third(fleet: Fleet) -> None:
    """The state that the first one sealed is opened by the others; the ticket lets one run, wherever it is shown."""
    first, second, third = fleet.replicas
    token, text = fleet.token(), 'PING "api.internal" RESTART "database"'
    asked = result(await call(first, token, text, meta=ASKS))
    [(key, question)] = asked["inputRequests"].items()
    ticket = question["params"]["url"].rpartition("/")[2]
    async with httpx2.AsyncClient() as http:
        decided = f"{second.url}/api/approvals/{ticket}/approve"
        answer = await http.post(decided, json={"reason": "go on"}, headers=fleet.approver)
        assert answer.status_code == 200, answer.text
    answered = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked["requestState"]}
    assert ending(result(await call(third, token, text, meta=ASKS, **answered))) == "completed"
    for replica in fleet.replicas:
        assert ending(result(await call(replica, token, text, meta=ASKS, **answered))) == "approval_used"


async def test_a_call_that_waits_at_one_goes_on_when_another_is_told(fleet: Fleet) -> None:
    first, second, _ = fleet.replicas
    token, text = fleet.token("mike"), 'RESTART "database"'
    pending = result(await call(first, token, text))["structuredContent"]["refusal"]["approval"]["ticket"]
    found: list[str] = []

    async def wait() -> None:
        found.append(ending(result(await call(first, token, text, arguments={"_confirmation_token": pending}))))

    async with anyio.create_task_group() as tasks, httpx2.AsyncClient() as http:
        tasks.start_soon(wait)
        decided = f"{second.url}/api/approvals/{pending}/approve"
        assert (await http.post(decided, json={"reason": ""}, headers=fleet.approver)).status_code == 200
    assert found == ["completed"]


async def test_a_proof_of_possession_is_good_once_at_all_of_them(fleet: Fleet) -> None:
    """A thief who reads a request on its way shows it to another replica."""
    token = fleet.token(cnf={"jkt": KEY.thumbprint()})

    async def show(replica: int, headers: dict[str, str]) -> httpx2.Response:
        return await call(fleet.replicas[replica], token, 'PING "api.internal"', headers=headers)

    def proven() -> dict[str, str]:
        return {"Authorization": f"DPoP {token}", "DPoP": proof(KEY, token=token, method="POST", url=fleet.url)}

    caught = proven()
    assert ending(result(await show(0, caught))) == "completed"
    for replica in range(3):
        answer = await show(replica, caught)
        assert answer.status_code == 401
        assert "the proof was used before" in answer.json()["error"]["message"]
        assert ending(result(await show(replica, proven()))) == "completed"


async def test_a_quota_counts_what_all_of_them_did(fleet: Fleet) -> None:
    endings = [ending(result(await call(replica, fleet.token(), 'RESTART "counted"'))) for replica in fleet.replicas]
    assert endings == ["completed", "completed", "approval_required"]


async def test_who_signs_in_at_one_is_signed_in_at_all(fleet: Fleet) -> None:
    """The browser begins at one, comes back from the issuer to another, and is known at the third."""
    first, second, third = fleet.replicas
    issuer = fleet.issuer
    async with httpx2.AsyncClient() as http:

        async def open_page(replica: Replica, path: str, cookies: str = "", **query: str) -> httpx2.Response:
            http.cookies.clear()  # each replica is a site of its own here
            headers = {"X-Forwarded-Proto": "https", "Cookie": cookies}
            return await http.get(f"{replica.url}{path}", params=query or None, headers=headers)

        page = await open_page(first, "/approvals")
        [link] = re.findall(r'class="button" href="([^"]+)"', page.text)
        begun = await open_page(first, path_of(unescape(link)))
        asked = {name: value for name, [value] in parse_qs(urlsplit(begun.headers["location"]).query).items()}
        who = issuer.claims(aud=asked["client_id"], sub="ada", nonce=asked["nonce"])
        signer = issuer.signers[-1]
        issued = {
            "access_token": fleet.token("ada", "mcp:diag:approve"),
            "id_token": sign({"alg": signer.algorithm, "kid": signer.kid}, who, signer),
            "token_type": "Bearer",
        }
        issuer.replies["token"] = lambda: JSONResponse(issued)
        answer = {"code": "x", "state": asked["state"], "iss": issuer.url}
        back = await open_page(second, path_of(asked["redirect_uri"]), kept(begun), **answer)
        assert back.status_code == 303, back.text
        for replica in (third, first, second):
            shown = await open_page(replica, "/approvals", kept(back))
            assert shown.status_code == 200
            assert "What waits for a person" in shown.text
            assert "ada" in shown.text


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def kept(answer: httpx2.Response) -> str:
    """Return what a browser keeps of an answer and sends again."""
    return "; ".join(each.split(";")[0] for each in answer.headers.get_list("set-cookie"))


async def test_a_call_that_is_sent_again_to_another_one_runs_once(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    token, key = fleet.token(), {IDEMPOTENCY_KEY: "night-1"}
    done = result(await call(first, token, 'RESTART "web"', meta=key))["structuredContent"]
    for replica in (second, third):
        again = result(await call(replica, token, 'RESTART "web"', meta=key))["structuredContent"]
        assert again == done | {"replayed": True}


async def test_what_a_killed_replica_ran_is_not_run_again_by_another(fleet: Fleet) -> None:
    """Whoever sends it again is told whose run it was, and never that it is done."""
    first, second, _ = fleet.replicas
    token, key = fleet.token(), {IDEMPOTENCY_KEY: "night-2"}

    async def begin() -> None:
        with suppress(httpx2.HTTPError):
            await call(first, token, 'RESTART "slow"', meta=key)
            pytest.fail("it was to be killed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        with anyio.fail_after(30):
            while state_in(result(await call(first, token, 'GET_STATUS "slow"'))) == "running":
                await anyio.sleep(0.05)
        before = result(await call(second, token, 'RESTART "slow"', meta=key))
        first.end(signal.SIGKILL)
    after = result(await call(second, token, 'RESTART "slow"', meta=key))
    assert ending(before) == ending(after) == "idempotency_in_progress"
    [before, after] = [each["structuredContent"]["refusal"]["earlier"] for each in (before, after)]
    assert before["run_id"] == after["run_id"]
    first.start()
    wait_for(first.serves, "the replica to be there again", lambda: first.log)


async def test_while_the_database_is_away_reads_go_on_and_nothing_is_restarted(
    fleet: Fleet, database: postgresql.Server
) -> None:
    """And a token that is bound to a key opens nothing: whether its proof is new, nobody knows. Then all is back."""
    token, bound = fleet.token(), fleet.token(cnf={"jkt": KEY.thumbprint()})

    async def endings(text: str) -> list[str]:
        return [ending(result(await call(replica, token, text))) for replica in fleet.replicas]

    async def proven() -> httpx2.Response:
        shown = {"Authorization": f"DPoP {bound}", "DPoP": proof(KEY, token=bound, method="POST", url=fleet.url)}
        return await call(fleet.replicas[0], bound, 'PING "api.internal"', headers=shown)

    database.stop()
    try:
        assert await endings('PING "api.internal"') == ["completed"] * 3
        refused = await endings('RESTART "counted"') + await endings('RESTART "web"')
        assert set(refused) <= {"store_unavailable", "audit_unavailable"}
        answer = await proven()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"{fleet.replicas[0].url}/readyz")).text == "not ok: store\n"
    finally:
        database.start()
    with anyio.fail_after(30):
        while await endings('RESTART "web"') != ["completed"] * 3:  # records that waited are kept every few seconds
            await anyio.sleep(0.1)
    assert ending(result(await proven())) == "completed"


@pytest.fixture(scope="module")
def balanced(fleet: Fleet) -> Iterator[Fleet]:
    with fleet.balanced():
        yield fleet


@asynccontextmanager
async def connected(fleet: Fleet, era: Era) -> AsyncIterator[Client]:
    """Connect the official client to the load balancer."""
    headers = {"Authorization": f"Bearer {fleet.token()}"}
    async with (
        httpx2.AsyncClient(verify=fleet.authority.trusting(), headers=headers) as http,
        Client(streamable_http_client(fleet.url, http_client=http), mode=era) as client,
    ):
        yield client


async def end(replica: Replica) -> None:
    await anyio.to_thread.run_sync(replica.end)


async def read(client: Client) -> str:
    """Call the tool; return how it ended."""
    report = (await client.call_tool(TOOL_NAME, {"program": 'PING "api.internal"'})).structured_content
    assert report is not None
    return str(report["status"])


async def test_a_replica_that_is_killed_or_stopped_is_not_noticed(balanced: Fleet) -> None:
    """By clients of 2026-07-28, whose requests can go anywhere: killed between two calls, and stopped in good order."""
    killed, stopped, _ = balanced.replicas
    async with connected(balanced, "2026-07-28") as client:
        assert [await read(client) for _ in range(3)] == ["completed"] * 3
        killed.end(signal.SIGKILL)
        assert [await read(client) for _ in range(6)] == ["completed"] * 6
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end, stopped)
            while stopped.runs:
                assert await read(client) == "completed"
        assert [await read(client) for _ in range(3)] == ["completed"] * 3
    killed.start()
    wait_for(killed.serves, "the replica to be there again", lambda: killed.log)


async def test_a_session_of_an_older_revision_ends_with_its_replica(balanced: Fleet) -> None:
    """It is found at each request while that lives. Then its client is told that it is over, and opens another."""
    before = [replica.log.count("PING") + replica.log.count(" run ") for replica in balanced.replicas]
    async with connected(balanced, "legacy") as client:
        assert [await read(client) for _ in range(6)] == ["completed"] * 6
        logs = [replica.log.count("PING") + replica.log.count(" run ") for replica in balanced.replicas]
        [its] = [replica for replica, was, now in zip(balanced.replicas, before, logs, strict=True) if now > was]
        its.end(signal.SIGKILL)
        with pytest.raises(MCPError, match="Session not found"):
            await read(client)
    async with connected(balanced, "legacy") as client:
        assert await read(client) == "completed"


def state_in(found: dict[str, Any]) -> str:
    observation: str = found["structuredContent"]["steps"][0]["observation"]
    return observation

"""Hostile requests: a good token in the wrong place, or a request that two readers read in two ways.

The story: a page in somebody's browser, a program on the way, or a client that puts its token where it is logged. No
right may come from anywhere but the one Authorization header of the request itself.
"""

import re
from collections.abc import Callable

import pytest

from tests.attacks.oauth import requests, wire
from tests.attacks.oauth.requests import Hostile
from tests.attacks.oauth.stage import Stage


@pytest.mark.parametrize("row", requests.ALL, ids=str)
def test_a_hostile_request_is_refused_for_its_reason_and_touches_nothing(stage: Stage, row: Hostile) -> None:
    token = stage.ground.corp.token()
    with stage.untouched():
        answers = wire.answers(stage.url, row.make(stage, token), method=row.method)
    assert tuple(answer.status for answer in answers) == row.statuses
    last = answers[-1]
    if not row.challenged:
        assert not last.challenges
        return
    said = {"error": row.error, "error_description": row.why if row.error else None}
    scope = None if row.statuses[-1] == 400 else "mcp:diag:read"
    expected = {"scheme": "Bearer", **said, "scope": scope, "resource_metadata": stage.metadata}
    assert last.challenges[0] == {name: value for name, value in expected.items() if value is not None}
    if row.method != "HEAD":
        assert last.facts["message"] == row.why


@pytest.mark.parametrize(("name", "make"), requests.HONEST, ids=[name for name, _ in requests.HONEST])
def test_what_is_odd_and_right_passes(stage: Stage, name: str, make: Callable[[Stage, str], bytes]) -> None:
    before = stage.world.restarts
    answer = wire.answer(stage.url, make(stage, stage.ground.corp.token()))
    assert (name, answer.status) == (name, 200)
    assert stage.world.restarts == before + 1


@pytest.mark.parametrize("name", ["X-Tenant", "X-Tenant-Id", "X-Org-Id", "Tenant", "Mcp-Param-Tenant", "Cookie"])
def test_a_tenant_is_in_the_token_and_nowhere_else(stage: Stage, name: str) -> None:
    """Somebody of one tenant, or of none, says that they are of another; and reads nothing of its names either."""
    for claims in ({}, {"org": "org_zeta"}):
        token = stage.ground.corp.saying(**claims)
        fields = [(name, value) for value in ("acme", "org_acme")]
        for target in ("/mcp", "/mcp?tenant=acme&org=org_acme"):
            sent = wire.calling(stage.url, f"Bearer {token}", wire.call('RESTART "shop"'), fields=fields, target=target)
            with stage.untouched():
                answer = wire.answer(stage.url, sent)
            refusal = answer.json()["result"]["structuredContent"]["refusal"]
            assert refusal["code"] == "unknown_target"
        listed = wire.calling(stage.url, f"Bearer {token}", wire.message("tools/list"), fields=fields)
        assert "shop" not in wire.answer(stage.url, listed).body.decode()
        copy = wire.request(
            stage.grammar, method="GET", fields=[("Authorization", f"Bearer {token}"), *fields], target="/grammar"
        )
        assert "shop" not in wire.answer(stage.url, copy, method="GET").body.decode()


def test_no_text_of_a_program_gets_into_a_challenge(stage: Stage) -> None:
    """A program's text would end the header's quotes or its line, or speak to whoever reads the answer."""
    reader = stage.ground.corp.saying(scope="mcp:diag:read")
    for target in ("x\r\nX-Injected: yes\r\n\r\n", '"', "\\", '", scope="admin', "\u202e\u0000\x1b[31m"):
        program = f'RESTART "database" # {target}'
        with stage.untouched():
            answer = wire.answer(stage.url, wire.calling(stage.url, f"Bearer {reader}", wire.call(program)))
        assert "x-injected" not in dict(answer.headers)
        if answer.status == 403:
            assert answer.challenge["error_description"] == "operation requires scope 'mcp:diag:write'"
            assert set(answer.challenge) == {"scheme", "error", "error_description", "scope", "resource_metadata"}
        else:
            assert answer.json()["result"]["isError"]


def test_no_header_of_a_request_gets_into_a_challenge(stage: Stage) -> None:
    odd = [("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil.example"), ("Referer", "http://evil.example")]
    answer = wire.answer(stage.url, wire.calling(stage.url, None, fields=odd, target="/mcp?evil.example"))
    assert not re.search("evil", str(answer.headers) + answer.body.decode())


@pytest.mark.parametrize("path", ["/mcp/", "/grammar/", "//mcp", "/mcp//"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_is_nearly_one_of_ours_is_none(stage: Stage, path: str, method: str) -> None:
    """Behind a proxy, a redirect would lead a client, with its token, to plain HTTP."""
    shown = [("Authorization", f"Bearer {stage.ground.corp.token()}")]
    answer = wire.answer(stage.url, wire.request(stage.url, method=method, target=path, fields=shown), method=method)
    assert (answer.status, answer.all("location")) == (404, [])

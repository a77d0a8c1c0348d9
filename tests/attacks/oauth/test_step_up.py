"""Somebody who may only read sends what would restart a service, in every disguise that a request can wear.

The story: a model that was talked into it, or a client that is hostile, tries to get a program past the gate that the
protocol behind it then runs. The service must not be touched, whatever the answer is; and the answer is stated.
"""

from collections.abc import Iterator

import pytest

from tests.attacks.oauth import bodies, wire
from tests.attacks.oauth.bodies import Body
from tests.attacks.oauth.stage import Stage

READ = "mcp:diag:read"


@pytest.fixture(scope="module")
def session(stage: Stage) -> str:
    """Return a session of an older revision that the reader opened."""
    token = stage.ground.corp.saying(scope=READ, sub="reader")
    opened = wire.answer(stage.url, wire.opening(stage.url, token))
    [number] = opened.all("mcp-session-id")
    wire.answer(stage.url, wire.in_session(stage.url, token, number, wire.INITIALIZED))
    return number


@pytest.fixture
def no_restart(stage: Stage) -> Iterator[None]:
    before = stage.world.restarts
    yield
    assert stage.world.restarts == before


def hold(row: Body, answer: wire.Answer, status: int) -> None:
    assert answer.status == status
    assert row.said in answer.body.decode()
    if status == 403:
        assert answer.challenge["error"] == "insufficient_scope"
        assert answer.challenge["error_description"] == "operation requires scope 'mcp:diag:write'"
        assert answer.challenge["scope"] == "mcp:diag:read mcp:diag:write"


@pytest.mark.usefixtures("no_restart")
@pytest.mark.parametrize("row", bodies.ALL, ids=str)
def test_a_disguised_restart_runs_nothing(stage: Stage, row: Body) -> None:
    token = stage.ground.corp.saying(scope=READ, sub="reader")
    own = {name.lower() for name, _ in row.fields} | {name.lower() for name in row.without}
    fields = [*wire.headers_of(wire.call()), ("Authorization", f"Bearer {token}")]
    fields = [(name, value) for name, value in fields if name.lower() not in own]
    sent = wire.request(stage.url, fields=[*fields, *row.fields], body=row.content, without=row.without)
    hold(row, wire.answer(stage.url, sent), row.status)


@pytest.mark.usefixtures("no_restart")
@pytest.mark.parametrize("row", [row for row in bodies.ALL if not row.fields and not row.without], ids=str)
def test_a_disguised_restart_runs_nothing_in_an_older_session(stage: Stage, session: str, row: Body) -> None:
    token = stage.ground.corp.saying(scope=READ, sub="reader")
    answer = wire.answer(stage.url, wire.in_session(stage.url, token, session, row.content))
    hold(row, answer, row.status if row.legacy is None else row.legacy)


def test_their_honest_neighbour_passes(stage: Stage, session: str) -> None:
    """The same caller steps up, in the same session: the same bytes run."""
    both = stage.ground.corp.saying(sub="reader")
    [plain] = [row for row in bodies.ALL if row.name == "program: plain"]
    before = stage.world.restarts
    assert wire.answer(stage.url, wire.in_session(stage.url, both, session, plain.content)).status == 200
    assert wire.answer(stage.url, wire.calling(stage.url, f"Bearer {both}", body=plain.content)).status == 200
    assert stage.world.restarts == before + 2

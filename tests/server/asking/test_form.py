"""A form of the client's own: only where the operator said so twice, and recorded as the client's word that it is."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState
from guideway.interpreter.principal import Principal
from guideway.server.elicit import MOST_IN_FORM
from guideway.server.tool import build_server
from tests.server.asking.world import PROGRAM, Approving, Desk, call, ending, text
from tests.server.world import Era

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

CLIENT = "laptop"  # whose tokens the world's people have


class Form:
    """Whoever sits at the client, with a form in front of them."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self.action = action
        self.content = content
        self.asked: list[types.ElicitRequestFormParams] = []

    async def answer(self, context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG002
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params)
        return types.ElicitResult(action=self.action, content=self.content or None)


def desk(folder: Path, forms: Collection[str] = (CLIENT,), *, own_requests: bool = True, **rules: Any) -> Desk:
    """Return a server without a page."""
    return Desk(Approving(folder, own_requests=own_requests, **rules), forms=forms, page=False)


@eras
async def test_a_yes_in_a_form_is_the_callers_own(tmp_path: Path, era: Era) -> None:
    form, world = Form(approve=True, reason="it is my own machine"), desk(tmp_path)
    async with world.open(), world.client(era, form.answer) as client:
        result = await call(client)
    assert ending(result) == "completed"
    [asked] = form.asked
    assert 'RESTART "database"\n' in asked.message
    assert '1 x RESTART "database"' in asked.message
    [ticket] = await world.world.tickets()
    assert ticket.decided_by == ticket.question.binding.who
    assert ticket.reason == "in a form of the client's own, as the client says: it is my own machine"


@eras
@pytest.mark.parametrize("form", [Form(approve=False, reason="rather not"), Form("decline")], ids=["no", "declined"])
async def test_a_no_in_a_form_is_one(tmp_path: Path, era: Era, form: Form) -> None:
    world = desk(tmp_path)
    async with world.open(), world.client(era, form.answer) as client:
        result = await call(client)
    assert ending(result) == "approval_denied"
    assert "as the client says" in text(result)
    assert world.world.restarts == 0


@eras
@pytest.mark.parametrize(
    "form",
    [Form("cancel"), Form(), Form(approve="yes"), Form(approve=True, reason="x" * 501), Form(approve=True, more="x")],
    ids=["closed", "empty", "a word", "too long", "a field more"],
)
async def test_a_form_that_says_neither_decides_nothing(tmp_path: Path, era: Era, form: Form) -> None:
    world = desk(tmp_path)
    async with world.open(), world.client(era, form.answer) as client:
        result = await call(client)
        assert ending(result) == "approval_required"
    [ticket] = await world.world.tickets()
    assert ticket.state is TicketState.PENDING


@eras
@pytest.mark.parametrize(
    ("forms", "own_requests"),
    [((), True), (("another",), True), ((CLIENT,), False), (("local",), True)],
    ids=["no client", "another client", "not one's own", "only those without tokens"],
)
async def test_elsewhere_no_form_is_shown(tmp_path: Path, era: Era, forms: tuple[str, ...], own_requests: bool) -> None:
    form, world = Form(approve=True), desk(tmp_path, forms, own_requests=own_requests)
    async with world.open(), world.client(era, form.answer) as client:
        result = await call(client)
    assert ending(result) == "approval_required"
    assert "guideway approvals approve" in text(result)
    assert form.asked == []


@eras
async def test_what_a_form_cannot_show_whole_is_not_asked_in_one(tmp_path: Path, era: Era) -> None:
    form, world = Form(approve=True), desk(tmp_path)
    async with world.open(), world.client(era, form.answer) as client:
        result = await call(client, PROGRAM * (MOST_IN_FORM // len(PROGRAM) + 1))
    assert ending(result) == "approval_required"
    assert form.asked == []


@eras
async def test_a_page_goes_before_a_form(tmp_path: Path, era: Era) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params)
        return types.ElicitResult(action="decline")

    world = Desk(Approving(tmp_path, own_requests=True), forms=[CLIENT])
    async with world.open(), world.client(era, answer) as client:
        await call(client)
    assert [params.mode for params in asked] == ["url"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_configured_caller_answers_as_the_local_client(tmp_path: Path, era: Era) -> None:
    form, world = Form(approve=True), Approving(tmp_path, own_requests=True)
    principal = Principal("me", frozenset({Scope.READ, Scope.WRITE}))
    world.server = build_server(world.pipeline, lambda: principal, forms=["local"])
    try:
        async with world.connected("http", era, elicitation_callback=form.answer) as client:
            assert ending(await call(client)) == "completed"
    finally:
        await world.pipeline.close()
    assert world.restarts == len(form.asked) == 1

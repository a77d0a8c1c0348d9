"""Two servers with one store, of which one is laxer than the other: on its way to a new configuration, say.

The story: who may not approve what they asked for at the strict one goes to the lax one, where people may approve their
own requests. What they decide there must let nothing run where it was asked.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState, Undecidable
from guideway.interpreter.principal import Principal
from guideway.server.approvals.desk import Desk
from tests.server.approvals.site import Person, serving
from tests.server.approvals.world import APPROVER, ASKER, World

pytestmark = pytest.mark.anyio
EVERYTHING = replace(ASKER, scopes=frozenset(Scope))


def worlds(**lax: Any) -> tuple[World, World]:
    """Return a strict and a lax installation on one store."""
    strict, other = World(policy={None: "strict"}), World(policy={None: "lax"}, own_requests=True, **lax)
    other.records = other.pipeline.gate.records = strict.records
    return strict, other


@pytest.mark.parametrize("approver", [EVERYTHING, APPROVER], ids=["who asked", "somebody else"])
async def test_a_yes_under_another_policy_is_none(approver: Principal) -> None:
    strict, lax = worlds()
    ticket = await strict.ask(EVERYTHING)
    with pytest.raises(Undecidable) as undecidable:
        await Desk(lax.pipeline).decide(approver, ticket.id, approve=True, reason="why not")
    assert undecidable.value.code is Undecidable.Why.OUTDATED
    assert strict.records.kept[ticket.id].state is TicketState.PENDING
    assert strict.database.calls == []


async def test_a_no_counts_whatever_the_policy() -> None:
    strict, lax = worlds()
    ticket = await strict.ask()
    await Desk(lax.pipeline).decide(APPROVER, ticket.id, approve=False, reason="not today")
    assert strict.records.kept[ticket.id].state is TicketState.DENIED


async def test_the_page_says_why_and_has_no_button_for_it(tmp_path: Path) -> None:
    strict, lax = worlds()
    ticket = await strict.ask()
    async with serving(lax, tmp_path) as site, Person(site) as ada:
        page = (await ada.sign_in("ada", ticket.id)).text
        assert "The policy has changed since this was asked" in page
        assert f"{ticket.id}/approve" not in page
        assert f"{ticket.id}/deny" in page
        answer = await ada.decide(ticket.id, "approve")
        assert (answer.status_code, "The policy is another one by now" in answer.text) == (409, True)
    assert strict.records.kept[ticket.id].state is TicketState.PENDING

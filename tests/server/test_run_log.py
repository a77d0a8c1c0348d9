"""One line a run, from which its ticket, and from that its approver, can be found; nobody's words break out of it."""

import logging
from dataclasses import replace

import pytest

from guideway.interpreter.weighing import Asked
from guideway.server.approvals.desk import Desk
from guideway.server.run_log import log_run
from tests.server.approvals.world import APPROVER, ASKER, World

pytestmark = pytest.mark.anyio
HOSTILE = 'now"\nticket 1: approved; ' + "x" * 400


async def test_asker_ticket_approver_services_and_run_can_be_followed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    asker = replace(ASKER, subject=HOSTILE)
    program = 'RESTART "database" PING "api.internal"'
    refused = await world.pipeline.run(program, asker)
    log_run(refused, asker)
    [ticket] = world.records.kept
    await Desk(world.pipeline).decide(APPROVER, ticket, approve=True, reason=HOSTILE)
    asked = Asked(ticket)
    ran = await world.pipeline.run(program, asker, asked=asked)
    log_run(ran, asker, asked.ticket)
    log_run(refused := await world.pipeline.run(program, asker, asked=Asked(HOSTILE)), asker, HOSTILE)
    assert refused.refusal is not None
    first, decided, done, unknown = caplog.messages
    assert all(len(line) < 1_000 and "\n" not in line and "PING" not in line for line in caplog.messages)
    for line in (first, decided, done):
        assert f'ticket={ticket} services="database"' in line or f"ticket={ticket} services=" in line
    digest = world.records.kept[ticket].question.binding.digest[:16]
    assert f'digest={digest} needs="tier 3"; subject="now\\"' in first
    assert f"digest={digest}" in decided
    assert 'asker="now\\"\\nticket 1' in decided
    assert 'reason="now\\" ticket 1' in decided
    assert 'subject="ada"' in decided
    assert ran.run_id in done
    assert 'ticket="now\\"\\nticket 1' in unknown

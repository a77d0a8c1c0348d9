"""Hostile tokens, shown at every door: each is refused for its own reason, and no service hears of it.

The story: somebody has a token that was not meant for this, or makes one, or has an issuer that is trusted for
something else. The catalogue says of each who would try it and why.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.attacks.oauth import claims, forge, scopes, signatures, wire
from tests.attacks.oauth.forgeries import Forgery
from tests.attacks.oauth.stage import Stage

CATALOGUE: Final = (*signatures.SIGNATURES, *signatures.SPELLINGS, *claims.ALL, *scopes.SCOPES)
HOSTILE: Final = tuple(row for row in CATALOGUE if row.status != 200)

DOORS: Final[dict[str, Callable[[Stage, str], bytes]]] = {
    "a call": lambda stage, token: wire.calling(stage.url, f"Bearer {token}"),
    "a listing": lambda stage, token: wire.calling(stage.url, f"Bearer {token}", wire.message("tools/list")),
    "a legacy session": lambda stage, token: wire.opening(stage.url, token),
    "the grammar": lambda stage, token: wire.request(
        stage.grammar, method="GET", fields=[("Authorization", f"Bearer {token}")]
    ),
}


def challenge(stage: Stage, row: Forgery) -> dict[str, str]:
    return {
        "scheme": "Bearer",
        "error": "invalid_token" if row.status == 401 else "insufficient_scope",
        "error_description": row.why,
        "scope": "mcp:diag:read",
        "resource_metadata": stage.metadata,
    }


def facts(row: Forgery) -> dict[str, Any]:
    said = {
        "message": row.why,
        "error": "invalid_token" if row.status == 401 else "insufficient_scope",
        "error_description": row.why,
        "scope": "mcp:diag:read",
    }
    more = {"required_scopes": ["mcp:diag:read"], "missing_scopes": ["mcp:diag:read"]} if row.status == 403 else {}
    return {**said, **more}


@pytest.mark.parametrize("row", HOSTILE, ids=str)
def test_a_hostile_token_is_refused_for_its_reason_and_touches_nothing(stage: Stage, row: Forgery) -> None:
    token = row.make(stage.ground)
    with stage.untouched():
        for door, knock in DOORS.items():
            answer = wire.answer(stage.url, knock(stage, token))
            assert (door, answer.status, answer.challenge) == (door, row.status, challenge(stage, row))
            assert answer.facts == facts(row)
            assert not answer.all("mcp-session-id")
    assert "/mallory" not in stage.providers["corp"].asked  # nothing is fetched for a token's sake


@pytest.mark.parametrize("row", [row for row in CATALOGUE if row.status == 200], ids=str)
def test_their_honest_neighbours_pass(stage: Stage, row: Forgery) -> None:
    token = row.make(stage.ground)
    before = stage.world.restarts
    for knock in DOORS.values():
        assert wire.answer(stage.url, knock(stage, token)).status == 200
    assert stage.world.restarts == before + 1


def test_a_verdict_is_for_the_very_token_and_no_other_spelling_of_it(stage: Stage) -> None:
    """Verified a moment ago: what differs from it by a bit, or by nothing but its spelling, is another token."""
    token = stage.ground.corp.token()
    knock = DOORS["a call"]
    assert wire.answer(stage.url, knock(stage, token)).status == 200
    header, payload, signature = token.split(".")
    richer = forge.b64(forge.written({**json.loads(forge.unb64(payload)), "org": "org_acme"}))
    with stage.untouched():
        for other in (
            f"{header}.{payload}.{signatures.loose_end(signature)}",
            f"{header}.{payload}.{signatures.flipped(signature)}",
            f"{header}.{payload}.{signature}=",
            f"{header}.{richer}.{signature}",
        ):
            assert wire.answer(stage.url, knock(stage, forge.secret(other))).status == 401


def test_the_catalogue_is_long_and_no_row_of_it_stands_twice() -> None:
    assert len(HOSTILE) >= 60
    assert len({row.name for row in CATALOGUE}) == len(CATALOGUE)
    assert all(row.story and row.why for row in HOSTILE)

"""A token that is bound to a key, in the hands of somebody who does not have the key, or has only caught a proof."""

import pytest

from tests.attacks.oauth import proofs, wire
from tests.attacks.oauth.proofs import CLIENT, THIEF, USED, Shown, made
from tests.attacks.oauth.stage import Stage


def bound(stage: Stage, **claims: object) -> str:
    return stage.ground.corp.saying(cnf={"jkt": CLIENT.thumbprint()}, **claims)


def shown(stage: Stage, token: str, *values: str, scheme: str = "DPoP", url: str = "") -> wire.Answer:
    fields = [("DPoP", value) for value in values]
    return wire.answer(stage.url, wire.calling(url or stage.url, f"{scheme} {token}", fields=fields))


@pytest.mark.parametrize("row", proofs.ROWS, ids=str)
def test_what_proves_nothing_is_refused_for_its_reason_and_touches_nothing(stage: Stage, row: Shown) -> None:
    token = bound(stage)
    fields = [*(("DPoP", value) for value in row.make(stage, token)), *row.fields]
    with stage.untouched():
        answer = wire.answer(stage.url, wire.calling(stage.url, f"{row.scheme} {token}", fields=fields))
    assert answer.status == 401
    assert answer.facts["error"] == row.error
    assert answer.facts["message"] == row.why
    [challenge] = [each for each in answer.challenges if each["scheme"] == "DPoP"]
    assert (challenge["error"], challenge["error_description"]) == (row.error, row.why)


def test_the_honest_neighbour_passes(stage: Stage) -> None:
    token, before = bound(stage), stage.world.restarts
    assert shown(stage, token, made(stage, token)).status == 200
    assert stage.world.restarts == before + 1


def test_a_proof_that_was_caught_opens_nothing_again(stage: Stage) -> None:
    """Also not with another token of the same client, for the other endpoint, or after it was refused elsewhere."""
    token = bound(stage)
    proof = made(stage, token)
    assert shown(stage, token, proof).status == 200
    with stage.untouched():
        again = shown(stage, token, proof)
        assert (again.status, again.facts["message"]) == (401, USED)
        assert shown(stage, bound(stage), proof).status == 401
        grammar = wire.request(
            stage.grammar, method="GET", fields=[("Authorization", f"DPoP {token}"), ("DPoP", proof)]
        )
        assert wire.answer(stage.url, grammar, method="GET").status == 401


def test_a_thief_cannot_bind_a_stolen_token_anew(stage: Stage) -> None:
    """The binding stands in the token, which the issuer signed: the thief has another's token or their own."""
    theirs = stage.ground.corp.saying(cnf={"jkt": THIEF.thumbprint()}, sub="thief")
    stolen = bound(stage)
    with stage.untouched():
        assert shown(stage, stolen, made(stage, stolen, key=THIEF)).status == 401
        assert shown(stage, stolen, made(stage, theirs, key=THIEF)).status == 401
        assert shown(stage, theirs, made(stage, theirs)).status == 401


def test_a_session_that_a_bound_token_opened_asks_for_a_proof_each_time(stage: Stage) -> None:
    token = bound(stage)
    fields = [*wire.JSON, ("Authorization", f"DPoP {token}")]
    first = wire.request(stage.url, fields=[*fields, ("DPoP", made(stage, token))], body=wire.INITIALIZE)
    [session] = wire.answer(stage.url, first).all("mcp-session-id")
    own = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", wire.LEGACY)]
    with stage.untouched():
        bare = wire.request(stage.url, fields=[*fields, *own], body=wire.call_bytes())
        assert wire.answer(stage.url, bare).status == 401
        as_bearer = wire.in_session(stage.url, token, session, wire.call_bytes())
        assert wire.answer(stage.url, as_bearer).status == 401

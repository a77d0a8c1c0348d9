"""Replicas that have a fault are found out: what counts after a crash would see what it is there for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from tests.crash import checks
from tests.crash.campaign import campaign, seed_of_run
from tests.crash.truth import Effect, Truth
from tests.crash.world import GUARDED
from tests.store.postgresql import Server


def effects(count: int, which: Callable[[Effect], bool] = lambda _: True) -> Callable[[Truth], bool]:
    """Return whether there were so many restarts of a kind: then a fault has had its occasions."""
    return lambda truth: sum(map(which, truth.effects)) >= count


def answers(count: int) -> Callable[[Truth], bool]:
    """Return whether so many calls were answered."""
    return lambda truth: len(truth.answers) >= count


def cut_off(truth: Truth) -> Iterable[Effect]:
    return (effect for effect in truth.effects if effect.how is None and effect.process in truth.killed)


@pytest.mark.parametrize(
    ("fault", "check", "enough"),
    [
        ("nothing_is_held", "at once", lambda truth: any(checks.at_once(truth.effects))),
        ("held_by_a_file_that_is_there", "leases", lambda truth: any(cut_off(truth))),
        ("a_ticket_is_read_before_it_is_used", "tickets", effects(7, lambda effect: effect.service in GUARDED)),
        ("a_quota_is_looked_at_alone", "quotas", lambda truth: any(checks.quotas(truth.effects))),
        ("an_intent_is_kept_soon", "intents", effects(50)),
        ("a_restart_is_ok_when_it_begins", "outcomes", lambda truth: len(list(cut_off(truth))) >= 3),
        ("a_lost_restart_is_taken_to_be_done", "outcomes", lambda truth: len(list(found_again(truth))) >= 3),
        ("an_answer_comes_before_its_record", "answered", answers(100)),
    ],
)
def test_a_fault_is_found(fault: str, check: str, enough: Callable[[Truth], bool], tmp_path: Path) -> None:
    seed, where = seed_of_run(), {"folder": tmp_path / "store"}
    over = campaign(where, tmp_path, Random(seed), 4, fault=fault, enough=enough)
    assert check in over.wrong, f"GUIDEWAY_SEED={seed}, {over}\n{over.wrong}"


def found_again(truth: Truth) -> Iterable[Effect]:
    """Return what was restarted again, and over, after a restart that was cut off."""
    last: dict[str, Effect] = {}
    for effect in truth.effects:
        before = last.get(effect.key)
        if before is not None and before.how is None and effect.how == "done":
            yield effect
        last[effect.key] = effect


def test_a_lease_that_is_too_long_is_found(server: Server, tmp_path: Path) -> None:
    seed, where, fault = seed_of_run(), {"url": server.database()}, "a_row_is_held_for_an_hour"
    over = campaign(where, tmp_path, Random(seed), 1, fault=fault, enough=effects(3))
    assert "leases" in over.wrong, f"GUIDEWAY_SEED={seed}, {over}\n{over.wrong}"

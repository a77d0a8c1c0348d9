"""A replica killed at hundreds of instants of a mixed load, in SQLite and in PostgreSQL: nothing is lost or doubled.

``GUIDEWAY_KILLS`` says how many (40 if it is not set), ``GUIDEWAY_SEED`` what is drawn: the instants, the victims, and
what callers do. ``make crash`` shows what was counted.
"""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash.campaign import campaign, seed_of_run

KILLS = int(os.environ.get("GUIDEWAY_KILLS") or 40)

#: What callers are told of which a load that is mixed has some.
TOLD = {None, "approval_required", "approval_used", "nobody_to_ask"}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_killed_replica_loses_and_doubles_nothing(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    seed = seed_of_run()
    where: dict[str, Any] = (
        {"folder": tmp_path / "store"} if kind == "sqlite" else {"url": request.getfixturevalue("server").database()}
    )
    over = campaign(where, tmp_path, Random(seed), KILLS)
    said = f"{kind}, GUIDEWAY_SEED={seed}, {over}"
    print(said)
    wrong = {check: found[:5] for check, found in over.wrong.items()}
    assert not wrong, f"{said}\n{wrong}"
    if KILLS >= 100:
        assert {answer.code for answer in over.truth.answers} >= TOLD, said
        assert sum(effect.how is None for effect in over.truth.effects) >= KILLS / 100, said

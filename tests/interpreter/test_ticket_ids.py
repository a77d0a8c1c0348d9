"""Ids of tickets: what they look like, and that they can be pasted into a command line."""

import re

from guideway.interpreter.approvals import TICKET_ID, new_id


def test_no_id_looks_like_an_option_and_none_comes_twice() -> None:
    made = {new_id() for _ in range(2_000)}
    assert len(made) == 2_000
    assert all(re.fullmatch(TICKET_ID, each) and not each.startswith("-") for each in made)

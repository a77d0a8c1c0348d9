"""Questions and callers for the tests of the store."""

from dataclasses import replace
from typing import Any

from guideway.interpreter.approvals import Binding, Cause, Question, Who
from guideway.interpreter.quotas import Allowance
from guideway.interpreter.risk import Quota, Tier

NOW = 1_900_000_000.0
ASKER = Who("https://login.example", "mona", "an-agent")
APPROVER = Who("https://login.example", "ada", None)
BINDING = Binding("d" * 64, ASKER, None, "policy-1")


def question(binding: Binding = BINDING, *, break_glass: str | None = None, **bound: Any) -> Question:
    """Return a question about one restart; ``bound`` changes its binding."""
    return Question(
        binding=replace(binding, **bound),
        program='RESTART "database"',
        causes=(Cause("RESTART", "database", Tier.APPROVAL_REQUIRED, "impact high, reversibility hard"),),
        worst_case={("RESTART", "database"): 1},
        seconds=60.0,
        client_says="An agent",
        break_glass=break_glass,
    )


def allowance(times: int = 1, *, key: str = "service a", seconds: float = 0.0, **quota: Any) -> Allowance:
    """Return what a program may do against a quota, five in an hour if no other is given."""
    return Allowance(key, "a", times, Quota(**(quota or {"per_hour": 5})), seconds)

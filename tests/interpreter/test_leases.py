"""Leases as programs have them: two restarts of one service never overlap, and one that waited says for what."""

from collections.abc import Callable

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interpreter.virtual_time import run
from tests.interpreter.worlds import OPERATOR

from guideway.interpreter.drivers.base import Phase
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.leases import Place
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.results import Reason, Report, Status
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.interpreter.weighing import Rules

A, B = Place("a", 1, "service `a`"), Place("b", 1, "service `b`")


class Counting(MemoryDriver):
    """A service in memory that fails where it is restarted twice at once; ``group`` counts those of all its kind."""

    def __init__(self, group: list[int], most: int) -> None:
        super().__init__(stop_seconds=1, start_seconds=1)
        self.inside, self.group, self.most = 0, group, most

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:
        assert self.inside == 0
        self.inside += 1
        self.group.append(1)
        assert len(self.group) <= self.most
        try:
            await super().restart(enter, end)
        finally:
            self.inside -= 1
            self.group.pop()


def pipeline(names: str, *, at_once: int = 100, wait: float = 1e6) -> Pipeline:
    group: list[int] = []
    services = [
        Service(name, Counting(group, at_once), settle=0, risk=HARMLESS, group="all", deadline=100) for name in names
    ]
    gate = ImpactGate(Rules(groups={"all": at_once}, wait=wait))
    return Pipeline(Inventory(services=services), gate=gate, deadlines=Deadlines(pipeline=1e9))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=2, max_size=8),
    st.integers(1, 3),
    st.lists(st.sampled_from([0.5, 3.0, 1e6]), min_size=8, max_size=8),
)
def test_whatever_programs_restart_in_whatever_order_none_overlap_and_all_end(
    programs: list[list[str]], at_once: int, cuts: list[float]
) -> None:
    """Some are cancelled while they wait or restart; those that are not all complete."""

    async def main() -> None:
        shared = pipeline("abc", at_once=at_once)
        whole: list[Report] = []

        async def one(number: int, names: list[str]) -> None:
            with anyio.move_on_after(cuts[number]):
                whole.append(await shared.run("\n".join(f'RESTART "{name}"' for name in names), OPERATOR))

        async with anyio.create_task_group() as tasks:
            for number, names in enumerate(programs):
                tasks.start_soon(one, number, names)
        assert all(report.status is Status.COMPLETED for report in whole)
        assert len(whole) >= sum(cuts[number] == 1e6 for number in range(len(programs)))

    run(main)


def test_a_restart_that_waited_says_how_long_and_for_what_and_one_that_waits_in_vain_is_busy() -> None:
    async def main() -> None:
        shared = pipeline("a", wait=3)
        reports: list[Report] = []

        async def one(after: float) -> None:
            await anyio.sleep(after)
            reports.append(await shared.run('RESTART "a"', OPERATOR))

        async with anyio.create_task_group() as tasks:
            for after in (0, 0.5, 0.6):
                tasks.start_soon(one, after)
        first, third, second = reports  # in the order in which they ended
        assert [each.steps[0].message for each in (first, second)] == [
            None,
            f"waited 1.5 s for service `a`, which run {first.run_id} held",
        ]
        assert (third.status, third.steps[0].reason) == (Status.FAILED, Reason.BUSY)
        assert third.steps[0].message == f"waited 3 s for service `a`, which run {second.run_id} still holds"

    run(main)


def test_two_names_of_one_unit_are_one_service() -> None:
    async def main() -> None:
        driver = Counting([], 1)
        services = [Service(name, driver, settle=0, risk=HARMLESS, key="systemd one.service") for name in "ab"]
        shared = Pipeline(Inventory(services=services))
        async with anyio.create_task_group() as tasks:
            for name in "ab":
                tasks.start_soon(shared.run, f'RESTART "{name}"', OPERATOR)
        assert driver.calls.count("restart") == 2

    run(main)

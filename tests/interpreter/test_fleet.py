"""Services that patterns make: never two of one name while somebody has one, few when nobody does, all closed."""

import gc

import anyio
import pytest
from tests.interpreter.worlds import OPERATOR, HostInMemory

from guideway.dsl.ast import Target
from guideway.dsl.patterns import read_pattern
from guideway.interpreter.drivers.base import Observation
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.fleet import Fleet, HostPattern, ServicePattern
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.results import State
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service


class Counted(MemoryDriver):
    """A driver that counts how often it was closed, and answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0
        self.go = anyio.Event()

    async def observe(self) -> Observation:
        await self.go.wait()
        return Observation(State.RUNNING, "1")

    async def close(self) -> None:
        self.closed += 1


class World:
    def __init__(self, text: str = "web-*", **bounds: float) -> None:
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.drivers: dict[str, list[Counted]] = {}
        self.fleet = Fleet(**bounds)  # type: ignore[arg-type]
        self.pattern = ServicePattern(read_pattern(text), self._make, self.fleet)

    def _make(self, name: str, stars: tuple[str, ...]) -> Service:
        self.made.append((name, stars))
        driver = Counted()
        driver.go.set()
        self.drivers.setdefault(name, []).append(driver)
        return Service(name, driver)

    def inventory(self, *services: Service) -> Inventory:
        return Inventory(services=services, service_patterns=[self.pattern])

    def closed(self) -> dict[str, int]:
        return {name: sum(driver.closed for driver in made) for name, made in self.drivers.items()}


async def until(what: object) -> None:
    with anyio.fail_after(5):
        while not what():  # type: ignore[operator]
            await anyio.sleep(0.005)


def test_a_name_means_its_own_entry_before_a_pattern() -> None:
    world = World()
    own = Service("web-1", MemoryDriver(), restartable=False, deadline=7)
    inventory = world.inventory(own)
    assert inventory.service("web-1") is own
    assert not inventory.allows(Target.RESTARTABLE, "web-1")
    assert inventory.allows(Target.RESTARTABLE, "web-2")
    assert inventory.restart_seconds("web-1") == 7
    assert inventory.restart_seconds("web-2") is None
    assert world.made == []  # what is said of a whole pattern needs no service
    assert inventory.service("web-2").name == "web-2"
    assert world.made == [("web-2", ("2",))]
    everything = inventory.spellings(Target.RESTARTABLE)
    assert [str(one) for one in everything] == ["web-*"]
    assert everything[0].but == {"web-1"}  # type: ignore[union-attr]
    assert [str(one) for one in inventory.spellings(Target.SERVICE)] == ["web-*", "web-1"]


@pytest.mark.parametrize("name", ["web-", "web-1.prod", "web-1:2", "api-1", "web-é", "Web-1", "web-" + "1" * 64])
def test_what_does_not_fit_means_nothing(name: str) -> None:
    world = World()
    inventory = world.inventory()
    assert not any(inventory.allows(kind, name) for kind in Target)
    for ask in (inventory.service, inventory.host, inventory.restart_seconds, inventory.ping_seconds):
        with pytest.raises(KeyError):
            ask(name)
    assert world.made == []


def test_patterns_with_a_name_in_common_are_no_inventory() -> None:
    with pytest.raises(ValueError, match=r"`\*-1` and `web-\*` would both mean `web-1`"):
        Inventory(service_patterns=[World("web-*").pattern, World("*-1").pattern])


@pytest.mark.anyio
async def test_two_inventories_share_what_a_name_means() -> None:
    world = World()
    assert world.inventory().service("web-1") is world.inventory().service("web-1")
    assert len(world.made) == 1


@pytest.mark.anyio
async def test_one_that_is_in_use_is_never_given_up() -> None:
    world = World(most=2)
    inventory = world.inventory()
    used = inventory.service("web-0")
    driver = world.drivers["web-0"][0]
    driver.go = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(used.state)
        await until(lambda: used.in_use)
        for number in range(1, 10):
            inventory.service(f"web-{number}")
        assert inventory.service("web-0") is used
        assert driver.closed == 0
        driver.go.set()
    assert len(world.fleet) == 2


@pytest.mark.anyio
async def test_whoever_still_has_one_that_was_given_up_shares_it_with_the_next() -> None:
    world = World(most=2)
    inventory = world.inventory()
    had = inventory.service("web-0")
    for number in range(1, 5):
        inventory.service(f"web-{number}")
    await until(lambda: world.closed()["web-0"] == 1)
    assert inventory.service("web-0") is had
    del had
    for number in range(5, 9):
        inventory.service(f"web-{number}")
    await until(lambda: world.closed()["web-0"] == 2)
    gc.collect()
    inventory.service("web-0")
    assert [name for name, _ in world.made].count("web-0") == 2


@pytest.mark.anyio
async def test_one_that_was_given_up_before_a_run_came_to_it_gives_back_what_it_took_anew() -> None:
    """A program waits between its commands: once such a connection stayed open as long as the process."""
    world = World(idle_seconds=0.02)
    had = world.inventory().service("web-1")
    await until(lambda: world.closed() == {"web-1": 1})
    await had.state()
    await until(lambda: world.closed() == {"web-1": 2})
    assert len(world.fleet) == 0


@pytest.mark.anyio
async def test_idle_ones_give_back_what_they_hold() -> None:
    world = World(idle_seconds=0.05)
    inventory = world.inventory()
    inventory.service("web-1")
    inventory.service("web-2")
    world.drivers["web-2"][0].go = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inventory.service("web-2").state)
        await until(lambda: world.closed() == {"web-1": 1, "web-2": 0})
        await anyio.sleep(0.15)
        assert world.closed() == {"web-1": 1, "web-2": 0}
        world.drivers["web-2"][0].go.set()
    await until(lambda: world.closed() == {"web-1": 1, "web-2": 1})
    assert len(world.fleet) == 0


@pytest.mark.anyio
async def test_ten_thousand_names_keep_a_few() -> None:
    world = World()
    inventory = world.inventory()
    for number in range(10_000):
        inventory.service(f"web-{number}")
    assert len(world.fleet) == 128
    await until(lambda: sum(world.closed().values()) == 10_000 - 128)
    await Pipeline(inventory).close()
    assert set(world.closed().values()) == {1}


@pytest.mark.anyio
async def test_a_pipeline_runs_what_patterns_mean_and_closes_it() -> None:
    world = World()
    hosts = HostPattern(read_pattern("*.prod"), lambda name, _: Host(name, HostInMemory()))
    inventory = Inventory(service_patterns=[world.pattern], host_patterns=[hosts])
    pipeline = Pipeline(inventory)
    report = await pipeline.run('PING "a.prod" GET_STATUS "web-1" IF_RUNNING "web-1" THEN { PING "b.prod" }', OPERATOR)
    assert [step.target for step in report.steps] == ["a.prod", "web-1", "web-1", "b.prod"]
    assert report.status == "completed"
    report = await pipeline.run('PING "a.prod.x" GET_STATUS "web-"', OPERATOR)
    assert report.refusal is not None
    assert [one.expected for one in report.refusal.diagnostics] == [('"*.prod"',), ('"web-*"',)]
    await pipeline.close()
    assert world.closed() == {"web-1": 1}


@pytest.mark.anyio
async def test_what_is_said_of_a_pattern_holds_for_a_restart_of_each_name() -> None:
    fleet = Fleet()
    drivers: dict[str, MemoryDriver] = {}

    def make(name: str, _: tuple[str, ...]) -> Service:
        drivers[name] = MemoryDriver()
        return Service(name, drivers[name], settle=0.0, risk=HARMLESS)

    inventory = Inventory(service_patterns=[ServicePattern(read_pattern("web-*"), make, fleet)])
    pipeline = Pipeline(inventory)
    report = await pipeline.run('RESTART "web-1" RESTART "web-2" RESTART "web-1"', OPERATOR)
    assert [(step.target, step.outcome) for step in report.steps] == [("web-1", "ok"), ("web-2", "ok"), ("web-1", "ok")]
    assert sorted(drivers) == ["web-1", "web-2"]
    await pipeline.close()

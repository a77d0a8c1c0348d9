"""What a restart of Kubernetes' workloads comes to: on recorded answers of a real API server, and on a real one."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from lightkube.resources.apps_v1 import Deployment
from tests.system.kubernetes.world import MISSING, NAMES, World, condition

from guideway.interpreter.drivers.base import Fault, Phase
from guideway.interpreter.drivers.kubernetes import driver as module
from guideway.interpreter.drivers.kubernetes.cluster import Cluster, Lost
from guideway.interpreter.drivers.kubernetes.driver import KubernetesDriver
from guideway.interpreter.drivers.kubernetes.workload import RESTARTED_AT
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = pytest.mark.anyio
EXCEEDED = ("False", "ProgressDeadlineExceeded")
#: The first pods find what they need, and those of a restart do not.
CRASHES_AFTER_A_RESTART = 'test -n "$RESTARTED" || sleep 100000; sleep 0; exit 3'
#: Long enough for a busy machine; no test waits for it, but those that say so.
PATIENCE = 60.0


async def refused(service: Service, deadline: float = PATIENCE) -> Fault:
    """Return the fault that a restart ends with."""
    with pytest.raises(Fault) as raised:
        await service.restart(deadline)
    return raised.value


@pytest.mark.parametrize("kind", NAMES)
async def test_a_restart_replaces_every_pod(world: World, kind: str) -> None:
    world.deploy(kind)
    before = await world.driver(kind).observe()
    seen = await world.service(kind, user="blind").restart(PATIENCE)
    assert seen.state is State.RUNNING
    assert seen.identity not in {None, before.identity}
    template = world.get(kind)["spec"]["template"]["metadata"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", template["annotations"][RESTARTED_AT])


async def test_a_restart_tells_its_phases(world: World) -> None:
    world.deploy()
    phases: list[Phase] = []
    await world.driver().restart(phases.append, anyio.current_time() + PATIENCE)
    assert phases == [Phase.REPLACING, Phase.STARTING]


async def test_restarts_within_one_second_are_as_many(world: World) -> None:
    """In whole seconds, as kubectl writes them, the second would ask for nothing."""
    world.deploy()
    driver = world.driver()
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(driver.restart, lambda _: None, anyio.current_time() + PATIENCE)
    assert (await driver.observe()).state is State.RUNNING
    assert world.get()["metadata"]["generation"] == 3


@pytest.mark.parametrize("user", ["guideway", "blind"])
async def test_an_image_that_cannot_be_pulled_fails_the_restart(world: World, user: str) -> None:
    """The tag was deleted. Who may see the pods says so soon, and who may not says less, and later."""
    world.deploy(progressDeadlineSeconds=4)
    world.change_template(image=MISSING)
    fault = await refused(world.service(user=user))
    if user == "guideway":
        assert fault.reason is Reason.START_FAILED
        assert "image cannot be pulled" in fault.message
        assert MISSING in fault.output
    else:
        assert fault.reason is Reason.START_TIMED_OUT
        assert "no progress for 4 s" in fault.message
        assert "ProgressDeadlineExceeded" in fault.output
    assert condition(world.get(), "Available") == ("True", "MinimumReplicasAvailable")


@pytest.mark.parametrize("kind", NAMES)
async def test_a_crash_loop_fails_the_restart(world: World, kind: str) -> None:
    """It needs something at its start that is gone since."""
    world.deploy(kind, runs=CRASHES_AFTER_A_RESTART)
    fault = await refused(world.service(kind))
    assert fault.reason is Reason.START_FAILED
    assert "crash loop" in fault.message
    assert "exit code 3" in fault.output


async def test_what_dies_while_it_settles_was_not_restarted(world: World) -> None:
    """The rollout is complete, and Kubernetes content."""
    world.deploy(up=False, replicas=1, runs="sleep 3; exit 3")
    fault = await refused(world.service(settle=10))
    assert fault.reason is Reason.START_FAILED


async def test_what_no_node_can_take_times_out_and_says_so(world: World) -> None:
    """A node may be on its way: the deadline decides."""
    world.deploy()
    world.change_template(nowhere=True)
    fault = await refused(world.service(), world.seconds(5))
    assert fault.reason is Reason.START_TIMED_OUT
    assert "no node can take it (unschedulable)" in fault.output


async def test_what_never_gets_ready_times_out(world: World) -> None:
    world.deploy()
    world.change_template(ready=False)
    fault = await refused(world.service(), world.seconds(4))
    assert (fault.reason, "its start was not over" in fault.message) == (Reason.START_TIMED_OUT, True)


async def test_a_rollout_that_kubernetes_gives_up_fails_while_old_pods_are_available(world: World) -> None:
    world.deploy(progressDeadlineSeconds=3)
    world.change_template(ready=False)
    fault = await refused(world.service())
    assert fault.reason is Reason.START_TIMED_OUT
    assert "no progress for 3 s (`progressDeadlineSeconds`)" in fault.message
    assert condition(world.get(), "Progressing") == EXCEEDED
    assert condition(world.get(), "Available") == ("True", "MinimumReplicasAvailable")


async def test_a_restart_after_one_that_was_given_up_is_not_judged_by_it(world: World) -> None:
    """The condition of the old rollout stands until the controller has read the new template."""
    world.deploy(progressDeadlineSeconds=3)
    world.change_template(image=MISSING)
    world.wait("deployment", "be given up", lambda said: condition(said, "Progressing") == EXCEEDED)
    world.change_template(runs="sleep 200000")
    assert (await world.service().restart(PATIENCE)).state is State.RUNNING


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        pytest.param("deployment", {"paused": True}, "paused", id="paused"),
        pytest.param("deployment", {"replicas": 0}, "scaled to 0", id="scaled"),
        pytest.param("statefulset", {"replicas": 0}, "scaled to 0", id="set-scaled"),
        pytest.param("statefulset", {"updateStrategy": {"type": "OnDelete"}}, "OnDelete", id="set-on-delete"),
        pytest.param(
            "statefulset",
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
            "partition keeps the pods below 1",
            id="partition",
        ),
        pytest.param("daemonset", {"updateStrategy": {"type": "OnDelete"}}, "OnDelete", id="daemons-on-delete"),
    ],
)
async def test_what_would_replace_nothing_is_refused_and_not_changed(
    world: World, kind: str, spec: dict[str, object], words: str
) -> None:
    world.deploy(kind, up=False, **spec)
    said = world.wait(kind, "be seen", lambda said: said.get("status", {}).get("observedGeneration") == 1)
    fault = await refused(world.service(kind))
    assert fault.reason is Reason.START_FAILED
    assert words in fault.message
    assert world.get(kind)["spec"] == said["spec"]


class Spoiled(Cluster):
    """The first ``times`` patches of a restart come to nothing, or the answers to so many calls get lost."""

    def __init__(self, world: World, times: int, spoil: Callable[["Spoiled", Any], Awaitable[Any]]) -> None:
        super().__init__(world.kubeconfig("guideway"), None)
        self.namespace = world.namespace
        self._calls = 0
        self._first = 1 if spoil is Spoiled.conflict else 2  # behind the look before
        self._times = times
        self._spoil = spoil

    async def call(self, member: object, ask: Any) -> Any:
        if self._spoil is Spoiled.conflict and "patch" not in ask.__code__.co_names:  # a look cannot conflict
            return await super().call(member, ask)
        self._calls += 1
        if self._first <= self._calls < self._first + self._times:
            return await self._spoil(self, ask)
        return await super().call(member, ask)

    async def conflict(self, _: Any) -> Any:
        """Ask for a change of what is long since another: the API server's own conflict."""
        patch = {"metadata": {"resourceVersion": "1"}}
        return await super().call(self, lambda it: it.patch(Deployment, "web", patch, namespace=self.namespace))

    async def lose(self, ask: Any) -> Any:
        """Have it done, and not hear of it."""
        await super().call(self, ask)
        raise Lost("the connection ended")


@pytest.mark.parametrize("times", [3, 4])
async def test_conflicts_are_tried_again_and_not_for_ever(world: World, times: int) -> None:
    world.deploy()
    cluster = Spoiled(world, times, Spoiled.conflict)
    driver = KubernetesDriver("deployment", "web", world.namespace, cluster)
    try:
        if times == 3:
            assert (await driver.restart(lambda _: None, anyio.current_time() + PATIENCE)).state is State.RUNNING
        else:
            with pytest.raises(Fault) as raised:
                await driver.restart(lambda _: None, anyio.current_time() + PATIENCE)
            assert raised.value.reason is Reason.START_FAILED
            assert "conflict" in raised.value.message
            assert world.get()["metadata"]["generation"] == 1
    finally:
        await driver.close()
        await cluster.leave(cluster)


async def test_a_patch_whose_answer_was_lost_is_not_a_second_restart(world: World) -> None:
    world.deploy()
    cluster = Spoiled(world, 2, Spoiled.lose)
    driver = KubernetesDriver("deployment", "web", world.namespace, cluster)
    assert (await driver.restart(lambda _: None, anyio.current_time() + PATIENCE)).state is State.RUNNING
    assert world.get()["metadata"]["generation"] == 2
    await driver.close()
    await cluster.leave(cluster)


def _pause(world: World) -> None:
    world.change(paused=True)


def _scale(world: World) -> None:
    world.change(replicas=0)


def _roll_back(world: World) -> None:
    world.change(template={"metadata": {"annotations": {RESTARTED_AT: None}}})


@pytest.mark.parametrize(
    ("meddle", "reason", "words"),
    [
        pytest.param(World.delete, Reason.NOT_FOUND, "was deleted while it was restarted", id="deleted"),
        pytest.param(_pause, Reason.START_FAILED, "while it was restarted it was changed: its rollouts", id="paused"),
        pytest.param(_scale, Reason.START_FAILED, "it was changed: it is scaled to 0", id="scaled"),
        pytest.param(_roll_back, Reason.START_FAILED, "put its old pod template back", id="rolled-back"),
    ],
)
async def test_who_meddles_with_a_restart_ends_it(
    world: World, meddle: Callable[[World], None], reason: Reason, words: str
) -> None:
    world.deploy()
    world.change_template(ready=False)
    fault = await _while_restarting(world, partial(meddle, world))
    assert fault.reason is reason
    assert words in fault.message


async def test_an_api_server_that_goes_away_does_not_hold_a_restart_beyond_its_deadline(world: World) -> None:
    world.deploy()
    world.change_template(ready=False)
    fault = await _while_restarting(world, world.gone, world.seconds(4))
    assert fault.reason in {Reason.START_TIMED_OUT, Reason.STOP_TIMED_OUT}


async def test_an_api_server_that_stays_away_is_unreachable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollout goes on without it, and without us."""
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.5)
    world.deploy()
    world.change_template(ready=False)
    fault = await _while_restarting(world, world.gone)
    assert fault.reason is Reason.UNREACHABLE
    assert "the rollout was accepted and goes on" in fault.message


async def _while_restarting(world: World, meddle: Callable[[], object], deadline: float = PATIENCE) -> Fault:
    """Return the fault of a restart, during which something is done."""
    faults: list[Fault] = []

    async def restart() -> None:
        faults.append(await refused(world.service(), deadline))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(restart)
        await anyio.to_thread.run_sync(world.wait_for_restart)
        await anyio.to_thread.run_sync(meddle)
    return faults[0]

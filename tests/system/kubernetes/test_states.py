"""What is seen of Kubernetes' workloads: on recorded answers of a real API server, and on a real one."""

import dataclasses

import pytest
from tests.system.kubernetes.world import MISSING, NAMES, World, condition

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.results import Reason, State

pytestmark = pytest.mark.anyio
EXCEEDED = ("False", "ProgressDeadlineExceeded")
CRASHES = "sleep 0; exit 3"


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_up_runs_and_keeps_its_identity(world: World, kind: str) -> None:
    world.deploy(kind)
    driver = world.driver(kind)
    seen = await driver.observe()
    assert (seen.state, seen.completed) == (State.RUNNING, False)
    assert seen.identity
    assert (await driver.observe()).identity == seen.identity


async def test_what_is_scaled_to_nothing_is_stopped(world: World) -> None:
    world.deploy()
    world.change(replicas=0)
    world.wait("deployment", "be down", lambda said: not said["status"].get("replicas"))
    seen = await world.driver().observe()
    assert (seen.state, seen.identity) == (State.STOPPED, None)


async def test_scaling_does_not_change_the_identity(world: World) -> None:
    world.deploy()
    driver = world.driver()
    before = await driver.observe()
    world.change(replicas=3)
    world.wait("deployment", "be larger", lambda said: said["status"].get("availableReplicas") == 3)
    assert await driver.observe() == dataclasses.replace(before, output=(await driver.observe()).output)


async def test_a_new_template_is_another_instance(world: World) -> None:
    world.deploy()
    driver = world.driver()
    before = await driver.observe()
    world.change_template(runs="sleep 200000")
    world.wait(
        "deployment",
        "be of the new template",
        lambda said: (
            said["status"]["observedGeneration"] == 2
            and said["status"].get("updatedReplicas") == said["status"].get("replicas") == 2
            and said["status"].get("availableReplicas") == 2
        ),
    )
    after = await driver.observe()
    assert after.state is State.RUNNING
    assert after.identity != before.identity


async def test_a_rollout_that_goes_on_is_starting(world: World) -> None:
    world.deploy()
    world.change_template(ready=False)
    world.wait("deployment", "roll out", lambda said: said["status"].get("updatedReplicas") == 1)
    assert (await world.driver().observe()).state is State.STARTING


async def test_a_rollout_that_was_given_up_is_degraded_while_old_pods_are_available(world: World) -> None:
    """Kubernetes says ProgressDeadlineExceeded, and that the deployment is Available, at once."""
    world.deploy(progressDeadlineSeconds=2)
    world.change_template(image=MISSING)
    said = world.wait("deployment", "be given up", lambda said: condition(said, "Progressing") == EXCEEDED)
    assert condition(said, "Available") == ("True", "MinimumReplicasAvailable")
    seen = await world.driver().observe()
    assert seen.state is State.DEGRADED
    assert "ProgressDeadlineExceeded" in seen.output


async def test_a_rollout_that_was_given_up_is_failed_where_nothing_is_available(world: World) -> None:
    world.deploy(up=False, image=MISSING, progressDeadlineSeconds=2)
    world.wait("deployment", "be given up", lambda said: condition(said, "Progressing") == EXCEEDED)
    seen = await world.driver(user="blind").observe()
    assert (seen.state, seen.identity) == (State.FAILED, None)


@pytest.mark.parametrize(
    ("kind", "user", "state"),
    [
        ("deployment", "guideway", State.FAILED),
        ("statefulset", "guideway", State.FAILED),
        ("daemonset", "guideway", State.FAILED),
        # Only the pods know: without a right to list them it may yet come up.
        ("deployment", "blind", State.STARTING),
    ],
)
async def test_what_crashes_for_ever_is_failed_as_far_as_the_pods_may_be_seen(
    world: World, kind: str, user: str, state: State
) -> None:
    world.deploy(kind, up=False, runs=CRASHES)
    world.wait_for_pods(kind, "crash", "CrashLoopBackOff")
    seen = await world.driver(kind, user=user).observe()
    assert (seen.state, seen.identity) == (state, None)
    if state is State.FAILED:
        assert "crash loop" in seen.output
        assert "exit code 3" in seen.output


async def test_what_is_paused_runs_and_says_so(world: World) -> None:
    world.deploy(paused=False)
    world.change(paused=True)
    world.change_template(runs="sleep 200000")
    world.wait("deployment", "be seen", lambda said: said["status"]["observedGeneration"] == 3)
    seen = await world.driver().observe()
    assert seen.state is State.RUNNING
    assert "paused" in seen.output


async def test_what_is_not_there_is_not_found(world: World) -> None:
    driver = world.driver()
    for call in (driver.observe(), driver.restart(lambda _: None, 1e9)):
        with pytest.raises(Fault) as refused:
            await call
        assert refused.value.reason is Reason.NOT_FOUND
        assert refused.value.message == "the namespace has no deployment of the configured name"


async def test_the_tail_says_where_the_log_is_and_what_is_wrong(world: World) -> None:
    world.deploy("statefulset", up=False, nowhere=True)
    world.wait_for_pods("statefulset", "be unschedulable", "Unschedulable")
    lines = (await world.driver("statefulset").tail()).splitlines()
    assert lines[0].startswith("pod database-0: no node can take it (unschedulable): 0/")
    assert lines[-1] == f"its log: kubectl logs -n {world.namespace} statefulset/database"

"""Status and restart of a deployment through the driver, against lightkube's own calls to the same API server.

The plain restart patches the template and watches until the rollout is complete, with the right that the driver does
without. In turns; medians. The API server and the controllers are those of ``make test-kubernetes``, in the folder that
GUIDEWAY_KUBERNETES names, and the kubelets are played: pods are up after a tenth of a second.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2
from lightkube import AsyncClient
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.apps_v1 import Deployment
from tests.system.kubernetes.control_plane import ControlPlane
from tests.system.kubernetes.recordings import Recording
from tests.system.kubernetes.world import World

from bench import Figure
from bench.drivers import compare, restarting
from guideway.interpreter.drivers.kubernetes.workload import RESTARTED_AT

STATUSES, RESTARTS = 200, 15


def main() -> list[Figure]:
    """Measure, where the programs are there."""
    programs = os.environ.get("GUIDEWAY_KUBERNETES")
    if not programs:
        return [Figure("kubernetes", "needs GUIDEWAY_KUBERNETES")]
    with ControlPlane(Path(programs)) as plane, plane.client() as admin, tempfile.TemporaryDirectory() as folder:
        return anyio.run(on_kubernetes, plane, admin, Path(folder))


async def on_kubernetes(plane: ControlPlane, admin: httpx2.Client, folder: Path) -> list[Figure]:
    """Return the figures of a deployment."""
    world = World("bench", folder, Recording(), admin)
    world.address, world.authority = plane.server, str(plane.authority)
    world.set_up()
    world.deploy()
    driver = world.driver(user="blind")
    client = AsyncClient(config=KubeConfig.from_file(plane.kubeconfig).get(), trust_env=False)

    async def status() -> object:
        return await client.get(Deployment, "web", namespace=world.namespace)

    async def restart() -> object:
        annotations = {RESTARTED_AT: datetime.now(UTC).isoformat()}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        asked = await client.patch(Deployment, "web", patch, namespace=world.namespace)
        async for _, now in client.watch(Deployment, namespace=world.namespace, fields={"metadata.name": "web"}):
            if is_complete(asked, now):
                return now
        raise AssertionError("the watch ended")

    figures = await compare("kubernetes: status", STATUSES, status, driver.observe)
    figures += await compare("kubernetes: restart", RESTARTS, restart, restarting(driver))
    await client.close()
    await world.close()
    return figures


def is_complete(asked: Deployment, now: Deployment) -> bool:
    """Whether every pod is of the new template, and available."""
    assert now.status is not None
    assert now.metadata is not None
    assert asked.metadata is not None
    wanted = now.spec.replicas
    return (now.status.observedGeneration or 0) >= (asked.metadata.generation or 0) and (
        wanted == now.status.updatedReplicas == now.status.replicas == now.status.availableReplicas
    )

"""Workloads of a real Kubernetes keep the contract of drivers. Its moments are never the same twice: never recorded."""

from typing import Any

import pytest
from tests.system.kubernetes.world import World

from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.drivers.contract import CHECKS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_only")]


class OnKubernetes:
    """Deployments of a cluster."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._there = False

    async def running(self) -> ServiceDriver:
        self._deploy()
        return self._world.driver()

    async def stopped(self) -> ServiceDriver:
        self._deploy(up=False, replicas=0)
        self._world.wait("deployment", "be seen", lambda said: said.get("status", {}).get("observedGeneration") == 1)
        return self._world.driver()

    async def dies(self) -> ServiceDriver:
        self._deploy(up=False, runs="sleep 0.2; exit 3")
        return self._world.driver()

    async def unknown(self) -> ServiceDriver | None:
        return self._world.driver("statefulset")

    async def unreachable(self) -> ServiceDriver:
        address, self._world.address = self._world.address, "https://127.0.0.1:1"
        driver = self._world.driver()
        self._world.address = address
        return driver

    def _deploy(self, **options: Any) -> None:
        if self._there:
            self._world.delete()
        self._world.deploy(**options)
        self._there = True


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_deployments(check: Any, world: World) -> None:
    await check(OnKubernetes(world))

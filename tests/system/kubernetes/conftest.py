"""What the tests of Kubernetes share. By default answers are recorded ones; ``make test-kubernetes`` has real ones.

GUIDEWAY_KUBERNETES: a folder with a real API server's programs, which are started. GUIDEWAY_TEST_KUBECONFIG: an
administrator's kubeconfig of any cluster. GUIDEWAY_RECORD=1: record the answers again, of one or the other. What is
here was recorded of Kubernetes 1.20.2 as Debian 12 has its source, with played kubelets, by
``make test-kubernetes GUIDEWAY_RECORD=1``; left out are only the fields `managedFields` and what one answer repeats.
"""

import asyncio
import base64
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx2
import pytest
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from tests.system.kubernetes.control_plane import ControlPlane
from tests.system.kubernetes.recordings import Front, Recording
from tests.system.kubernetes.world import World
from tests.system.supervisord import wait_for

from guideway.interpreter.drivers.kubernetes import driver

RECORDED = Path(__file__).with_name("recorded")
PROGRAMS = os.environ.get("GUIDEWAY_KUBERNETES")
KUBECONFIG = os.environ.get("GUIDEWAY_TEST_KUBECONFIG")
RECORDING = os.environ.get("GUIDEWAY_RECORD") == "1"
IS_REAL = bool(PROGRAMS or KUBECONFIG)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane | None]:
    """A control plane of our own, where its programs are there and no other cluster is asked for."""
    if PROGRAMS is None or KUBECONFIG:
        yield None
        return
    with ControlPlane(Path(PROGRAMS)) as running:
        yield running


@pytest.fixture(scope="session")
def administrator(plane: ControlPlane | None) -> KubeConfig | None:
    """The kubeconfig of the cluster's administrator, None where there is no cluster."""
    file = KUBECONFIG or (plane and plane.kubeconfig)
    return KubeConfig.from_file(file) if file else None


@pytest.fixture
def real_only() -> None:
    """Skip a test whose moments are never the same twice, where answers are recorded ones."""
    if not IS_REAL:
        pytest.skip("needs a real cluster: make test-kubernetes")


@pytest.fixture
async def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    administrator: KubeConfig | None,
    plane: ControlPlane | None,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    """A namespace; after the test no task and no socket may be left of its drivers."""
    test = re.sub(r"\W+", "-", request.node.name).strip("-")
    file = RECORDED / f"{test}.json"
    if RECORDING or administrator is None:
        monkeypatch.setattr(driver, "PODS_SECONDS", 0.0)  # so that each look at the pods is recorded
    if administrator is None:
        for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE"):  # nothing is there that would need the time
            monkeypatch.setattr(driver, name, 0.01)
        front = Front(tmp_path, Recording.of(file), None)
        with front:
            made = World(test, tmp_path, front.recording, None)
            made.address, made.authority, made.gone = front.address, str(front.authority), front.end
            made.quiet = front.quiet
            async for one in _leaving_nothing(made):
                yield one
        assert not front.faults
        return
    config = administrator.get()
    assert config is not None
    with (
        client_adapter.Client(config, client_adapter.ConnectionParams(timeout=httpx2.Timeout(30))) as admin,
        httpx2.Client(
            base_url=config.cluster.server,
            verify=client_adapter.verify_cluster(config.cluster, User(), config.abs_file, trust_env=False),
            trust_env=False,
            timeout=30,
        ) as anybody,
    ):
        made = World(test, tmp_path, Recording(), admin)
        made.set_up()
        try:
            if RECORDING:
                with Front(tmp_path, made.recording, anybody) as front:
                    made.address, made.authority, made.gone = front.address, str(front.authority), front.end
                    async for one in _leaving_nothing(made):
                        yield one
                if "real_only" not in request.fixturenames:
                    made.recording.write(file)
            else:
                made.address = config.cluster.server
                made.authority = authority_of(config, tmp_path)
                made.gone = plane.end_api_server if plane else lambda: pytest.skip("it is not ours to end")
                async for one in _leaving_nothing(made):
                    yield one
        finally:
            if plane and plane.is_ended:
                plane.start_api_server()
            made.tear_down()


async def _leaving_nothing(made: World) -> AsyncIterator[World]:
    if not made.is_recorded:
        await anyio.sleep(1)  # whoever plays the kubelet connects too
    before = len(asyncio.all_tasks()), connections(made.address)
    yield made
    await made.close()
    assert len(asyncio.all_tasks()) <= before[0]
    wait_for(lambda: connections(made.address) <= before[1], "connections to be closed")


def connections(address: str) -> int:
    """Return how many connections this process has to a server."""
    port = f":{httpx2.URL(address).port or 443:04X}"
    ours = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # other threads close theirs
            ours.add(path.readlink().name.removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(port) and row[9] in ours for row in rows)


def authority_of(config: SingleConfig, folder: Path) -> str:
    """Return the file of a cluster's authority."""
    if config.cluster.certificate_auth:
        return str(config.abs_file(config.cluster.certificate_auth))
    assert config.cluster.certificate_auth_data
    file = folder / "authority.pem"
    file.write_bytes(base64.b64decode(config.cluster.certificate_auth_data))
    return str(file)

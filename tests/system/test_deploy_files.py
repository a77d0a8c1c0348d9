"""The files of examples/deploy agree with each other, and with what the server takes; `test_replicas` runs them."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.machine import need
from tests.system.replicas import DEPLOY, replaced

from guideway.interpreter.drivers.base import BRING_BACK_SECONDS
from guideway.server import config

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SETTINGS = tomllib.loads((DEPLOY / "guideway.toml").read_text(encoding="utf-8"))
MANIFESTS = {
    each["kind"]: each
    for each in yaml.safe_load_all((DEPLOY / "kubernetes" / "guideway.yaml").read_text(encoding="utf-8"))
}
PODS: dict[str, Any] = MANIFESTS["Deployment"]["spec"]["template"]["spec"]


def test_the_configurations_are_read(tmp_path: Path) -> None:
    path, pods = tmp_path / "guideway.toml", str(MANIFESTS["ConfigMap"]["data"]["guideway.toml"])
    for text in ((DEPLOY / "guideway.toml").read_text(encoding="utf-8"), pods):
        path.write_text(text)
        read = config.load(path)
        assert read.server.url == "https://guideway.example.com/mcp"
        assert read.audit.has_key
    path.write_text(re.sub(r"^#(?! )", "", pods, flags=re.MULTILINE))
    assert "web" in config.load(path).shared.services, "what needs the driver for Kubernetes is right too"


@pytest.mark.parametrize("place", ["compose", "kubernetes"])
def test_a_replica_has_time_to_end_in_good_order(place: str) -> None:
    """Draining, the grace of calls, and what a restart that was cancelled needs to start what it stopped."""
    settings = SETTINGS if place == "compose" else tomllib.loads(MANIFESTS["ConfigMap"]["data"]["guideway.toml"])
    needs = settings["server"]["drain_seconds"] + 10 + BRING_BACK_SECONDS + 3
    if place == "compose":
        for replica in ("replica1", "replica2", "replica3"):
            assert int(COMPOSE["services"][replica]["stop_grace_period"].removesuffix("s")) > needs
    else:
        assert PODS["terminationGracePeriodSeconds"] > needs
    unit = (DEPLOY / "guideway.service").read_text(encoding="utf-8")
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(seconds) > needs


def test_the_load_balancer_is_the_proxy_that_is_believed() -> None:
    own = COMPOSE["services"]["loadbalancer"]["networks"]["front"]["ipv4_address"]
    assert SETTINGS["server"]["proxies"] == [own]
    servers = re.findall(r"^ +server (\w+) (\S+):(\d+) ", (DEPLOY / "haproxy.cfg").read_text(), re.MULTILINE)
    replicas = [name for name in COMPOSE["services"] if name.startswith("replica")]
    assert servers == [(name, name, str(SETTINGS["server"]["port"])) for name in replicas]


def test_every_secret_that_is_read_from_the_environment_is_given() -> None:
    names = set(re.findall(r'_env = "(\w+)"', (DEPLOY / "guideway.toml").read_text()))
    given = set(re.findall(r"^(\w+)=", (DEPLOY / "secrets.env.example").read_text(), re.MULTILINE))
    assert names <= given
    [container] = PODS["containers"]
    assert {variable["name"] for variable in container["env"]} == names
    assert all("secretKeyRef" in variable["valueFrom"] for variable in container["env"])


def test_pods_and_containers_may_do_nothing_that_they_need_not() -> None:
    [container] = PODS["containers"]
    assert PODS["automountServiceAccountToken"] is False
    assert PODS["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for name, service in COMPOSE["services"].items():
        if name != "database":
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
    image = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert re.search(rf"^USER {PODS['securityContext']['runAsUser']}:\d+$", image, re.MULTILINE)


def test_the_unit_is_a_good_one(tmp_path: Path) -> None:
    """By systemd's own opinion of it: what it would not understand, and how much the service could still do."""
    need("a look at a unit", {"systemd-analyze": "systemd"}, root=False)
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not on PATH")
    guideway = Path(sys.executable).with_name("guideway")
    unit = tmp_path / "guideway.service"
    shipped = (DEPLOY / "guideway.service").read_text(encoding="utf-8")
    unit.write_text(replaced(shipped, ("/opt/guideway/bin/guideway", str(guideway))))

    def analyze(*arguments: str) -> str:
        ran = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    assert not analyze("verify", str(unit)).strip()
    security = analyze("security", "--offline=true", str(unit))
    [exposure] = re.findall(r"exposure level for guideway\.service: ([\d.]+)", security)
    assert float(exposure) < 2

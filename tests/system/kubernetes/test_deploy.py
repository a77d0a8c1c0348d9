"""The manifests of docs/deploy.md on a real API server: it takes each as it stands, and loses no field of one."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.kubernetes.control_plane import ControlPlane

FOLDER = Path(__file__).parents[3] / "examples" / "deploy" / "kubernetes"
PATHS = {
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "Service": "/api/v1/namespaces/default/services",
}


def manifests() -> list[dict[str, Any]]:
    return [
        manifest
        for file in ("guideway.yaml", "restarts.yaml")
        for manifest in yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8"))
    ]


def lacks(given: Any, taken: Any, where: str = "") -> list[str]:
    """Return what an answer has lost, or says otherwise, of what was given."""
    if isinstance(given, dict) and isinstance(taken, dict):
        return [lost for key, value in given.items() for lost in lacks(value, taken.get(key), f"{where}.{key}")]
    if isinstance(given, list) and isinstance(taken, list) and len(given) == len(taken):
        return [lost for pair in zip(given, taken, strict=True) for lost in lacks(*pair, f"{where}[]")]
    return [] if given == taken else [f"{where}: {given!r} became {taken!r}"]


@pytest.mark.parametrize("manifest", manifests(), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_a_real_api_server_takes_it(manifest: dict[str, Any], plane: ControlPlane | None) -> None:
    if plane is None:
        pytest.skip("needs an API server of its own: make test-kubernetes")
    path = PATHS[manifest["kind"]]
    with plane.client() as client:
        groups = client.get("/apis/policy/v1").status_code
        if manifest["kind"] == "PodDisruptionBudget" and groups == 404:  # before 1.21 it was called beta, and the same
            path, manifest = path.replace("/v1/", "/v1beta1/"), manifest | {"apiVersion": "policy/v1beta1"}
        answer = client.post(path, params={"dryRun": "All"}, json=manifest)
        assert answer.status_code == 201, answer.text
        assert not lacks(manifest, answer.json())


def test_the_patch_gives_the_pods_a_token(plane: ControlPlane | None) -> None:
    if plane is None:
        pytest.skip("needs an API server of its own: make test-kubernetes")
    [deployment] = [each for each in manifests() if each["kind"] == "Deployment"]
    patch = yaml.safe_load((FOLDER / "with-token.yaml").read_text(encoding="utf-8"))
    with plane.client() as client:
        client.post(PATHS["Deployment"], json=deployment).raise_for_status()
        path = f"{PATHS['Deployment']}/guideway"
        try:
            merge = {"Content-Type": "application/strategic-merge-patch+json"}
            answer = client.patch(path, params={"dryRun": "All"}, json=patch, headers=merge)
            assert answer.status_code == 200, answer.text
        finally:
            client.delete(path).raise_for_status()
    pods = answer.json()["spec"]["template"]["spec"]
    assert (pods["serviceAccountName"], pods["automountServiceAccountToken"]) == ("guideway", True)
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert len(pods["containers"]) == 1

"""A namespace of a cluster for one test: a real one, or a recording of what a real one answered.

The client here is a plain one, not the product's: what the tests know of the cluster they know from elsewhere.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml
from tests.system.kubernetes.control_plane import kubeconfig
from tests.system.kubernetes.recordings import Recording
from tests.system.supervisord import wait_for

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import ServiceDriver
from guideway.interpreter.drivers.kubernetes.workload import RESTARTED_AT
from guideway.interpreter.service import Service

RIGHTS = Path(__file__).parents[3] / "examples/kubernetes/rights.yaml"
#: The workloads that the example of rights is for, by kind.
NAMES: Mapping[str, str] = {"deployment": "web", "statefulset": "database", "daemonset": "agent"}
IMAGE = os.environ.get("GUIDEWAY_TEST_IMAGE", "busybox:stable")
MISSING = "registry.invalid/missing:1"
FOR_EVER = "sleep 100000"

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATCH = "application/strategic-merge-patch+json"


class World:
    """``admin`` is None where answers are recorded ones. ``reach`` is the address and authority that drivers use.

    Users: ``guideway`` has what the example of rights grants, ``blind`` the same without the pods, ``viewer`` may look
    and not restart, ``nobody`` nothing.
    """

    def __init__(self, test: str, folder: Path, recording: Recording, admin: httpx2.Client | None) -> None:
        self.namespace = f"gw-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
        self.recording = recording
        self.folder = folder
        self.address, self.authority = "", ""
        #: Has the API server be gone.
        self.gone: Callable[[], object] = lambda: None
        #: Waits until whoever gives recorded answers is done with everybody.
        self.quiet: Callable[[], object] = lambda: None
        self._admin = admin
        self._made: list[ServiceDriver] = []

    @property
    def is_recorded(self) -> bool:
        """Whether answers are recorded ones."""
        return self._admin is None

    def seconds(self, real: float) -> float:
        """Return how long to give a real cluster, or what is recorded of it."""
        return real / 2 if self.is_recorded else real

    def rewind(self) -> None:
        """Go back to the recording's mark, where there is one, after the last answer to what was asked so far."""
        self.quiet()
        self.recording.rewind()

    # ---- what the cluster is asked to do, without the product

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Do something as the administrator, and return the answer."""
        call = f"{method} {path}"
        if self._admin is None:
            return self.recording.give("did", call)["body"]
        answer = self._admin.request(method, path, content=json.dumps(body), headers={"Content-Type": kind})
        answer.raise_for_status()
        self.recording.add("did", call, answer.status_code, answer.json())
        return answer.json()

    def deploy(self, kind: str = "deployment", *, up: bool = True, **options: Any) -> None:
        """Make a workload, and wait until it is up and seen to be."""
        self.ask("POST", self._path(kind, ""), manifest(kind, **options))
        if up:
            self.wait(kind, "be up", lambda said: _is_up(kind, said))

    def change(self, kind: str = "deployment", **spec: Any) -> None:
        """Change parts of a workload's ``spec``."""
        self.ask("PATCH", self._path(kind), {"spec": spec}, _PATCH)

    def change_template(self, kind: str = "deployment", **options: Any) -> None:
        """Have pods made that are other ones."""
        self.change(kind, template=manifest(kind, **options)["spec"]["template"])

    def delete(self, kind: str = "deployment") -> None:
        """Delete a workload."""
        self.ask("DELETE", self._path(kind), {"propagationPolicy": "Background"})

    def get(self, kind: str = "deployment") -> Any:
        """Return a workload."""
        return self.ask("GET", self._path(kind))

    def wait(self, kind: str, what: str, holds: Callable[[Any], bool]) -> Any:
        """Wait until a workload is as it should be, and return it."""
        call = f"WAIT for the {kind} to {what}"
        if self._admin is None:
            return self.recording.give("did", call)["body"]
        admin, path = self._admin, self._path(kind)
        said: list[Any] = [None]

        def look() -> bool:
            said[0] = admin.get(path).raise_for_status().json()
            return holds(said[0])

        wait_for(look, f"the {kind} to {what}", lambda: json.dumps(said[0].get("status")), seconds=120)
        self.recording.add("did", call, 200, said[0])
        return said[0]

    def wait_for_restart(self) -> None:
        """Wait until the deployment was asked to restart, and has a new pod."""
        self.wait(
            "deployment",
            "be restarted",
            lambda said: (
                RESTARTED_AT in said["spec"]["template"]["metadata"].get("annotations", {})
                and said["status"]["observedGeneration"] == said["metadata"]["generation"]
                and said["status"].get("updatedReplicas", 0) > 0
            ),
        )

    def wait_for_pods(self, kind: str, what: str, word: str) -> None:
        """Wait until each pod's status has a word in it."""
        call = f"WAIT for the pods of the {kind} to {what}"
        if self._admin is None:
            self.recording.give("did", call)
            return
        admin, path = self._admin, f"/api/v1/namespaces/{self.namespace}/pods"

        def look() -> bool:
            pods = admin.get(path).raise_for_status().json()["items"]
            return bool(pods) and all(word in json.dumps(pod["status"]) for pod in pods)

        wait_for(look, f"the pods of the {kind} to {what}", seconds=120)
        self.recording.add("did", call, 200, None)

    def _path(self, kind: str, name: str | None = None) -> str:
        name = NAMES[kind] if name is None else name
        return f"/apis/apps/v1/namespaces/{self.namespace}/{kind}s" + (f"/{name}" if name else "")

    # ---- who may do what

    def set_up(self) -> None:
        """Make the namespace and its users."""
        if self._admin is None:
            return
        core = "/api/v1/namespaces"
        self._post(core, {"metadata": {"name": self.namespace}})
        for document in yaml.safe_load_all(RIGHTS.read_text()):
            self._post(self._where(document["kind"]), document)
        for user in ("blind", "viewer", "nobody"):
            self._post(self._where("ServiceAccount"), {"metadata": {"name": user}})
        self.grant("viewer", [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["get"]}], note=False)
        self._bind("blind", "guideway")
        for user, verb, group, resource in (
            ("guideway", "list", "", "pods"),
            ("blind", "patch", "apps", "deployments"),
            ("viewer", "get", "apps", "deployments"),
        ):
            self._wait_for_right(user, verb, group, resource)

    def grant(self, user: str, rules: Any, *, note: bool = True) -> None:
        """Let a user do more."""
        if self._admin is not None:
            self._post(self._where("Role"), {"metadata": {"name": f"of-{user}"}, "rules": rules})
            self._bind(user, f"of-{user}")
            self._wait_for_right(user, rules[0]["verbs"][-1], "apps", "deployments")
        if note:
            self._note(f"GRANT {user}")

    def tear_down(self) -> None:
        """Delete everything."""
        if self._admin is not None:
            self._admin.delete(f"/api/v1/namespaces/{self.namespace}")

    def _bind(self, user: str, role: str) -> None:
        body = {
            "metadata": {"name": f"{role}-to-{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": self.namespace}],
        }
        self._post(self._where("RoleBinding"), body)

    def _wait_for_right(self, user: str, verb: str, group: str, resource: str) -> None:
        attributes = {"namespace": self.namespace, "verb": verb, "group": group, "resource": resource, "name": "web"}
        account = f"system:serviceaccount:{self.namespace}:{user}"
        body = {"spec": {"user": account, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_for(lambda: self._post(path, body)["status"]["allowed"], f"{user} to be let {verb} {resource}")

    def _where(self, kind: str) -> str:
        if kind == "ServiceAccount":
            return f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        return f"{_RBAC}/namespaces/{self.namespace}/{kind.lower()}s"

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        assert self._admin is not None
        for subject in body.get("subjects", []):
            subject["namespace"] = self.namespace
        return self._admin.post(path, json=body).raise_for_status().json()

    def _note(self, call: str) -> None:
        if self._admin is None:
            self.recording.give("did", call)
        else:
            self.recording.add("did", call, 200, None)

    def kubeconfig(self, user: str, **other: Any) -> Path:
        """Return a user's kubeconfig; ``other`` are keys of its user entry to set instead."""
        token = "recorded"  # noqa: S105  # nobody looks at it
        if self._admin is not None:
            body = {"spec": {"expirationSeconds": 3600}}
            token = self._post(f"{self._where('ServiceAccount')}/{user}/token", body)["status"]["token"]
        file = self.folder / f"{user}{len(list(self.folder.iterdir()))}.yaml"
        file.write_text(json.dumps(kubeconfig(self.address, self.authority, **{"token": token, **other})))
        return file

    # ---- the product

    def driver(self, kind: str = "deployment", *, user: str = "guideway", **options: Any) -> ServiceDriver:
        """Return a driver as a configuration makes it."""
        given = {"kind": kind, "name": NAMES[kind], "namespace": self.namespace, **options}
        if "kubeconfig" not in given:
            given["kubeconfig"] = str(self.kubeconfig(user))
        made = DRIVERS["kubernetes"].model_validate(given).build()
        self._made.append(made)
        return made

    def service(
        self, kind: str = "deployment", *, user: str = "guideway", settle: float = 0.3, **options: Any
    ) -> Service:
        """Return a service as a configuration makes it."""
        return Service(NAMES[kind], self.driver(kind, user=user, **options), settle=settle)

    async def close(self) -> None:
        """Close every driver that was made."""
        while self._made:
            await self._made.pop().close()
        for _ in range(3):
            await asyncio.sleep(0)  # tasks that are over are gone at the loop's next turn


def manifest(
    kind: str,
    *,
    runs: str = FOR_EVER,
    image: str = IMAGE,
    ready: bool = True,
    nowhere: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """Return a workload: what its pods run, whether they get ready, and whether a node can take them."""
    container: dict[str, Any] = {"name": "main", "image": image, "command": ["sh", "-c", runs]}
    told = {"fieldRef": {"fieldPath": f"metadata.annotations['{RESTARTED_AT}']"}}
    container["env"] = [{"name": "RESTARTED", "valueFrom": told}]
    if not ready:
        container["readinessProbe"] = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 1, "nodeSelector": {"no": "node"}}
    if not nowhere:
        del pod["nodeSelector"]
    labels = {"app": NAMES[kind]}
    more: dict[str, Any] = {"replicas": 2}
    if kind == "statefulset":
        more["serviceName"] = NAMES[kind]
    elif kind == "daemonset":
        more = {}
    return {
        "apiVersion": "apps/v1",
        "kind": {"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet"}[kind],
        "metadata": {"name": NAMES[kind]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **more,
            **spec,
        },
    }


def condition(said: Any, name: str) -> tuple[str, str] | None:
    """Return the status and the reason of a condition."""
    for one in said.get("status", {}).get("conditions", []):
        if one["type"] == name:
            return one["status"], one["reason"]
    return None


def _is_up(kind: str, said: Any) -> bool:
    status = said.get("status", {})
    if status.get("observedGeneration") != said["metadata"]["generation"]:
        return False
    if kind == "daemonset":
        wanted = status["desiredNumberScheduled"]
        return bool(wanted > 0 and status.get("numberAvailable") == status.get("updatedNumberScheduled") == wanted)
    wanted = said["spec"]["replicas"]
    if kind == "statefulset":
        same = status.get("currentRevision") == status["updateRevision"]
        return bool(same and status.get("readyReplicas", 0) == wanted)
    return bool(status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == wanted)

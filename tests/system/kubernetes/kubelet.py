"""Scheduler and kubelets, played: they write into the pods' status what real ones would, and run nothing.

What becomes of a pod is read from its specification, so that a real cluster does the same with it: ``sleep 1; exit 3``
lives a second and fails, an image called ``missing`` cannot be pulled, a node selector finds no node, and a readiness
probe does not pass.
"""

import datetime
import re
import threading
import time
from typing import Any

import httpx2

NODES = ("node-1", "node-2")

_TICK = 0.05
_BACK_OFF = 3.0  # a real kubelet waits 10 s at first
_START, _STOP = 0.1, 0.1


class Kubelet:
    """All of a cluster's, in one thread."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._since: dict[str, float] = {}
        self._told: dict[str, object] = {}
        self._turn = 0

    def start(self) -> None:
        """Begin to look after pods."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(20)
        self._client.close()

    def _go(self) -> None:
        while not self._over.wait(_TICK):
            try:
                for pod in self._client.get("/api/v1/pods").raise_for_status().json()["items"]:
                    self._look_after(pod)
            except httpx2.HTTPError:
                continue  # the API server is about to be back, or the pod is gone

    def _look_after(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            if self._age(meta["uid"] + "/end") > _STOP:
                self._client.request("DELETE", path, json={"gracePeriodSeconds": 0})
        elif "nodeName" not in pod["spec"]:
            self._schedule(pod, path)
        else:
            told, status = _status(pod, self._age(meta["uid"]))
            if self._told.get(meta["uid"]) != told:
                self._tell(path, status)
                self._told[meta["uid"]] = told

    def _age(self, key: str) -> float:
        return time.monotonic() - self._since.setdefault(key, time.monotonic())

    def _schedule(self, pod: dict[str, Any], path: str) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        if spec.get("nodeSelector"):
            if self._told.get(meta["uid"]) != "unschedulable":
                words = "0/2 nodes are available: 2 node(s) didn't match node selector."
                condition = _condition("PodScheduled", False, "Unschedulable", words)
                self._tell(path, {"phase": "Pending", "conditions": [condition]})
                self._told[meta["uid"]] = "unschedulable"
            return
        self._turn += 1
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": _wanted(spec) or NODES[self._turn % len(NODES)]},
        }
        self._client.post(f"{path}/binding", json=body)

    def _tell(self, path: str, status: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        self._client.request("PATCH", f"{path}/status", json={"status": status}, headers=headers).raise_for_status()


def _wanted(spec: dict[str, Any]) -> str | None:
    """Return the node that a daemon set means its pod for."""
    found = re.search(r"'metadata\.name', 'operator': 'In', 'values': \['([^']*)'\]", str(spec.get("affinity")))
    return found and found[1]


def _status(pod: dict[str, Any], age: float) -> tuple[object, dict[str, Any]]:
    """Return what to tell of a pod that has been on its node for some seconds, and what makes it another telling."""
    container = pod["spec"]["containers"][0]
    if "missing" in container["image"]:
        reason = "ErrImagePull" if age < _START else "ImagePullBackOff"
        waiting = {"reason": reason, "message": f'Back-off pulling image "{container["image"]}"'}
        return reason, _pod_status(container, {"waiting": waiting}, ready=False)
    if age < _START:
        return "creating", _pod_status(container, {"waiting": {"reason": "ContainerCreating"}}, ready=False)
    command = container.get("command", [""])[-1]
    ends = re.search(r"sleep (\S+); exit (\d+)", command)
    stays = '"$RESTARTED"' in command and not pod["metadata"].get("annotations")
    if ends is None or stays:
        ready = "readinessProbe" not in container
        return ready, _pod_status(container, {"running": {"startedAt": _now()}}, ready=ready)
    lives, code = float(ends[1]), int(ends[2])
    run, moment = divmod(age - _START, lives + _BACK_OFF)
    ended = {"terminated": {"exitCode": code, "reason": "Error"}}
    last = {"restartCount": int(run), "lastState": ended} if run else {}
    if moment < lives:
        return ("runs", run), _pod_status(container, {"running": {"startedAt": _now()}}, ready=True, **last)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    again = {"restartCount": int(run) + 1, "lastState": ended}
    return ("ended", run), _pod_status(container, {"waiting": waiting}, ready=False, **again)


def _pod_status(container: dict[str, Any], state: dict[str, Any], *, ready: bool, **more: Any) -> dict[str, Any]:
    told = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    return {
        "phase": "Running" if "running" in state or more else "Pending",
        "conditions": [
            _condition("PodScheduled", True),
            _condition("Initialized", True),
            _condition("ContainersReady", ready),
            _condition("Ready", ready),
        ],
        "containerStatuses": [{**told, "ready": ready, "state": state, **more}],
    }


def _condition(name: str, holds: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    told = {"type": name, "status": str(holds), "lastTransitionTime": _now()}
    return told | ({"reason": reason, "message": message} if reason else {})


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

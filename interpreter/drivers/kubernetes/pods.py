"""What is wrong with a workload's pods, as the scheduler and the kubelets say it. Reaches nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lightkube.models.core_v1 import ContainerStatus, PodStatus
from lightkube.resources.core_v1 import Pod

from guideway.interpreter.drivers.kubernetes.workload import RESTARTED_AT

_LONGEST: Final = 5  # pods that are told of: others mostly have the same trouble

# Why a container waits: what it means, and whether the kubelet itself holds it back, having tried.
_WAITS: Final = {
    "CrashLoopBackOff": ("its container ends after each start (crash loop)", True),
    "ImagePullBackOff": ("its image cannot be pulled", True),
    "ErrImagePull": ("its image cannot be pulled", False),
    "ErrImageNeverPull": ("its image is not on the node and may not be pulled", True),
    "InvalidImageName": ("its image has a name that is none", True),
    "RegistryUnavailable": ("its image cannot be pulled: the registry does not answer", False),
    "CreateContainerConfigError": ("its container needs a config map or a secret that is not there", True),
    "CreateContainerError": ("its container cannot be made", True),
    "RunContainerError": ("its container cannot be started", True),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a pod from being ready.

    ``why`` is our words, ``said`` Kubernetes' own: untrusted. ``is_held_back``: it was tried and failed, and is tried
    again ever less often.
    """

    pod: str
    why: str
    said: str
    is_held_back: bool

    def line(self) -> str:
        """Return it as a line of a log."""
        return f"pod {self.pod}: {self.why}" + (f": {self.said}" if self.said else "")


def troubles(pods: Iterable[Pod], restarted_at: str | None) -> list[Trouble]:
    """Return what is wrong with the pods of the template with that restart, the worst first."""
    found = [
        trouble
        for pod in pods
        if pod.metadata is not None
        and pod.status is not None
        and pod.metadata.deletionTimestamp is None
        and (pod.metadata.annotations or {}).get(RESTARTED_AT) == restarted_at
        for trouble in _of(pod.metadata.name or "", pod.status)
    ]
    return sorted(found, key=lambda trouble: not trouble.is_held_back)[:_LONGEST]


def _of(name: str, status: PodStatus) -> Iterator[Trouble]:
    for condition in status.conditions or []:
        if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable"):
            yield Trouble(name, "no node can take it (unschedulable)", condition.message or "", is_held_back=False)
    if status.phase == "Failed":
        yield Trouble(name, "it failed", _text(status.reason, status.message), is_held_back=False)
    for container in [*(status.initContainerStatuses or []), *(status.containerStatuses or [])]:
        yield from _of_container(name, container)


def _of_container(pod: str, container: ContainerStatus) -> Iterator[Trouble]:
    state, last = container.state, container.lastState
    ended = (state and state.terminated) or (last and last.terminated)
    exit_words = f"exit code {ended.exitCode}" + (f" ({ended.reason})" if ended.reason else "") if ended else ""
    if state is not None and state.waiting is not None and state.waiting.reason in _WAITS:
        why, is_held_back = _WAITS[state.waiting.reason]
        yield Trouble(pod, why, _text(state.waiting.reason, state.waiting.message, exit_words), is_held_back)
    elif state is not None and state.terminated is not None and state.terminated.exitCode != 0:
        yield Trouble(pod, "its container ended with an error", exit_words, is_held_back=False)
    elif container.restartCount and not container.ready:
        why = f"its container was started again {container.restartCount} times"
        yield Trouble(pod, why, exit_words, is_held_back=False)


def _text(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)

"""What Kubernetes says of a workload, taken from its object: its state as one of ours, and how far its rollout is.

Owns the meaning of generations, replica counts, revisions and conditions of the three kinds. Reaches nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from lightkube import operators
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import DaemonSet, Deployment, StatefulSet

from guideway.interpreter.drivers.base import Fault, Observation
from guideway.interpreter.results import Reason, State

#: The annotation of a pod template that `kubectl rollout restart` sets, too.
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"

KINDS: Final[Mapping[str, type[Deployment] | type[StatefulSet] | type[DaemonSet]]] = MappingProxyType(
    {"deployment": Deployment, "statefulset": StatefulSet, "daemonset": DaemonSet}
)
#: What people call the kinds.
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"deployment": "deployment", "statefulset": "stateful set", "daemonset": "daemon set"}
)

#: Labels of a workload's pods, each with what is asked of it.
Selector = tuple[tuple[str, "operators.Operator[Any]"], ...]

_REVISION: Final = "deployment.kubernetes.io/revision"
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload at one moment. ``desired`` and the counts after it are of pods; ``limit`` is in seconds.

    ``total`` counts all pods, those of an older template too. ``exceeded`` says that Kubernetes gave the rollout up
    (``progressDeadlineSeconds``): some pods may be available all the same. ``keeps`` says why a new template would not
    replace every pod, None where it does. ``revision`` is another after each change of the pod template, ``version``
    after each change of the object. ``labels`` are its own, not its pods'.
    """

    kind: str
    uid: str
    generation: int
    observed: int
    desired: int
    total: int
    updated: int
    ready: int
    available: int
    revision: str
    restarted_at: str | None
    selector: Selector
    paused: bool = False
    deleted: bool = False
    exceeded: bool = False
    limit: int | None = None
    rolling: bool = False
    keeps: str | None = None
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: Deployment | StatefulSet | DaemonSet) -> "Workload":
        """Return the workload of its object, as the library hands it out. Raises ``Fault``."""
        meta = said.metadata
        if meta is None or not meta.uid or meta.generation is None:
            raise Fault(Reason.UNKNOWN, "what answers does not speak as an API server does")
        match said:
            case Deployment():
                return _deployment(said, meta)
            case StatefulSet():
                return _stateful_set(said, meta)
            case DaemonSet():
                return _daemon_set(said, meta)

    @property
    def is_seen(self) -> bool:
        """Whether the counts are of the object as it is now: its controller has read the last change."""
        return self.observed >= self.generation

    @property
    def is_complete(self) -> bool:
        """Whether every pod is of the present template and available, and no other is left."""
        return (
            self.is_seen
            and not self.rolling
            and not self.exceeded
            and self.updated >= self.desired
            and self.total <= self.updated
            and self.available >= self.desired
        )

    @property
    def state(self) -> State:
        """The state, as one of ours. Where nothing is available, its pods may know more."""
        if self.deleted:
            return State.STOPPING
        if self.desired == 0 and self.is_seen:
            return State.STOPPING if self.total else State.STOPPED
        if self.exceeded:
            return State.DEGRADED if self.available else State.FAILED
        if self._is_rolling_out or not self.available:
            return State.STARTING
        return State.RUNNING if self.available >= self.desired else State.DEGRADED

    @property
    def _is_rolling_out(self) -> bool:
        """Whether pods are being replaced. That some are missing is not that: it may have been scaled up."""
        if self.paused or self.keeps is not None:  # pods of an older template are meant to stay
            return False
        return self.rolling or self.total > self.updated

    @property
    def identity(self) -> str | None:
        """What is another after each change of the pod template, None where nothing runs.

        A pod that Kubernetes replaces for a reason of its own, or a scaling, does not change it.
        """
        return f"{self.uid}/{self.revision}" if self.available else None

    def observation(self) -> Observation:
        """Return what Kubernetes says, in our words."""
        return Observation(self.state, self.identity, self.description())

    def obstacle(self) -> str | None:
        """Return why a restart would replace nothing, or not everything, now."""
        if self.deleted:
            return "it is being deleted"
        if self.paused:
            return "its rollouts are paused (`spec.paused`): a restart would wait until somebody resumes them"
        if self.desired == 0:
            return _NO_NODE if self.kind == "daemonset" else "it is scaled to 0, and a restart does not scale it up"
        return self.keeps

    def description(self) -> str:
        """Return all that there is to say of it, the controllers' own words last."""
        about = f"{self.updated} of {self.desired} pods are of its last template, {self.available} are available"
        if self.total > self.updated:
            about += f", {self.total - self.updated} are of an older one"
        if not self.is_seen:
            about += " (its controller has not read its last change)"
        paused = "its rollouts are paused" if self.paused else ""
        return "\n".join(line for line in (about, paused, *self.conditions) if line)


_NO_NODE: Final = "no node of the cluster is one that it is for"


def _deployment(said: Deployment, meta: ObjectMeta) -> Workload:
    spec, status = said.spec, said.status
    conditions = (status and status.conditions) or []
    progress = next((one for one in conditions if one.type == "Progressing"), None)
    return Workload(
        kind="deployment",
        uid=meta.uid or "",
        version=meta.resourceVersion or "",
        labels=MappingProxyType(meta.labels or {}),
        generation=meta.generation or 0,
        observed=(status and status.observedGeneration) or 0,
        desired=1 if spec.replicas is None else spec.replicas,
        total=(status and status.replicas) or 0,
        updated=(status and status.updatedReplicas) or 0,
        ready=(status and status.readyReplicas) or 0,
        available=(status and status.availableReplicas) or 0,
        revision=(meta.annotations or {}).get(_REVISION, ""),
        restarted_at=_restarted_at(spec.template.metadata),
        selector=_selector(spec.selector),
        paused=bool(spec.paused),
        deleted=meta.deletionTimestamp is not None,
        exceeded=progress is not None and (progress.status, progress.reason) == ("False", "ProgressDeadlineExceeded"),
        limit=spec.progressDeadlineSeconds,
        conditions=tuple(
            f"{one.type} is {one.status} ({one.reason}): {one.message}"
            for one in conditions
            if one.status != ("False" if one.type == "ReplicaFailure" else "True")
        ),
    )


def _stateful_set(said: StatefulSet, meta: ObjectMeta) -> Workload:
    spec, status = said.spec, said.status
    strategy = spec.updateStrategy
    partition = (strategy and strategy.rollingUpdate and strategy.rollingUpdate.partition) or 0
    keeps = None
    if strategy is not None and strategy.type == "OnDelete":
        keeps = "its update strategy is OnDelete: its pods are replaced only when somebody deletes them"
    elif partition:
        keeps = f"its update partition keeps the pods below {partition} as they are"
    available = status and (status.readyReplicas if status.availableReplicas is None else status.availableReplicas)
    current, update = (status and status.currentRevision), (status and status.updateRevision)
    return Workload(
        kind="statefulset",
        uid=meta.uid or "",
        version=meta.resourceVersion or "",
        labels=MappingProxyType(meta.labels or {}),
        generation=meta.generation or 0,
        observed=(status and status.observedGeneration) or 0,
        desired=1 if spec.replicas is None else spec.replicas,
        total=(status and status.replicas) or 0,
        updated=(status and status.updatedReplicas) or 0,
        ready=(status and status.readyReplicas) or 0,
        available=available or 0,
        revision=update or "",
        restarted_at=_restarted_at(spec.template.metadata),
        selector=_selector(spec.selector),
        deleted=meta.deletionTimestamp is not None,
        rolling=keeps is None and current != update,
        keeps=keeps,
    )


def _daemon_set(said: DaemonSet, meta: ObjectMeta) -> Workload:
    spec, status = said.spec, said.status
    on_delete = spec.updateStrategy is not None and spec.updateStrategy.type == "OnDelete"
    updated = (status and status.updatedNumberScheduled) or 0
    return Workload(
        kind="daemonset",
        uid=meta.uid or "",
        version=meta.resourceVersion or "",
        labels=MappingProxyType(meta.labels or {}),
        generation=meta.generation or 0,
        observed=(status and status.observedGeneration) or 0,
        desired=status.desiredNumberScheduled if status else 0,
        total=status.currentNumberScheduled if status else 0,
        updated=updated,
        ready=status.numberReady if status else 0,
        available=(status and status.numberAvailable) or 0,
        revision=(meta.annotations or {}).get(_TEMPLATE_GENERATION, ""),
        restarted_at=_restarted_at(spec.template.metadata),
        selector=_selector(spec.selector),
        deleted=meta.deletionTimestamp is not None,
        keeps="its update strategy is OnDelete: its pods are replaced only when somebody deletes them"
        if on_delete
        else None,
    )


def _restarted_at(template: ObjectMeta | None) -> str | None:
    return ((template and template.annotations) or {}).get(RESTARTED_AT)


def _selector(selector: LabelSelector) -> Selector:
    """Return a label selector as the library takes one."""
    parts: list[tuple[str, operators.Operator[Any]]] = [
        (key, operators.equal(value)) for key, value in (selector.matchLabels or {}).items()
    ]
    for one in selector.matchExpressions or []:
        match one.operator:
            case "In":
                parts.append((one.key, operators.in_(one.values or [])))
            case "NotIn":
                parts.append((one.key, operators.not_in(one.values or [])))
            case "Exists":
                parts.append((one.key, operators.exists()))
            case _:
                parts.append((one.key, operators.not_exists()))
    return tuple(parts)

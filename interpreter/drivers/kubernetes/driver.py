"""Services that are workloads of a Kubernetes cluster.

Owns what is asked of the API server, in which order, and when a rollout is over. Never decides whether a service is
well: that its pods are available is what their own probes say, where they have any.

A restart is a change of the pod template, as `kubectl rollout restart` makes it. Once it is accepted, the controllers
replace the pods, a few at a time and only as new ones become available, whatever becomes of who asked. So a cancelled
restart leaves nothing down and nothing to bring back. The object is looked at again and again, not watched: a watch
would need one right more, and its last event proves no more than a look does.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import anyio
from lightkube import AsyncClient
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from guideway.interpreter.drivers.base import Fault, Observation, Phase
from guideway.interpreter.drivers.kubernetes.cluster import Cluster, Lost, Refusal
from guideway.interpreter.drivers.kubernetes.pods import Trouble, troubles
from guideway.interpreter.drivers.kubernetes.rights import VERBS, fault_of, role_rule
from guideway.interpreter.drivers.kubernetes.selector import LabelSelector
from guideway.interpreter.drivers.kubernetes.workload import KINDS, RESTARTED_AT, WORDS, Selector, Workload
from guideway.interpreter.results import Reason, State

_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_SHARE = 0.03, 0.5, 0.1

#: How long an API server may be silent during a rollout, which goes on without it.
SILENCE_SECONDS: Final = 10.0
#: How often a rollout's pods are looked at, and how long it is believed that they may not be.
PODS_SECONDS: Final = 2.0
FORBIDDEN_SECONDS: Final = 60.0
#: How many pods are looked at, at most.
PODS: Final = 100
_ATTEMPTS: Final = 4

_T = TypeVar("_T")


class KubernetesDriver:
    """One workload of a cluster, by its kind (a key of ``KINDS``), name and namespace.

    Where there is a ``selector``, one without those labels is not the one that is meant: it is not found.
    """

    def __init__(
        self, kind: str, name: str, namespace: str, cluster: Cluster, selector: LabelSelector | None = None
    ) -> None:
        self._kind = kind
        self._name = name
        self._namespace = namespace
        self._cluster = cluster
        self._selector = selector
        self._pods_again = 0.0  # when pods may be asked for: not soon after that was forbidden

    async def observe(self) -> Observation:
        """Return what the API server says now. Raises ``Fault``."""
        now = await self._look()
        if now.state is State.STARTING and not now.available:
            held_back = [trouble for trouble in await self._troubles(now) if trouble.is_held_back]
            if held_back:
                return Observation(State.FAILED, None, _text(now, held_back))
        return now.observation()

    async def restart(self, enter: Callable[[Phase], None], end: float) -> Observation:  # noqa: ARG002
        """Have Kubernetes replace all pods, and return what the workload is once it has. Raises ``Fault``."""
        before = await self._look()
        if (obstacle := before.obstacle()) is not None:
            raise Fault(Reason.START_FAILED, obstacle, before.description())
        enter(Phase.REPLACING)
        asked = now = await self._replace(before)
        is_seen = False
        pauses, pods_at = _pauses(), anyio.current_time() + PODS_SECONDS
        while True:
            _go_on(before, asked, now)
            if now.is_seen and not is_seen:
                is_seen = True
                enter(Phase.STARTING)
            if now.is_complete:
                return now.observation()
            if now.exceeded and now.is_seen:
                raise await self._given_up(now)
            if anyio.current_time() >= pods_at:
                found = await self._troubles(now)
                if found and found[0].is_held_back:
                    raise Fault(Reason.START_FAILED, f"a new pod does not start: {found[0].why}", _text(now, found))
                pods_at = anyio.current_time() + PODS_SECONDS
            await anyio.sleep(next(pauses))
            now = await self._look_patiently()

    async def tail(self) -> str:
        """Return what is wrong with the pods, where that may be asked for, and where their log is. Raises ``Fault``."""
        found = await self._troubles(await self._look())
        log = f"its log: kubectl logs -n {self._namespace} {self._kind}/{self._name}"
        return "\n".join([*(trouble.line() for trouble in found), log])

    async def check_restart(self) -> None:
        """Return where nothing is known to keep this process from restarting the workload. Raises ``Fault``.

        The API server is asked whether it would allow it, which every user who has signed in may ask.
        """
        for verb in VERBS:
            review = SelfSubjectAccessReview(
                spec=SelfSubjectAccessReviewSpec(
                    resourceAttributes=ResourceAttributes(
                        group="apps",
                        resource=f"{self._kind}s",
                        name=self._name,
                        namespace=self._namespace,
                        verb=verb,
                    )
                )
            )
            try:
                answer = await self._cluster.call(self, lambda client, review=review: client.create(review))  # type: ignore[misc]
            except Refusal as refusal:
                if refusal.status == 403:  # whether it would be allowed is what may not be known
                    return
                raise fault_of(refusal, self._kind) from None
            if answer.status is None or not answer.status.allowed:
                raise Fault(
                    Reason.NO_PERMISSION,
                    f"the API server does not let this process {verb} it",
                    (answer.status and answer.status.reason) or "",
                    self._grant(),
                )
        if (keeps := (await self._look()).keeps) is not None:
            raise Fault(Reason.START_FAILED, keeps)

    def _grant(self) -> str:
        """Return what gives this process the rights that it needs."""
        rule = role_rule(self._kind, self._name)
        return f"a Role of the namespace `{self._namespace}`, bound to its user, with this rule allows it: {rule}"

    async def close(self) -> None:
        """Leave the cluster; with its last driver the connections end."""
        await self._cluster.leave(self)

    async def _look(self) -> Workload:
        """Return the workload as it is, where it is the one that is meant. Raises ``Fault``."""
        found = await self._at_all()
        if self._selector is not None and not self._selector.fits(found.labels):
            raise Fault(
                Reason.NOT_FOUND,
                f"the namespace has a {WORDS[self._kind]} of that name, but without the labels that its entry asks "
                f"for: {self._selector.text}",
            )
        return found

    async def _at_all(self) -> Workload:
        return Workload.of(
            await self._asked(lambda client: client.get(KINDS[self._kind], self._name, namespace=self._namespace))
        )

    async def _look_patiently(self) -> Workload:
        """Look, again where the API server is silent for a while."""
        since = anyio.current_time()
        pauses = _pauses()
        while True:
            try:
                return await self._at_all()
            except Lost as lost:
                if anyio.current_time() - since > SILENCE_SECONDS:
                    raise Fault(
                        lost.reason, f"{lost.message}; the rollout was accepted and goes on", lost.output
                    ) from None
            except Fault as fault:
                if fault.reason is not Reason.NOT_FOUND:
                    raise
                raise Fault(Reason.NOT_FOUND, f"the {WORDS[self._kind]} was deleted while it was restarted") from None
            await anyio.sleep(next(pauses))

    async def _replace(self, before: Workload) -> Workload:
        """Change the pod template, and return the workload with the change.

        What is asked again is asked of what was looked at again, and of no other version of it: where an answer was
        lost and the change was not, it must not be made a second time over one of somebody else's. Where labels decide
        whether it is the one that is meant, the first change too is of the object as it was seen with them.
        """
        patch = _patch(datetime.now(UTC))
        seen: Workload | None = before if self._selector is not None else None
        pauses = _pauses()
        for left in reversed(range(_ATTEMPTS)):
            try:
                if seen is not None:
                    patch["metadata"] = {"resourceVersion": seen.version}
                return Workload.of(
                    await self._asked(
                        lambda client: client.patch(
                            KINDS[self._kind],
                            self._name,
                            patch,
                            namespace=self._namespace,
                            patch_type=PatchType.STRATEGIC,
                        )
                    )
                )
            except _ConflictError as conflict:
                if not left:
                    raise conflict.fault from None
            except Lost:
                if not left:
                    raise
            await anyio.sleep(next(pauses))
            seen = await self._look_again(left)
            if seen.uid != before.uid or seen.restarted_at != before.restarted_at:
                return seen  # the change, whose answer was lost, or a later one: its pods are replaced since
        raise AssertionError("unreachable")  # pragma: no cover

    async def _look_again(self, times: int) -> Workload:
        """Look, again where the answer is lost, so many times in all. Raises ``Fault``."""
        pauses = _pauses()
        for left in reversed(range(times)):
            try:
                return await self._look()
            except Lost:
                if not left:
                    raise
            await anyio.sleep(next(pauses))
        raise AssertionError("unreachable")  # pragma: no cover

    async def _asked(self, ask: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
        try:
            return await self._cluster.call(self, ask)
        except Refusal as refusal:
            fault = fault_of(refusal, self._kind)
            if refusal.status == 403:
                fault.mend = self._grant()
            if refusal.status == 409:
                raise _ConflictError(fault) from None
            raise fault from None

    async def _troubles(self, now: Workload) -> list[Trouble]:
        """Return what is wrong with the pods of the present template; nothing where they may not be asked for."""
        if anyio.current_time() < self._pods_again:
            return []
        try:
            pods = await self._cluster.call(self, lambda client: _pods(client, self._namespace, now.selector))
        except Refusal as refusal:
            if refusal.status != 403:
                return []
            self._pods_again = anyio.current_time() + FORBIDDEN_SECONDS
            return []
        except Lost:  # what is known of the workload is worth more
            return []
        return troubles(pods, now.restarted_at)

    async def _given_up(self, now: Workload) -> Fault:
        """Return the fault of a rollout that made no progress for as long as its workload allows."""
        found = await self._troubles(now)
        limit = f" for {now.limit} s" if now.limit is not None else ""
        words = f"its rollout made no progress{limit} (`progressDeadlineSeconds`), and Kubernetes gave it up"
        if not found:
            return Fault(Reason.START_TIMED_OUT, words, now.description())
        reason = Reason.START_FAILED if found[0].is_held_back else Reason.START_TIMED_OUT
        return Fault(reason, f"{words}: {found[0].why}", _text(now, found))


class _ConflictError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def _patch(moment: datetime) -> dict[str, Any]:
    """Return a change of the pod template. In microseconds: restarts within one second are as many."""
    value = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: value}}}}}


async def _pods(client: AsyncClient, namespace: str, selector: Selector) -> list[Pod]:
    found: list[Pod] = []
    if selector:
        # Pairs, which the library takes too: one label can be asked about twice.
        listed = client.list(Pod, namespace=namespace, chunk_size=PODS, labels=list(selector))  # type: ignore[call-overload]
        async with aclosing(aiter(listed)) as pods:
            async for pod in pods:
                found.append(pod)
                if len(found) == PODS:
                    break
    return found


def _go_on(before: Workload, asked: Workload, now: Workload) -> None:
    """Return where the rollout that was asked for is still what is going on. Raises ``Fault``."""
    words = WORDS[now.kind]
    if now.uid != asked.uid:
        raise Fault(Reason.NOT_FOUND, f"the {words} was deleted while it was restarted, and made anew")
    if now.restarted_at == before.restarted_at:
        why = "somebody put its old pod template back while it was restarted"
        raise Fault(Reason.START_FAILED, why, now.description())
    if now.is_seen and (obstacle := now.obstacle()) is not None:
        raise Fault(Reason.START_FAILED, f"while it was restarted it was changed: {obstacle}", now.description())


def _text(now: Workload, found: Sequence[Trouble]) -> str:
    return "\n".join([now.description(), *(trouble.line() for trouble in found)])


def _pauses() -> Iterator[float]:
    """Yield how long to wait before the next look: what is over is seen late by a share of the time that it took."""
    since = anyio.current_time()
    while True:
        yield min(max(_FIRST_PAUSE, (anyio.current_time() - since) * _PAUSE_SHARE), _LONGEST_PAUSE)

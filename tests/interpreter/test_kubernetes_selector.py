"""A name means a workload only if it carries the labels that the entry asks for: when it is looked at, and changed.

What answers here is a server that holds one object and keeps the rules of the API for it: a version that is another
after each change, and a conflict for who changes another version than the present one. That the labels of a selector
mean what Kubernetes means by them is tested on the selector alone.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.drivers.kubernetes.selector import read_selector
from guideway.interpreter.drivers.kubernetes.workload import RESTARTED_AT
from guideway.interpreter.results import Reason, State

# ---- the selector


@pytest.mark.parametrize(
    ("text", "fits", "fits_not"),
    [
        ("app=payments", [{"app": "payments"}], [{}, {"app": "x"}, {"App": "payments"}]),
        ("app==payments", [{"app": "payments", "x": "y"}], [{}, {"app": "paymentss"}]),
        ("tier!=canary", [{}, {"tier": "x"}], [{"tier": "canary"}]),
        ("app=payments,tier!=canary", [{"app": "payments"}], [{"app": "payments", "tier": "canary"}, {"tier": "x"}]),
        ("tier in (web, api)", [{"tier": "web"}, {"tier": "api"}], [{}, {"tier": "web, api"}]),
        (" tier notin (web,api) , app ", [{"app": ""}, {"app": "", "tier": "x"}], [{"app": "", "tier": "api"}, {}]),
        ("example.com/managed", [{"example.com/managed": "no"}], [{"managed": "yes"}, {}]),
        ("!canary", [{}, {"app": "canary"}], [{"canary": ""}]),
        ("app=", [{"app": ""}], [{}, {"app": "x"}]),
    ],
)
def test_labels_that_fit(text: str, fits: list[dict[str, str]], fits_not: list[dict[str, str]]) -> None:
    selector = read_selector(text)
    assert [labels for labels in fits if not selector.fits(labels)] == []
    assert [labels for labels in fits_not if selector.fits(labels)] == []


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ",", "app=payments,", ",app", "app=pay ments", "app payments", "app=a;tier=b", "app in payments"),
        *("!app=x", "app>1", "-app", "app-", "Example/app", "a/b/c", "app=-x", "app=x\ny", "app='x'", "é", "x" * 64),
        "app=" + "x" * 64,
        ",".join(["app=x"] * 400),
        "a" * 300 + "/b",
    ],
)
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match="label"):
        read_selector(text)
    with pytest.raises(ValueError, match="label"):
        DRIVERS["kubernetes"].model_validate({"name": "web", "namespace": "shop", "selector": text})


@given(text=st.text("ab=!,() in/.-", max_size=30), labels=st.dictionaries(st.text("ab"), st.text("ab")))
def test_any_text_is_a_selector_or_none(text: str, labels: dict[str, str]) -> None:
    try:
        selector = read_selector(text)
    except ValueError:
        return
    assert selector.requirements
    assert isinstance(selector.fits(labels), bool)


# ---- the driver


class Api:
    """One deployment, and what is asked of it. ``before_patch`` is called when one has come and is not made yet,
    ``before_look`` when somebody is about to be told what it is."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.uid = "1"
        self.version = 7
        self.restarted_at: str | None = None
        self.asked: list[str] = []
        self.before_patch: Callable[[], None] = lambda: None
        self.before_look: Callable[[], None] = lambda: None
        self.answers_lost = 0

    def change(self, **labels: str) -> None:
        self.labels = labels
        self.version += 1

    def object(self) -> dict[str, Any]:
        annotations = {} if self.restarted_at is None else {RESTARTED_AT: self.restarted_at}
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": self.uid,
                "generation": 1,
                "resourceVersion": str(self.version),
                "labels": self.labels,
                "annotations": {"deployment.kubernetes.io/revision": str(self.version)},
            },
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"annotations": annotations}, "spec": {"containers": []}},
            },
            "status": {"observedGeneration": 1, **counts},
        }

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]] | None:
        """Answer a call; None where the answer is lost."""
        self.asked.append(method)
        if "/pods" in path:
            return 200, {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}
        if method == "PATCH":
            self.before_patch()
            patch = json.loads(body)
            version = patch.get("metadata", {}).get("resourceVersion")
            if version is not None and version != str(self.version):
                return 409, {
                    "apiVersion": "v1",
                    "kind": "Status",
                    "status": "Failure",
                    "code": 409,
                    "message": "conflict",
                }
            self.restarted_at = patch["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT]
            self.version += 1
            if self.answers_lost:
                self.answers_lost -= 1
                return None
        else:
            self.before_look()
        return 200, self.object()


@asynccontextmanager
async def serving(api: Api, folder: Path, selector: str | None = "app=web") -> AsyncIterator[ServiceDriver]:
    """Serve the object on loopback, and give a driver for it."""

    async def serve(client: anyio.abc.SocketStream) -> None:
        async with client:
            received = b""
            while True:
                try:
                    while b"\r\n\r\n" not in received:
                        received += await client.receive()
                    start, _, received = received.partition(b"\r\n\r\n")
                    lines = start.decode().split("\r\n")
                    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
                    while len(received) < int(headers.get("content-length", 0)):
                        received += await client.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return
                body, received = received, b""
                method, path, _ = lines[0].split()
                found = await api.answer(method, path, body)
                if found is None:
                    return
                text = json.dumps(found[1]).encode()
                answer = (
                    f"HTTP/1.1 {found[0]} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
                )
                await client.send(answer.encode() + text)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  # nothing of Django's
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    file = folder / f"config-{port}"
    file.write_text(json.dumps(config))
    options = {"name": "web", "namespace": "shop", "kubeconfig": str(file), "selector": selector}
    driver = DRIVERS["kubernetes"].model_validate(options).build()
    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield driver
            await driver.close()
            tasks.cancel_scope.cancel()
    finally:
        await listener.aclose()


async def restarted(driver: ServiceDriver) -> Fault | None:
    with anyio.fail_after(20):
        try:
            await driver.restart(lambda _: None, anyio.current_time() + 10)
        except Fault as fault:
            return fault
    return None


@pytest.mark.anyio
async def test_one_with_the_labels_is_looked_at_and_restarted(tmp_path: Path) -> None:
    api = Api({"app": "web"})
    async with serving(api, tmp_path) as driver:
        assert (await driver.observe()).state is State.RUNNING
        assert await restarted(driver) is None
    assert api.restarted_at is not None


@pytest.mark.anyio
@pytest.mark.parametrize("labels", [{}, {"app": "database"}, {"APP": "web"}])
async def test_one_without_them_is_not_found_and_nothing_is_asked_of_it(tmp_path: Path, labels: dict[str, str]) -> None:
    api = Api(labels)
    async with serving(api, tmp_path) as driver:
        for ask in (driver.observe, driver.tail):
            with pytest.raises(Fault) as caught:
                await ask()
            assert caught.value.reason is Reason.NOT_FOUND
            assert "without the labels that its entry asks for: app=web" in caught.value.message
        fault = await restarted(driver)
        assert fault is not None
        assert fault.reason is Reason.NOT_FOUND
    assert "PATCH" not in api.asked


@pytest.mark.anyio
async def test_labels_that_are_taken_off_while_a_restart_is_asked_for_keep_it_from_happening(tmp_path: Path) -> None:
    """Between the look and the change: the change is of the version that was looked at, and of no other."""
    api = Api({"app": "web"})

    def take_off() -> None:
        if api.labels == {"app": "web"}:
            api.change(app="database")

    api.before_patch = take_off
    async with serving(api, tmp_path) as driver:
        fault = await restarted(driver)
    assert fault is not None
    assert fault.reason is Reason.NOT_FOUND
    assert api.restarted_at is None
    assert api.asked.count("PATCH") == 1


@pytest.mark.anyio
async def test_another_change_meanwhile_is_no_reason_not_to_restart(tmp_path: Path) -> None:
    api = Api({"app": "web"})

    def touch() -> None:
        if api.asked.count("PATCH") <= 2:
            api.change(app="web", touched=str(api.version))

    api.before_patch = touch
    async with serving(api, tmp_path) as driver:
        assert await restarted(driver) is None
    assert api.asked.count("PATCH") == 3


@pytest.mark.anyio
async def test_a_change_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    api = Api({"app": "web"})
    api.answers_lost = 1
    async with serving(api, tmp_path) as driver:
        assert await restarted(driver) is None
    assert api.asked.count("PATCH") == 1


@pytest.mark.anyio
@pytest.mark.parametrize("selector", [None, "app=web"])
async def test_a_change_whose_answer_was_lost_is_not_made_over_a_later_one(
    tmp_path: Path, selector: str | None
) -> None:
    """Somebody else restarts it before it is looked at again: to change it back would replace the pods once more."""
    api = Api({"app": "web"})
    api.answers_lost = 1
    theirs = "2030-01-01T00:00:00Z"

    def overtake() -> None:
        if api.restarted_at is not None:
            api.restarted_at, api.version = theirs, api.version + 1

    api.before_look = overtake
    async with serving(api, tmp_path, selector) as driver:
        assert await restarted(driver) is None
    assert (api.restarted_at, api.asked.count("PATCH")) == (theirs, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("selector", [None, "app=web"])
async def test_what_is_made_anew_under_its_name_while_an_answer_is_lost_is_not_restarted_for_it(
    tmp_path: Path, selector: str | None
) -> None:
    api = Api({"app": "web"})
    api.answers_lost = 1

    def replace() -> None:
        if api.restarted_at is not None:
            api.restarted_at, api.uid = None, "2"

    api.before_look = replace
    async with serving(api, tmp_path, selector) as driver:
        fault = await restarted(driver)
    assert fault is not None
    assert fault.reason in {Reason.NOT_FOUND, Reason.START_FAILED}
    assert api.asked.count("PATCH") == 1


@pytest.mark.anyio
async def test_without_a_selector_labels_and_versions_are_nothing_to_it(tmp_path: Path) -> None:
    api = Api({})
    api.before_patch = lambda: api.change(a="b")
    async with serving(api, tmp_path, None) as driver:
        assert await restarted(driver) is None
    assert api.asked.count("PATCH") == 1

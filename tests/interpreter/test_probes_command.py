"""The command probe: what an exit status means, and what the configuration may say of one."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import ValidationError
from tests.interpreter.loopback import fault_of, probe

from guideway.interpreter.children.bounds import LEAST, MOST
from guideway.interpreter.children.order import Ended, How, Order
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.probes import PROBES, command
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = pytest.mark.anyio


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"program": "/bin/sh", "arguments": ["-c", line], **more}


async def test_a_check_that_says_ok_is_an_answer() -> None:
    echo = await probe("command", **shell("echo 'DISK OK'")).probe()
    assert (echo.method, echo.warning) == ("command", "")
    assert 0 < echo.seconds < 30


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("exit 1", Reason.NO_ANSWER, "the check warns, or has failed itself (exit status 1)"),
        ("exit 2", Reason.NO_ANSWER, "the check says critical (exit status 2)"),
        ("exit 3", Reason.CANNOT_PROBE, "the check could not tell (exit status 3)"),
        (
            "no-such-command",
            Reason.CANNOT_PROBE,
            "the check ended with exit status 127, which says nothing of what it checks",
        ),
        ("kill -ABRT $$", Reason.CANNOT_PROBE, "the check was ended by SIGABRT"),
        ("sleep 60", Reason.NO_ANSWER, "the check had not ended within 0.3 s"),
    ],
)
async def test_what_an_end_means(line: str, reason: Reason, message: str) -> None:
    fault = await fault_of(probe("command", **shell(f"echo said; {line}", seconds=0.3 if "sleep" in line else 30.0)))
    assert (fault.reason, fault.message) == (reason, message)
    assert fault.output.startswith("said") or "sleep" in line


async def test_a_program_that_is_not_there_is_told_without_its_path() -> None:
    fault = await fault_of(probe("command", program="/no/such"))
    assert (fault.reason, fault.message) == (
        Reason.CANNOT_PROBE,
        "the check was not started: its program cannot be run, or must not be",
    )
    assert fault.mend == "`/no` cannot be looked at: no such file or directory (`program` /no/such)"


async def test_a_warning_passes_where_that_is_said_and_is_shown() -> None:
    check = probe("command", **shell("echo 'QUEUE WARNING: 80 waiting'; exit 1"), warning_passes=True)
    seen = await Service("queue", MemoryDriver(), health=check).state()
    assert (seen.state, seen.output) == (
        State.RUNNING,
        "health check: it passed, with a warning\nQUEUE WARNING: 80 waiting",
    )
    check = probe("command", **shell("echo 'QUEUE WARNING: 80 waiting'; exit 1"))
    seen = await Service("queue", MemoryDriver(), health=check).state()
    assert seen.state is State.DEGRADED
    assert seen.output.endswith("QUEUE WARNING: 80 waiting")


async def test_a_check_ends_before_the_deadline_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there is time to say what it wrote until then."""
    orders: list[Order] = []

    async def note(order: Order) -> Ended:
        orders.append(order)
        return Ended(How.TIMED_OUT, out=b"so far")

    monkeypatch.setattr(command, "run", note)
    with anyio.fail_after(20):
        fault = await fault_of(probe("command", **shell("true", seconds=60.0)))
    with anyio.fail_after(100):
        await fault_of(probe("command", **shell("true", seconds=60.0)))
    await fault_of(probe("command", **shell("true")))
    assert fault.output == "so far"
    assert 19 < orders[0].bounds.seconds < 19.81
    assert [order.bounds.seconds for order in orders[1:]] == [60.0, 10.0]


async def test_a_check_that_waits_for_others_until_its_time_is_over_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guideway.interpreter.children.run.AT_ONCE", 1)

    async def first() -> None:
        await fault_of(probe("command", **shell("sleep 60", seconds=60.0)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await anyio.lowlevel.checkpoint()  # from here on it has the only place
        fault = await fault_of(probe("command", **shell("true", seconds=0.1)))
        tasks.cancel_scope.cancel()
    assert fault.reason is Reason.CANNOT_PROBE
    assert fault.message.startswith("the check was not started: ")
    assert fault.message.endswith(" others went on running")


@pytest.mark.parametrize(
    "wrong",
    [
        {"program": "check_disk"},
        {"program": "/bin/"},
        {"program": "/bin/sh\0"},
        {"program": "/bin/sh", "arguments": "-c true"},
        {"program": "/bin/sh", "arguments": ["a\0b"]},
        {"program": "/bin/sh", "arguments": ["x"] * 65},
        {"program": "/bin/sh", "environment": {"PATH": "/opt"}},
        {"program": "/bin/sh", "environment": {"A=B": "1"}},
        {"program": "/bin/sh", "user": "-root"},
        *({"program": "/bin/sh", name: type(LEAST[name])(most + 1)} for name, most in MOST.items()),
        *({"program": "/bin/sh", name: type(least)(least - 1)} for name, least in LEAST.items()),
    ],
    ids=str,
)
def test_what_cannot_be_configured(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PROBES["command"].model_validate(wrong)

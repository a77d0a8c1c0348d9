"""What is kept soon, and is lost: the log names it, and has nothing of what it holds."""

import logging

import pytest

from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.repeats import Call
from guideway.interpreter.store import open_store, soon
from tests.store.questions import ASKER

pytestmark = pytest.mark.anyio


def call(number: int) -> Call:
    who = ASKER.issuer, ASKER.subject, ""
    return Call(*who, f"key-hunter2-{number}", "d" * 64, f"run-{number}", 60.0, 900.0)


async def test_of_results_and_notices_that_are_lost_the_log_has_their_ids_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soon, "PAUSE", 3_600)
    monkeypatch.setattr(soon, "NAMED", 2)
    store, _ = open_store(url="postgresql://nobody@127.0.0.1:1/none")
    for number in range(3):
        await store.repeats.end(call(number), {"steps": [{"untrusted_output": "hunter2"}]})
    store.outbox.enqueue({"event": "review", "run_id": "run-9", "program": "hunter2"})
    await store.close()
    lost = [record.getMessage() for record in caplog.records if "were lost" in record.getMessage()]
    assert lost[0].startswith("1 notices were lost: ")
    assert lost[0].endswith(": review of run-9")
    assert lost[1].startswith("3 results of calls were lost: ")
    assert lost[1].endswith(": run run-0, run run-1 and 1 more")
    store.outbox.enqueue({"event": "review", "run_id": "run-10", "program": "hunter2"})
    assert "1 notices were lost: the store is closed: review of run-10" in caplog.text
    assert "hunter2" not in caplog.text


def test_of_too_many_the_oldest_are_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soon, "PAUSE", 3_600)
    monkeypatch.setattr(soon, "MOST", 2)
    away, kept = [True], list[str]()

    def write(items: object) -> None:
        if away:
            raise StoreUnavailable("it is away")
        kept.extend(map(str, items))  # type: ignore[call-overload]

    queue: soon.Soon[str] = soon.Soon("words", write, name=lambda word: word[:1])
    queue.put(["one", "two", "three"])
    with pytest.raises(StoreUnavailable):
        queue.flush()
    away.clear()
    queue.close()
    assert kept == ["two", "three"]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        "1 words were lost: the store cannot be used, and too many wait: o"
    ]

"""Logs for whatever gathers them: one object of JSON a record, and nobody's words make a second one."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guideway.interpreter.weighing import Asked
from guideway.server.cli.console import Console
from guideway.server.cli.logs import JsonFormatter, correlate, log_from, show_log, teller
from guideway.server.run_log import log_run, log_scopes_missing
from tests.server.approvals.world import ASKER, World

pytestmark = pytest.mark.anyio
HOSTILE = 'x"}\n{"level": "error", "message": "the store is gone"}\r\u2028\x1b[2J' + "y" * 400


@contextmanager
def logging_to(stream: io.StringIO, form: Any) -> Iterator[None]:
    """Log as the command does, to a stream, whatever pytest has set up."""
    root, own = logging.getLogger(), logging.getLogger("guideway")
    kept, levels = root.handlers[:], (root.level, own.level)
    root.handlers[:] = []
    try:
        with redirect_stderr(stream):
            show_log()
            log_from("info", form)
            yield
    finally:
        root.handlers[:] = kept
        root.setLevel(levels[0])
        own.setLevel(levels[1])


async def test_a_run_is_one_object_with_its_fields_whatever_its_caller_is_called() -> None:
    stream, world = io.StringIO(), World()
    asker = replace(ASKER, subject=HOSTILE, tenant=ASKER.tenant)
    with logging_to(stream, "json"):
        refused = await world.pipeline.run('RESTART "database"', asker)
        log_run(refused, asker)
        ran = await world.pipeline.run('PING "api.internal"', asker)
        log_run(ran, asker, HOSTILE)
        log_scopes_missing(asker, frozenset())
    assert len(stream.getvalue().split("\n")) == 4
    assert stream.getvalue().isascii()
    first, second, third = (json.loads(line) for line in stream.getvalue().splitlines())
    [ticket] = world.records.kept
    who = {"subject": HOSTILE[:120] + "…", "issuer": asker.issuer, "tenant": asker.tenant, "client": asker.client}
    for said in (first, second, third):
        assert {name: said[name] for name in who} == who
        assert (said["level"], said["logger"]) == ("info", "guideway.server.run_log")
        assert datetime.now(UTC) - datetime.fromisoformat(said["time"]) < timedelta(minutes=1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["time"])
    assert (first["status"], first["refusal"], first["ticket"]) == ("refused", "approval_required", ticket)
    assert (second["status"], second["refusal"], second["steps"]) == ("completed", None, 1)
    assert second["run_id"] == ran.run_id
    assert second["seconds"] == ran.seconds
    assert second["ticket"] == HOSTILE[:120] + "…"
    assert first["message"].startswith(f"run {refused.run_id}: refused (approval_required), 0 steps")
    assert third["refusal"] == "insufficient_scope"


async def test_a_ticket_leads_from_its_use_to_its_run() -> None:
    stream, world = io.StringIO(), World()
    with logging_to(stream, "json"):
        report = await world.pipeline.run('RESTART "database"', ASKER, asked=Asked("0" * 32))
        log_run(report, ASKER, "0" * 32)
    said = json.loads(stream.getvalue())
    assert (said["ticket"], said["run_id"], said["status"]) == ("0" * 32, report.run_id, "refused")


def fail() -> None:
    raise ValueError(HOSTILE)


def test_a_record_of_any_library_is_an_object_and_an_error_has_its_traceback() -> None:
    stream = io.StringIO()
    with logging_to(stream, "json"):
        logging.getLogger("uvicorn.error").info("not shown: below warning")
        try:
            fail()
        except ValueError:
            logging.getLogger("uvicorn.error").exception("went wrong: %s", HOSTILE)
        logging.getLogger("guideway.x").warning("forged", extra={"fields": {"level": "debug", "message": "", "n": 1}})
    one, two = (json.loads(line) for line in stream.getvalue().splitlines())
    assert one["message"] == f"went wrong: {HOSTILE}"
    assert one["exception"].startswith("Traceback")
    assert HOSTILE in one["exception"]
    assert (two["level"], two["message"], two["n"]) == ("warning", "forged", 1)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_span_is_named_in_the_records_that_are_made_within_it(form: str) -> None:
    def add(record: logging.LogRecord) -> bool:
        record.trace_id, record.span_id = "a" * 32, "b" * 16
        return True

    stream = io.StringIO()
    with logging_to(stream, form):
        correlate(add)
        logging.getLogger("guideway.x").info("two\nlines")
    if form == "text":
        assert stream.getvalue() == f"INFO guideway.x: two trace_id={'a' * 32}\n  lines\n"
    else:
        said = json.loads(stream.getvalue())
        assert (said["trace_id"], said["span_id"]) == ("a" * 32, "b" * 16)


def test_what_a_command_tells_is_an_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    teller(Console("never", error=True), "json", "guideway.server.cli.serve")(HOSTILE)
    teller(Console("never", error=True), "text", "guideway.server.cli.serve")("serving\nno forged line")
    one, two, end = capsys.readouterr().err.split("\n")
    assert json.loads(one)["message"] == HOSTILE
    assert (two, end) == ("serving no forged line", "")


def test_a_formatter_does_not_fail_on_what_is_no_json() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", ({1},), None)
    record.fields = {"path": sys}
    assert json.loads(JsonFormatter().format(record))["path"].startswith("<module")

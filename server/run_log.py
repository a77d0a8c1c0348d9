"""What the log says of runs: one line each, with who asked and how it ended, and never a program's text.

A subject, a tenant and a client are an issuer's words: each is cut, and quoted so that none can pass for another field.
"""

import json
import logging
from typing import Final

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report

_log: Final = logging.getLogger(__name__)
_MOST: Final = 120  # characters of a field


def log_run(report: Report, caller: Principal) -> None:
    """Log that a run has ended, or that its program was refused."""
    if not _log.isEnabledFor(logging.INFO):
        return
    status = report.status.value
    if report.refusal is not None:
        status += f" ({report.refusal.code.value})"
    _log.info("run %s: %s, %d steps, %.3f s; %s", report.run_id, status, len(report.steps), report.seconds, who(caller))


def log_scopes_missing(caller: Principal, required: frozenset[Scope]) -> None:
    """Log that a program was not run because the token of its caller has too few scopes, which is how it was told."""
    _log.info("no run: insufficient_scope, %s is needed; %s", scope_list(required), who(caller))


def log_not_let_in(caller: Principal, any_of: frozenset[Scope]) -> None:
    """Log that a request got no further than its path, because its token has none of the scopes that lead there."""
    needed = "a diagnostic scope" if any_of == PROGRAM_SCOPES else scope_list(any_of)
    _log.info("not let in: insufficient_scope, %s is needed; %s", needed, who(caller))


def who(caller: Principal) -> str:
    """Return a caller in one line."""
    fields = {"subject": caller.subject, "issuer": caller.issuer, "tenant": caller.tenant, "client": caller.client}
    return " ".join(f"{name}={'-' if value is None else _field(value)}" for name, value in fields.items())


def _field(text: str) -> str:
    return json.dumps(text if len(text) <= _MOST else f"{text[:_MOST]}…")

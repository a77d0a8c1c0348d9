"""A report in its machine form, as a server sent it or a store kept it, read strictly into the values of a run here.

So one set of functions renders both. What cannot be read is an error; what is not known here is left out. Its texts are
somebody else's: whoever shows them cleans them, as they do with a service's.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guideway.dsl.analysis import WorstCase
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.scopes import known_scopes
from guideway.dsl.source import Source, Span
from guideway.interpreter.results import Containment, Report, Status, Step


class UnreadableReport(ValueError):  # noqa: N818  # a report that is one, and cannot be read
    """What a server sent is not a report that this version can read."""


class _Received(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Diagnostic(_Received):
    code: Code
    message: str
    span: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
    expected: tuple[str, ...] = ()
    help: str | None = None

    def diagnostic(self) -> Diagnostic:
        return Diagnostic(self.code, self.message, Span(*self.span), self.expected, self.help)


class _Refusal(_Received):
    diagnostics: Annotated[tuple[_Diagnostic, ...], Field(min_length=1)]
    required_scopes: tuple[str, ...] = ()
    missing_scopes: tuple[str, ...] = ()

    def refusal(self, source: Source) -> Refusal:
        return Refusal(
            (each.diagnostic() for each in self.diagnostics),
            source,
            required_scopes=known_scopes(self.required_scopes),
            missing_scopes=known_scopes(self.missing_scopes),
        )


class _WorstCase(_Received):
    commands: dict[str, int]
    seconds: float


class _Report(_Received):
    run_id: str
    status: Status
    steps: tuple[Step, ...]
    containments: tuple[Containment, ...]
    worst_case: _WorstCase | None
    ran: dict[str, int]
    started: str
    seconds: float
    refusal: _Refusal | None
    replayed: bool = False


def read_report(document: dict[str, Any], source: Source) -> Report:
    """Return the report of a run of ``source``, by the form that ``Report.to_json`` gives.

    Raises ``UnreadableReport``.
    """
    try:
        found = _Report.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableReport(f"{where}: {first['msg'].lower()}") from None
    worst = found.worst_case
    return Report(
        run_id=found.run_id,
        status=found.status,
        steps=found.steps,
        containments=found.containments,
        worst_case=None if worst is None else WorstCase(worst.commands, {}, worst.seconds),
        ran=found.ran,
        started=found.started,
        seconds=found.seconds,
        refusal=None if found.refusal is None else found.refusal.refusal(source),
        replayed=found.replayed,
    )

"""What ``guideway doctor`` finds: one thing that was looked at, and how bad it is."""

from enum import StrEnum

from guideway.dsl.record import Record


class Grade(StrEnum):
    """How bad a finding is. ``note``: something that not everybody needs."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


class Finding(Record):
    """One thing that was looked at; ``mend`` says how to mend it, ``untrusted_output`` what a service itself said."""

    grade: Grade
    about: str
    message: str
    mend: str | None = None
    untrusted_output: str | None = None

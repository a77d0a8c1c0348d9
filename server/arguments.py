"""What a call of the tool carries, and what is told of arguments that are none."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guideway.dsl.errors import quoted
from guideway.interpreter.approvals import MOST_WORDS
from guideway.server.schema import CONFIRMATION, GLASS

_MOST_MISTAKES: Final = 5


class Arguments(BaseModel):
    """What a call carries. A program's size is the pipeline's business: its refusal says more than a schema can.

    ``confirmation_token`` is the id of a ticket: one that cannot be any is to the gate like any other that it does not
    know. ``break_glass`` is why the caller asks in spite of a freeze. Null is as if left out, for hosts that have a
    model fill in everything.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    program: str
    confirmation_token: str | None = Field(None, alias=CONFIRMATION)
    break_glass: Annotated[str, Field(pattern=r"\S", max_length=MOST_WORDS)] | None = Field(None, alias=GLASS)


def what_is_wrong(error: ValidationError) -> str:
    """Return what a model can mend. The names that it made up are its own text: quoted, cut, and a few of them."""
    errors = error.errors(include_input=False)
    found = [f"{quoted('.'.join(map(str, e['loc'])) or 'arguments')}: {e['msg']}" for e in errors[:_MOST_MISTAKES]]
    more = [f"{len(errors) - _MOST_MISTAKES} more"] if errors[_MOST_MISTAKES:] else []
    return (
        f'invalid arguments: {"; ".join(found + more)}\nthe argument is `program`, a string: {{"program": "..."}}; '
        f"beside it, `{CONFIRMATION}` for a ticket and `{GLASS}` for a reason, each where an answer asked for it"
    )

"""What the commands that speak to a server share: who sits at the terminal, and what failed, in the shell's terms."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from guideway.server.cli.command import Complaint, Exit
from guideway.server.cli.console import Console
from guideway.server.sign_in.browser import Person, has_browser
from guideway.server.sign_in.errors import ServerError, SignInError, theirs
from guideway.server.sign_in.servers import explain

_RIGHT: Final = "is this the URL of a Guideway server, with its path?"


def person(console: Console, *, browser: bool, pastes: bool) -> Person:
    """Return who reads ``console``; ``browser`` False where theirs is on another machine."""

    def tell(line: str) -> None:
        console.line(line)
        console.stream.flush()

    return Person(tell, opens=browser and has_browser(), pastes=pastes)


def complaint(error: SignInError, exit_code: Exit = Exit.USAGE, **details: Any) -> Complaint:
    """Return what went wrong as a complaint."""
    return Complaint(str(error), code=error.code, help=error.help, exit_code=exit_code, **details)


@contextmanager
def speaking_to(server: str) -> Iterator[None]:
    """Raise what fails while a server is spoken to as a ``SignInError``, whatever it comes wrapped in."""
    try:
        yield
    except (Exception, BaseExceptionGroup) as error:
        said = explain(error, server) or _of_the_protocol(error, server)
        if said is None:
            raise
        raise said from None


def _of_the_protocol(error: BaseException, server: str) -> SignInError | None:
    match error:
        case BaseExceptionGroup():
            found = [said for one in error.exceptions if (said := _of_the_protocol(one, server)) is not None]
            return found[0] if found else None
        case MCPError(code=code) if code == CONNECTION_CLOSED:
            return ServerError(f"the connection to `{server}` broke: {theirs(error)}")
        case MCPError():
            return ServerError(f"`{server}` does not answer as Guideway does: {theirs(error)}", _RIGHT)
        case ValidationError():  # whose text would quote the answer
            return ServerError(f"`{server}` does not answer by the protocol", _RIGHT)
        case _:
            return None

"""How signing in fails, in words for a person. No text here holds a token, a code or a secret."""

from collections.abc import Iterable

from guideway.dsl.errors import printable


class SignInError(Exception):
    """Signing in, or what a server or issuer says to it, went wrong; ``help`` says what to do.

    ``code`` is stable: ``sign_in``, ``usage``, ``not_signed_in``, ``insufficient_scope``, ``server`` or ``storage``.
    """

    code = "sign_in"

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002  # the word that diagnostics use
        super().__init__(message)
        self.help = help


class WrongUsageError(SignInError):
    """What a person asked for cannot be."""

    code = "usage"


class DeclinedError(SignInError):
    """The issuer, or the person who was asked, grants nothing of what was asked for."""


class StorageError(SignInError):
    """Tokens cannot be kept, or what is kept is not to be trusted."""

    code = "storage"


class ServerError(SignInError):
    """A server or an issuer cannot be reached, or does not answer as one."""

    code = "server"


class NotSignedInError(SignInError):
    """The server asks who is there, and nobody can be asked to sign in."""

    code = "not_signed_in"


class ScopesMissingError(SignInError):
    """The token's scopes are not enough. ``required`` and ``missing`` are as the server names them."""

    code = "insufficient_scope"

    def __init__(
        self,
        message: str,
        help: str | None = None,  # noqa: A002
        *,
        required: Iterable[str] = (),
        missing: Iterable[str] = (),
    ) -> None:
        super().__init__(message, help)
        self.required = tuple(required)
        self.missing = tuple(missing)


def theirs(text: object, most: int = 200) -> str:
    """Return a text of a server or an issuer for a message: one line, printable, and cut where it is long."""
    line = printable(" ".join(str(text).split()))
    return line if len(line) <= most else f"{line[:most]}…"

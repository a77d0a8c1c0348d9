"""The operating system's own errors behind a library's exception."""

from collections.abc import Iterator


def os_errors(error: BaseException | None) -> Iterator[OSError]:
    """Yield every ``OSError`` with a number behind an exception, through groups, the outermost first."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from os_errors(member)
        if isinstance(error, OSError) and error.errno is not None:
            yield error
        error = error.__cause__ or error.__context__

"""What commands do with the development issuer: run it beside a server, or say why there is none."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskStatus

from guideway.interpreter.extras import install
from guideway.server import wiring
from guideway.server.cli.command import Complaint
from guideway.server.config import Config
from guideway.server.config_errors import suggestion
from guideway.server.development_issuer.folder import StateError
from guideway.server.oauth.access import Access
from guideway.server.sections import DevelopmentIssuerSection, IssuerSection

_EXTRA: Final = frozenset({"authlib"})


def development_issuer(config: Config) -> DevelopmentIssuerSection:
    """Return the section of the development issuer. Raises ``Complaint`` where there is none."""
    if config.development_issuer is not None:
        return config.development_issuer
    if config.issuers:
        raise Complaint(
            "only the development issuer's tokens can be made here, and the configuration has none",
            help=f"ask the issuer itself: {', '.join(section.issuer for section in config.issuers.values())}",
        )
    raise Complaint(
        "the configuration has no [development_issuer]", help="docs/configuration.md says what it is and what it needs"
    )


def known_person(section: DevelopmentIssuerSection, name: str) -> str:
    """Return a person's name. Raises ``Complaint`` for nobody's."""
    if name not in section.people:
        raise Complaint(
            f"`{name}` is not one of `people` in [development_issuer]", help=suggestion(name, section.people)
        )
    return name


@contextmanager
def issuer_complaints() -> Iterator[None]:
    """Raise ``Complaint`` where the issuer's packages are missing or its state folder cannot be used."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        raise Complaint(
            f"the development issuer needs `{package}`, which is not installed",
            help=install("issuer"),
        ) from None
    except StateError as error:
        raise Complaint(f"the development issuer cannot start: {error}", code="file", help=error.help) from None


@asynccontextmanager
async def running_issuer(
    section: DevelopmentIssuerSection, *, resource: str, sign_in_code: str
) -> AsyncIterator[IssuerSection]:
    """Run the issuer for a server, and yield how that trusts it: as any other issuer, by what it publishes.

    Raises ``Complaint``, in a group as task groups do. Both have one clock, so there is no leeway.
    """
    async with anyio.create_task_group() as tasks:
        url = await tasks.start(partial(_run, section, resource, sign_in_code))
        yield IssuerSection(issuer=url, algorithms=frozenset({"ES256"}), leeway_seconds=0)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def tokens_let_in(config: Config, resource: str, *, sign_in_code: str) -> AsyncIterator[Access]:
    """Open the way in for tokens of every issuer of a configuration; the development issuer runs for as long.

    Its section is the last one. Raises ``Complaint``, in a group as task groups do.
    """
    async with AsyncExitStack() as stack:
        development = None
        if config.development_issuer is not None:
            running = running_issuer(config.development_issuer, resource=resource, sign_in_code=sign_in_code)
            development = await stack.enter_async_context(running)
        yield await stack.enter_async_context(wiring.access(config, resource, development=development))


async def _run(
    section: DevelopmentIssuerSection, resource: str, sign_in_code: str, *, task_status: TaskStatus[str]
) -> None:
    with issuer_complaints():
        from guideway.server.development_issuer.serving import serve  # noqa: PLC0415  # its packages are an extra

        try:
            await serve(section, resource=resource, sign_in_code=sign_in_code, task_status=task_status)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise Complaint(
                f"the development issuer cannot listen on port {section.port}: {reason}",
                help="name another `port` in [development_issuer]",
            ) from None
        except ValueError as error:
            raise Complaint(str(error)) from None

"""What commands say of the development issuer: that there is none, or that packages or its folder are missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from guideway.server.cli.command import Complaint
from guideway.server.config import Config
from guideway.server.config_errors import suggestion
from guideway.server.development_issuer.folder import StateError
from guideway.server.sections import DevelopmentIssuerSection

_EXTRA: Final = frozenset({"authlib", "sqlalchemy"})


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
            help="pip install 'guideway[issuer]'",
        ) from None
    except StateError as error:
        raise Complaint(f"the development issuer cannot start: {error}", code="file", help=error.help) from None

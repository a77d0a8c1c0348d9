"""The webhooks of a configuration: their addresses and secrets are read here, by whoever delivers and nobody else."""

import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import anyio

from guideway.interpreter.notices import Event, Outbox
from guideway.interpreter.secret import read_secret
from guideway.server.approvals.paths import PAGE
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import FILE_NAME
from guideway.server.door_watch import DoorWatch
from guideway.server.risk_sections import WebhookSection
from guideway.server.section import is_loopback
from guideway.server.webhooks.courier import Courier
from guideway.server.webhooks.webhook import Webhook, key_of

_log: Final = logging.getLogger(__name__)

_LEAVING_SECONDS: Final = 2.0


def configured(config: Config) -> list[Webhook]:
    """Return the webhooks. Raises ``ConfigError`` where a file or a variable that one names cannot be used."""
    found, problems = list[Webhook](), list[Problem]()
    for name, section in config.approvals.webhooks.items():
        try:
            found.append(_webhook(name, section))
        except ValueError as error:
            problems.append(Problem(f"[approvals.webhooks.{name}]: {error}"))
    if problems:
        raise ConfigError(config.path or Path(FILE_NAME), problems)
    return found


def courier_of(
    config: Config, outbox: Outbox, endpoint: Callable[[], str | None], watch: DoorWatch | None = None
) -> Courier:
    """Return what delivers. ``endpoint`` gives the endpoint's URL as clients know it, None where there is none yet.

    ``watch`` is told what became of each attempt. Raises ``ConfigError``.
    """
    has_page = config.approvals.client_id is not None or config.development_issuer is not None

    def page(ticket: str) -> str | None:
        at = endpoint()
        return urljoin(at, f"{PAGE.lstrip('/')}/{ticket}") if at is not None and has_page else None

    return Courier(outbox, configured(config), page, watch=watch)


async def deliver_on_leaving(config: Config, outbox: Outbox | None) -> None:
    """Deliver what a command leaves, for a moment; the rest is a server's. What goes wrong is logged, never raised.

    Who runs a command may not be allowed to read what the server signs with.
    """
    if outbox is None:
        return
    try:
        courier = courier_of(config, outbox, lambda: config.server.url)
    except ConfigError as error:
        _log.warning("who is to be told is left for a server to tell: %s", error)
        return
    with anyio.CancelScope(shield=True):
        await courier.run_for(_LEAVING_SECONDS)


def _webhook(name: str, section: WebhookSection) -> Webhook:
    key: bytes | None = None
    if section.secret_file is not None or section.secret_env is not None:
        with _named("secret_file" if section.secret_file is not None else "secret_env"):
            key = key_of(read_secret(section.secret_file, section.secret_env))
    return Webhook(
        name,
        section.url or _secret_url(section),
        section.format,
        key,
        frozenset(Event(event) for event in section.events),
        None if section.ca_file is None else _trusting(section.ca_file),
    )


def _secret_url(section: WebhookSection) -> str:
    """Return a URL that is a secret: no part of it gets into a message."""
    with _named("url_file" if section.url_file is not None else "url_env"):
        url = read_secret(section.url_file, section.url_env)
        parts = urlsplit(url)
        host = parts.hostname or ""
        private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
        if not (private and host and url.isascii() and " " not in url and "#" not in url and "@" not in parts.netloc):
            raise ValueError("holds no https URL without user or password")
    return url


def _trusting(file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # ssl.SSLError is one
        what = "holds no certificates in PEM" if isinstance(error, ssl.SSLError) else "cannot be read"
        raise ValueError(f"what `ca_file` names {what}") from None


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Say of which key a ``ValueError`` is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"what `{key}` names {error}") from None

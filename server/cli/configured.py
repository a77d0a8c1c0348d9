"""What the commands that read the configuration begin with. Slow to load: ``check`` and ``fmt`` do without."""

import argparse
from pathlib import Path

from guideway.interpreter.principal import Principal
from guideway.server import wiring
from guideway.server.audit_keeping import keeping
from guideway.server.cli.command import Complaint
from guideway.server.cli.logs import show_log
from guideway.server.config import Config, load
from guideway.server.config_errors import ConfigError, Problem, suggestion
from guideway.server.config_file import FILE_NAME, find
from guideway.server.tls import Tls, TlsError


def read_config(options: argparse.Namespace) -> Config:
    """Return the configuration that the options and the environment choose. Raises ``Complaint``.

    Lets the log be seen from here on: what the configuration names may have something to say.
    """
    show_log()
    try:
        return load(find(options.config))
    except ConfigError as error:
        raise complaint(error) from None


def read_tls(config: Config) -> Tls | None:
    """Return the TLS that the configuration asks for. Raises ``Complaint``."""
    if config.server.tls is None or config.path is None:
        return None
    try:
        return Tls(config.server.tls)
    except TlsError as error:
        raise complaint(ConfigError(config.path, error.problems)) from None


def require_audit(config: Config) -> None:
    """Raise ``Complaint`` where the audit trail cannot be kept as the configuration says: nothing would be let through.

    Others look: they say what is wrong, and do without.
    """
    try:
        keeping(config.audit)
    except ValueError as error:
        raise complaint(ConfigError(config.path or Path(FILE_NAME), [Problem(str(error))])) from None


def complaint(error: ConfigError) -> Complaint:
    """Return what is said of a configuration that cannot be used."""
    problems = [problem.to_json() for problem in error.problems]
    return Complaint(str(error), code="configuration", file=str(error.file), problems=problems)


def read_caller(options: argparse.Namespace, config: Config) -> Principal:
    """Return the caller that the options choose. Raises ``Complaint``."""
    try:
        return wiring.caller(config, options.caller)
    except KeyError:
        where = f"in {config.path}" if config.path else "because there is no configuration"
        raise Complaint(
            f"there is no caller `{options.caller}` {where}", help=suggestion(options.caller, config.callers)
        ) from None


def explain_nobody(config: Config, principal: Principal) -> str | None:
    """Say why a caller without scopes has none, and how that is changed; None for one who has some."""
    if principal.scopes:
        return None
    if config.path is None:
        return "no guideway.toml was found, so that this caller has no scopes; see docs/configuration.md"
    if principal is wiring.NOBODY:
        return f"{config.path} names no `caller`, and --as was not given, so that this caller has no scopes"
    return f"{config.path} gives caller `{principal.subject}` no scopes"

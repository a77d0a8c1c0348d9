"""What ``guideway doctor`` finds of restarts: what always asks a person, who has nobody to ask, and the store."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from guideway.dsl.ast import Restart
from guideway.dsl.scopes import Scope
from guideway.interpreter.extras import install
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.risk import Tier
from guideway.interpreter.store.folder import private_folder
from guideway.server import wiring
from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.policy import Policy
from guideway.server.sections import ServiceSection
from guideway.server.state import NoStateError
from guideway.server.stores import is_shared, store_folder, store_url

_MOST_NAMES = 5
_CONNECT_SECONDS = 5


def look_at_risk(config: Config) -> Iterator[Finding]:
    """Look at what is configured of restarts. Changes nothing, and makes no store."""
    restartable = {
        name: entry.common
        for _, owned in config.entries()
        for name, entry in owned.every_service().items()
        if entry.common.restartable
    }
    if restartable:
        yield from _unstated(restartable)
        yield from _nobody(config, restartable)
        yield _store(config)


def _unstated(services: dict[str, ServiceSection]) -> Iterator[Finding]:
    unstated = [name for name, common in services.items() if common.impact is None and common.reversibility is None]
    if unstated:
        yield Finding(
            Grade.NOTE,
            "risk",
            f"neither `impact` nor `reversibility` is stated, so that each restart asks a person: {_listed(unstated)}",
            "state them in [services.NAME]; docs/approvals.md says what they mean",
        )


def _nobody(config: Config, services: dict[str, ServiceSection]) -> Iterator[Finding]:
    """Look at whether those who may restart can ask anybody, where that may be needed."""
    asks = [
        name for name, common in services.items() if common.risk().effective(Restart).tier is Tier.APPROVAL_REQUIRED
    ]
    may = [name for name, common in services.items() if common.risk().limits.bounds or name in asks]
    policy = Policy(config)
    alone = [
        name
        for name, section in config.callers.items()
        if Scope.WRITE in section.scopes and not policy.can_ask(wiring.caller(config, name))
    ]
    if may and alone:
        what = f"a restart of {_listed(asks)} needs a person" if asks else "beyond a quota a restart needs a person"
        yield Finding(
            Grade.WRONG if asks else Grade.NOTE,
            "approvals",
            f"{what}, and nobody can approve what {_listed(alone)} may ask for",
            "give another caller of the same tenant the scope mcp:diag:approve, or trust an issuer",
        )


def _store(config: Config) -> Finding:
    """Look at whether the store can be used, without making one."""
    mend = "name a `folder` in [store], or a database with `url_file` or `url_env`"
    try:
        if is_shared(config):
            _connect(store_url(config))
            return Finding(Grade.OK, "store", "the database of tickets, quotas and locks answers")
        folder = store_folder(config)
        _require_usable(folder)
    except NoStateError as error:
        return Finding(Grade.WRONG, "store", f"nothing can be restarted: {error}", f"{error.help}; or {mend}")
    except (StoreUnavailable, ValueError) as error:
        return Finding(Grade.WRONG, "store", f"nothing can be restarted: {error}", mend)
    return Finding(Grade.OK, "store", f"tickets, quotas and locks are kept in {folder}")


def _require_usable(folder: Path) -> None:
    """Raise ``StoreUnavailable`` where a folder cannot be used, or not be made."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if there == folder:
        private_folder(folder)
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        raise StoreUnavailable(f"this user cannot write in `{there}`")


def _connect(url: str) -> None:
    """Raise ``ValueError`` where a database does not let this process in; no password gets into it."""
    import sqlalchemy as sa  # noqa: PLC0415  # only where a database is configured

    try:
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise ValueError(f"its database needs the package psycopg: {install('postgres')}") from None
    try:
        parsed = sa.make_url(url)
        parts = parsed.translate_connect_args(username="user", database="dbname") | dict(parsed.query)
        psycopg.connect(**{**parts, "connect_timeout": _CONNECT_SECONDS}).close()
    except sa.exc.ArgumentError:
        raise ValueError("its URL is none: postgresql://USER:PASSWORD@HOST/DATABASE") from None
    except psycopg.Error as error:
        raise ValueError(
            f"its database cannot be used: {(str(error).splitlines() or [type(error).__name__])[0].lower()}"
        ) from None


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + more

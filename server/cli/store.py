"""``guideway store``: which tables the store has, and how one of an older release is brought to this one's."""

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from guideway.interpreter.records import StoreUnavailable
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.configured import read_config
from guideway.server.cli.console import GREEN, YELLOW, Console, write_json
from guideway.server.config import Config
from guideway.server.state import NoStateError
from guideway.server.stores import is_shared, store_folder, store_url

if TYPE_CHECKING:
    from guideway.interpreter.store.database import Database


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("status", "upgrade"), help="what to do")
    parser.add_argument("--config", metavar="PATH", help="the configuration file; see docs/configuration.md")


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    with _complaints():
        return _status(options, config) if options.action == "status" else _upgrade(options, config)


@contextmanager
def _complaints() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise Complaint(str(error), code="store") from None
    except NoStateError as error:
        raise Complaint(str(error), code="store", help=f"{error.help}, or name a `folder` in [store]") from None
    except ValueError as error:  # the secret that [store] names
        raise Complaint(str(error), code="configuration") from None


def _look(config: Config) -> "Database | None":
    """Return the store as it is, None where there is no folder with one yet."""
    from guideway.interpreter.store import database  # noqa: PLC0415  # the database is slow to load

    if is_shared(config):
        return database.look_at_postgresql(store_url(config))
    return database.look_at_sqlite(store_folder(config))


def _status(options: argparse.Namespace, config: Config) -> int:
    from guideway.interpreter.store.tables import SCHEMA_VERSION  # noqa: PLC0415

    looked = _look(config)
    found, place = None, "the store"
    if looked is not None:
        with closing(looked) as opened:
            place, found = opened.place, opened.schema_version()
    elif not is_shared(config):
        place = f"the store in `{store_folder(config)}`"
    if found is None:
        state, words, colour = "none", "is made by the first program that needs it", GREEN
    elif found == SCHEMA_VERSION:
        state, words, colour = "current", f"has schema version {found}, this release's", GREEN
    elif found > SCHEMA_VERSION:
        state, colour = "newer", YELLOW
        words = f"has schema version {found}, and this release knows {SCHEMA_VERSION}: run the newer release"
    else:
        state, colour = "older", YELLOW
        words = f"has schema version {found}, and this release needs {SCHEMA_VERSION}: guideway store upgrade"
    if options.json:
        write_json({"store": place, "state": state, "schema_version": found, "known": SCHEMA_VERSION})
    else:
        Console().line((f"{state}: ", colour), f"{place} {words}")
    return Exit.OK if state in ("none", "current") else Exit.FAILED


def _upgrade(options: argparse.Namespace, config: Config) -> int:
    from guideway.interpreter.store import database  # noqa: PLC0415
    from guideway.interpreter.store.tables import SCHEMA_VERSION  # noqa: PLC0415

    looked = _look(config)
    before = None
    if looked is not None:
        with closing(looked) as opened:
            before = opened.schema_version()
    if is_shared(config):
        upgraded = database.open_postgresql(store_url(config), upgrade=True)
    else:
        upgraded = database.open_sqlite(store_folder(config))
    with closing(upgraded) as opened:
        place = opened.place
    if options.json:
        write_json({"store": place, "before": before, "schema_version": SCHEMA_VERSION})
        return Exit.OK
    words = (
        f"was made, with schema version {SCHEMA_VERSION}"
        if before is None
        else f"has schema version {before} already"
        if before == SCHEMA_VERSION
        else f"was brought from schema version {before} to {SCHEMA_VERSION}"
    )
    Console().line(f"{place} {words}")
    return Exit.OK


COMMAND = Command(
    summary="say which tables the store has, or upgrade it",
    description="Say whether the store has the tables that this release knows (status), or bring one of an\n"
    "older release to them (upgrade). In a folder the first program that needs it does that by\n"
    "itself, with a copy beside it; a database that replicas share waits for this command.",
    examples=("guideway store status", "guideway store upgrade"),
    exits=((Exit.OK, "the store is this release's, or there is none yet"), (Exit.FAILED, "status: it is another's")),
    arguments=_arguments,
    run=_run,
)

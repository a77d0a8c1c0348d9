"""What the configuration says of how long restarts take: one that could never be ok is a mistake, found beforehand.

Owns what the times of a service, and those of ``[deadlines]``, say of each other.
"""

from collections.abc import Iterator, Mapping

from guideway.interpreter.service import watched_seconds
from guideway.server import toml_places
from guideway.server.entries import Entries, ServiceEntry, ServicePatternEntry
from guideway.server.sections import DeadlinesSection, ServiceSection
from guideway.server.table_reader import TableReader


def check_restart_times(
    reader: TableReader, deadlines: DeadlinesSection, shared: Entries, own: Mapping[str, Entries]
) -> None:
    """Note each service that would have to stay well for as long as its restart is watched, or longer."""
    for path, entry in _services(shared, own):
        if entry.common.restartable:
            _check(reader, deadlines, path, entry.common)


def _services(
    shared: Entries, own: Mapping[str, Entries]
) -> Iterator[tuple[toml_places.Path, ServiceEntry | ServicePatternEntry]]:
    for name, entry in shared.every_service().items():
        yield ("services", name), entry
    for tenant, entries in own.items():
        for name, entry in entries.every_service().items():
            yield ("tenants", tenant, "services", name), entry


def _check(reader: TableReader, deadlines: DeadlinesSection, path: toml_places.Path, common: ServiceSection) -> None:
    given, key, where = deadlines.restart, "[deadlines] `restart`", path
    if common.restart_seconds is not None:
        given, key, where = common.restart_seconds, "`restart_seconds`", (*path, "restart_seconds")
    if deadlines.pipeline < given:
        given, key, where = deadlines.pipeline, "[deadlines] `pipeline`", path
    watched = watched_seconds(given)
    if common.settle_seconds < watched:
        return
    if "settle_seconds" in common.model_fields_set:
        why = f"lets no restart be ok: one is watched for {watched:g} s, because {key} is {given:g}"
        reader.say((*path, "settle_seconds"), why, f"say less than {watched:g}, or give {key} more")
    else:
        settle = f"`settle_seconds`, by default {common.settle_seconds:g}"
        why = f"lets no restart be ok: {key} is {given:g}, and one has to stay well for {settle}"
        reader.say(where, why, f"give {key} more, or say a smaller `settle_seconds`")

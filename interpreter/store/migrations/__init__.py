"""What an older store goes through: Alembic's migrations, each a version of the schema. Loaded where one is changed.

The store's own ``schema_version`` says which of them it has seen, so that opening one that is current asks nothing of
Alembic, and one that was made at once has no table of Alembic's. That table is set anew before each change.
"""

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from guideway.interpreter.records import StoreUnavailable

VERSION_TABLE: Final = "guideway_migrations"


def upgrade(connection: sa.Connection, found: int | None) -> None:
    """Bring tables of an older version, or none, to the newest one, in the connection's transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":  # what changes a large table takes its time, and others wait for it
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
    try:
        command.stamp(config, "base" if found is None else f"{found:04}", purge=True)
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(
            f"the store cannot be brought from schema version {found} to this release's: {error}"
        ) from error

"""What Alembic runs to change a store: in the transaction that it is given, and nowhere else."""

from alembic import context

from guideway.interpreter.store.migrations import VERSION_TABLE
from guideway.interpreter.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()

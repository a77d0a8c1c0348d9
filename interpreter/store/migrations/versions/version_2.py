"""Version 2: the audit trail, restarts that are recorded from their beginning, repeated calls, and DPoP proofs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COUNTED = """
UPDATE guideway_mutations SET key = '', number = counted.place
FROM (
    SELECT id, row_number() OVER (PARTITION BY run_id ORDER BY started_at, id) AS place FROM guideway_mutations
) AS counted
WHERE counted.id = guideway_mutations.id
"""


def upgrade() -> None:
    """Bring tables of version 1 to version 2."""
    is_postgresql = op.get_context().dialect.name == "postgresql"
    op.add_column("guideway_mutations", sa.Column("key", sa.Text))
    op.add_column("guideway_mutations", sa.Column("number", sa.Integer))
    op.add_column("guideway_mutations", sa.Column("until", sa.Double))
    op.execute(_COUNTED)
    op.execute("UPDATE guideway_mutations SET outcome = 'unknown' WHERE outcome IS NULL AND ended_at IS NULL")
    with op.batch_alter_table("guideway_mutations") as table:  # SQLite makes it anew
        table.alter_column("key", existing_type=sa.Text(), nullable=False)
        table.alter_column("number", existing_type=sa.Integer(), nullable=False)
    if is_postgresql:  # in SQLite these have 64 bits
        for name in ("guideway_mutations", "guideway_notices"):
            op.alter_column(name, "id", type_=sa.BigInteger(), existing_type=sa.Integer(), existing_nullable=False)
            op.execute(f"ALTER SEQUENCE {name}_id_seq AS bigint")
    op.create_table(
        "guideway_trail",
        sa.Column("trail", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text),
        sa.Column("subject", sa.Text),
    )
    op.create_table(
        "guideway_trails",
        sa.Column("trail", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("seal", sa.Text),
        sa.Column("sealed_at", sa.Double),
        sa.Column("checkpoint_seq", sa.BigInteger, nullable=False),
        sa.Column("checkpoint_at", sa.Double, nullable=False),
    )
    op.create_table(
        "guideway_checkpoints",
        sa.Column("trail", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "guideway_calls",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("began_at", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("result", sa.JSON),
    )
    op.create_table(
        "guideway_proofs",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    for table_name, *columns in (
        ("guideway_mutations", "until"),
        ("guideway_trail", "trail", "at"),
        ("guideway_trail", "run_id"),
        ("guideway_calls", "expires_at"),
        ("guideway_proofs", "expires_at"),
    ):
        op.create_index(f"ix_{table_name}_{'_'.join(columns)}", table_name, columns)
    op.create_index("ix_guideway_mutations_run_id_number", "guideway_mutations", ["run_id", "number"], unique=True)
    op.execute("UPDATE guideway_store SET schema_version = 2")

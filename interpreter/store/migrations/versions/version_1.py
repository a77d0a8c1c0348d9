"""Version 1: tickets, uses of quotas, history, notices, sessions and leases."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make what version 1 had."""
    op.create_table(
        "guideway_store",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
    )
    op.create_table(
        "guideway_tickets",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("client", sa.Text),
        sa.Column("tenant", sa.Text),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("program", sa.Text, nullable=False),
        sa.Column("causes", sa.JSON, nullable=False),
        sa.Column("worst_case", sa.JSON, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("client_says", sa.Text),
        sa.Column("break_glass", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Double),
        sa.Column("decided_issuer", sa.Text),
        sa.Column("decided_subject", sa.Text),
        sa.Column("decided_client", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("used_at", sa.Double),
        sa.Column("run_id", sa.Text, unique=True),
        sa.Column("outcome", sa.Text),
    )
    op.create_table(
        "guideway_uses",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("until", sa.Double),
    )
    op.create_table(
        "guideway_mutations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("tenant", sa.Text),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("client", sa.Text),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("message", sa.Text),
    )
    op.create_table(
        "guideway_notices",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("webhook", sa.Text, nullable=False),
        sa.Column("event", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "guideway_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    op.create_table(
        "guideway_leases",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    for table, *columns in (
        ("guideway_tickets", "state", "expires_at"),
        ("guideway_tickets", "tenant", "created_at"),
        ("guideway_tickets", "created_at"),
        ("guideway_uses", "key", "at"),
        ("guideway_uses", "at"),
        ("guideway_mutations", "service", "started_at"),
        ("guideway_mutations", "started_at"),
        ("guideway_notices", "due_at"),
        ("guideway_sessions", "expires_at"),
        ("guideway_leases", "holder"),
    ):
        op.create_index(f"ix_{table}_{'_'.join(columns)}", table, columns)
    op.execute("INSERT INTO guideway_store (id, schema_version, seen) VALUES (1, 1, 0)")

"""The tables of the store, the same for SQLite and PostgreSQL. Times are in seconds since the epoch.

``SCHEMA_VERSION`` changes with them; what an older store has to go through then is in ``migrations``. The tables' names
begin alike, so that a PostgreSQL database may hold other things beside them.
"""

from typing import Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = 2

METADATA: Final = sa.MetaData(
    naming_convention={  # so that a migration can name what it changes
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Numbers that the database gives out: in SQLite only a column of this type has them, and it has 64 bits.
_NUMBER: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")

#: One row. ``seen`` is the latest time that any transaction was told.
STORE: Final = sa.Table(
    "guideway_store",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("seen", sa.Double, nullable=False),
)

TICKETS: Final = sa.Table(
    "guideway_tickets",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("issuer", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("client", sa.Text),
    sa.Column("tenant", sa.Text),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("program", sa.Text, nullable=False),
    sa.Column("causes", sa.JSON, nullable=False),
    sa.Column("worst_case", sa.JSON, nullable=False),  # [[keyword, name, times], …], a mutation's with its tier
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
    sa.Index(None, "state", "expires_at"),
    sa.Index(None, "tenant", "created_at"),
    sa.Index(None, "created_at"),
)

#: What runs did, or may still do, against allowances. ``until`` is None once a run has said what it did; before that
#: it counts as done now, and from ``until`` on as done then: so does what a process that died had reserved.
USES: Final = sa.Table(
    "guideway_uses",
    METADATA,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("times", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("until", sa.Double),
    sa.Index(None, "key", "at"),
    sa.Index(None, "at"),
)

#: What restarts did. ``until`` is None once one has ended: those that have not are found by it.
MUTATIONS: Final = sa.Table(
    "guideway_mutations",
    METADATA,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("tenant", sa.Text),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("issuer", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("client", sa.Text),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("until", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("outcome", sa.Text),
    sa.Column("message", sa.Text),
    sa.Index(None, "service", "started_at"),
    sa.Index(None, "started_at"),
    sa.Index(None, "until"),
    sa.Index(None, "run_id", "number", unique=True),
)

#: Notices on their way. ``due_at`` is when one may be claimed next, None where nobody tries any more.
NOTICES: Final = sa.Table(
    "guideway_notices",
    METADATA,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("webhook", sa.Text, nullable=False),
    sa.Column("event", sa.JSON, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double, index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sqlite_autoincrement=True,  # who was slow to deliver one must not mean a newer one by the same id
)

#: What the approval page keeps of those who are signed in, or on their way to it, by a digest of what they hold.
SESSIONS: Final = sa.Table(
    "guideway_sessions",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("content", sa.JSON, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
)

#: Who holds which place, by the clock of the database. ``holder`` is one hold of one process.
LEASES: Final = sa.Table(
    "guideway_leases",
    METADATA,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Index(None, "holder"),
)

#: The records of the audit trail (``audit.chain``); the installation's own has an empty name. Of a body's facts the
#: columns have what records are found by.
TRAIL: Final = sa.Table(
    "guideway_trail",
    METADATA,
    sa.Column("trail", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("subject", sa.Text),
    sa.Index(None, "trail", "at"),
    sa.Index(None, "run_id"),
)

#: Where each trail has come to: its last record, that sealed, and its last checkpoint.
TRAILS: Final = sa.Table(
    "guideway_trails",
    METADATA,
    sa.Column("trail", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("seal", sa.Text),
    sa.Column("sealed_at", sa.Double),
    sa.Column("checkpoint_seq", sa.BigInteger, nullable=False),
    sa.Column("checkpoint_at", sa.Double, nullable=False),
)

#: Seals that are kept for good.
CHECKPOINTS: Final = sa.Table(
    "guideway_checkpoints",
    METADATA,
    sa.Column("trail", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("seal", sa.Text, nullable=False),
)

#: Calls that came with an idempotency key. ``tenant`` is empty where there is none; ``result`` is what was answered.
CALLS: Final = sa.Table(
    "guideway_calls",
    METADATA,
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("began_at", sa.Double, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("result", sa.JSON),
)

#: Proofs of possession that were shown, by a digest of each.
PROOFS: Final = sa.Table(
    "guideway_proofs",
    METADATA,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
)

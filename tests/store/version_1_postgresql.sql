-- A store of schema version 1 as that release made it in PostgreSQL, with rows in it: version_1_rows.sql.

CREATE TABLE guideway_leases (
    key TEXT NOT NULL,
    holder TEXT NOT NULL,
    run_id TEXT NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_guideway_leases PRIMARY KEY (key, holder)
);

CREATE INDEX ix_guideway_leases_holder ON guideway_leases (holder);

CREATE TABLE guideway_mutations (
    id SERIAL NOT NULL,
    tenant TEXT,
    service TEXT NOT NULL,
    run_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    client TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    outcome TEXT,
    message TEXT,
    CONSTRAINT pk_guideway_mutations PRIMARY KEY (id)
);

CREATE INDEX ix_guideway_mutations_service_started_at ON guideway_mutations (service, started_at);

CREATE INDEX ix_guideway_mutations_started_at ON guideway_mutations (started_at);

CREATE TABLE guideway_notices (
    id SERIAL NOT NULL,
    webhook TEXT NOT NULL,
    event JSON NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    due_at DOUBLE PRECISION,
    attempts INTEGER NOT NULL,
    error TEXT,
    CONSTRAINT pk_guideway_notices PRIMARY KEY (id)
);

CREATE INDEX ix_guideway_notices_due_at ON guideway_notices (due_at);

CREATE TABLE guideway_sessions (
    id TEXT NOT NULL,
    content JSON NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_guideway_sessions PRIMARY KEY (id)
);

CREATE INDEX ix_guideway_sessions_expires_at ON guideway_sessions (expires_at);

CREATE TABLE guideway_store (
    id INTEGER NOT NULL,
    schema_version INTEGER NOT NULL,
    seen DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_guideway_store PRIMARY KEY (id)
);

CREATE TABLE guideway_tickets (
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    client TEXT,
    tenant TEXT,
    policy TEXT NOT NULL,
    program TEXT NOT NULL,
    causes JSON NOT NULL,
    worst_case JSON NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    client_says TEXT,
    break_glass TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    state TEXT NOT NULL,
    decided_at DOUBLE PRECISION,
    decided_issuer TEXT,
    decided_subject TEXT,
    decided_client TEXT,
    reason TEXT,
    used_at DOUBLE PRECISION,
    run_id TEXT,
    outcome TEXT,
    CONSTRAINT pk_guideway_tickets PRIMARY KEY (id),
    CONSTRAINT uq_guideway_tickets_run_id UNIQUE (run_id)
);

CREATE INDEX ix_guideway_tickets_created_at ON guideway_tickets (created_at);

CREATE INDEX ix_guideway_tickets_state_expires_at ON guideway_tickets (state, expires_at);

CREATE INDEX ix_guideway_tickets_tenant_created_at ON guideway_tickets (tenant, created_at);

CREATE TABLE guideway_uses (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    times INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION,
    CONSTRAINT pk_guideway_uses PRIMARY KEY (run_id, key)
);

CREATE INDEX ix_guideway_uses_at ON guideway_uses (at);

CREATE INDEX ix_guideway_uses_key_at ON guideway_uses (key, at);

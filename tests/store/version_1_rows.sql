-- Rows of a store of schema version 1, for both databases: a ticket in each state that matters, and some of all else.

INSERT INTO guideway_store (id, schema_version, seen) VALUES (1, 1, 1900000100.0);

INSERT INTO guideway_tickets (id, digest, issuer, subject, client, tenant, policy, program, causes, worst_case, seconds,
    client_says, created_at, expires_at, state, decided_at, decided_issuer, decided_subject, reason, used_at, run_id, outcome)
VALUES
    ('aaaaaaaaaaaaaaaaaaaaaaaa', 'd1', 'https://login.example', 'mona', 'an-agent', NULL, 'policy-1', 'RESTART "database"',
    '[{"command": "RESTART", "target": "database", "tier": 3, "source": "impact high", "needs": "tier 3"}]',
    '[["RESTART", "database", 1, 3]]', 60.0, 'An agent', 1900000000.0, 1900000300.0, 'approved',
    1900000010.0, 'https://login.example', 'ada', 'yes', NULL, NULL, NULL),
    ('bbbbbbbbbbbbbbbbbbbbbbbb', 'd2', 'https://login.example', 'mona', NULL, 'red', 'policy-1', 'RESTART "cache"',
    '[]', '[["RESTART", "cache", 1]]', 60.0, NULL, 1899990000.0, 1899990300.0, 'used',
    1899990010.0, 'https://login.example', 'ada', NULL, 1899990020.0, 'run-1', 'completed');

INSERT INTO guideway_uses (run_id, key, times, at, until) VALUES ('run-1', 'service cache', 1, 1900000000.0, NULL);

INSERT INTO guideway_mutations (tenant, service, run_id, issuer, subject, client, started_at, ended_at, outcome, message)
VALUES
    ('red', 'cache', 'run-1', 'https://login.example', 'mona', NULL, 1899990020.0, 1899990022.5, 'ok', 'it is well'),
    (NULL, 'database', 'run-2', 'https://login.example', 'mona', 'an-agent', 1899990031.0, 1899990032.0, 'timeout', NULL),
    (NULL, 'cache', 'run-2', 'https://login.example', 'mona', 'an-agent', 1899990030.0, 1899990031.0, 'ok', NULL),
    (NULL, 'database', 'run-3', 'https://login.example', 'mona', NULL, 1899990040.0, NULL, NULL, NULL);

INSERT INTO guideway_notices (webhook, event, created_at, due_at, attempts, error)
VALUES ('ops', '{"event": "pending", "at": 1900000000.0}', 1900000000.0, 1900000000.0, 0, NULL);

INSERT INTO guideway_sessions (id, content, expires_at) VALUES ('digest', '{"subject": "ada"}', 1900009000.0);

INSERT INTO guideway_leases (key, holder, run_id, expires_at) VALUES ('service cache', 'holder', 'run-9', 1000000000.0);

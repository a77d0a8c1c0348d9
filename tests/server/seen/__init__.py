"""How the server is seen: its logs, its health, its metrics, its traces; and that nothing of it is there unasked."""

"""The gates and the walk: who may run what, and what then happens. Never loads the grammar, trusts no copy of it."""

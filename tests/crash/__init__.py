"""Replicas that are killed, and a database that goes away, in the midst of a mixed load; then everything is counted."""

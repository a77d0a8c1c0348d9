"""Webhooks: notices posted to the addresses that are configured, signed, and tried again until they arrive."""

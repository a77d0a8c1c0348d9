"""The published language and its copies. Never decides what runs."""

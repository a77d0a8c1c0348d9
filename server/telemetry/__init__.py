"""Metrics and traces: what watches the interpreter and the doors. Loaded only where the configuration asks for it.

Nothing here knows a program's text, a token, or what a service said: who watches is told names of this program's own
and of the inventory, numbers, and ids.
"""

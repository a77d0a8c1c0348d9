"""The audit trail: what is written of every call, how records hang together, and how that is proven. Keeps nothing.

Where records are kept is the store's business (``store.trail``).
"""

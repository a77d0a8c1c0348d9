"""Child processes: each within bounds, and nothing of one left when the call that wanted it is over."""

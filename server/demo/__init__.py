"""A small world of real processes on one machine, for the first run, the examples and their tests."""

"""Guideway: one MCP tool that runs small, checked diagnostic programs.

The four packages are ``guideway.dsl`` (text to tree), ``guideway.grammar`` (what is published),
``guideway.interpreter`` (what may run and what then happens) and ``guideway.server`` (the doors).
This module stays empty so that importing one of them loads nothing of the others.
"""

__version__ = "0.1.0"

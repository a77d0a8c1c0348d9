"""The command line for operators. One module a command, loaded when it is chosen: ``check`` must start at once.

A command translates: what is asked goes to the same functions that the tool calls, and what they answer is written
for a person, or with ``--json`` for a machine. No rule about programs lives here.
"""

from guideway.server.cli.entry import main

__all__ = ["main"]

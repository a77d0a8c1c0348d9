"""How a part of Guideway that needs more packages is installed: the one place that says it.

Guideway is installed from its repository, as the README says, and so are its extras.
"""

from typing import Final

SAYS_HOW_TO_INSTALL: Final = "pip install '.["
"""What is in every text that ``install`` returns."""


def install(extra: str) -> str:
    """Return the command that installs an extra of ``pyproject.toml``, with where it is run."""
    return f"{SAYS_HOW_TO_INSTALL}{extra}]' in guideway's repository"

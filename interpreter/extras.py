"""How a part of Guideway that needs more packages is installed: the one place that says it.

Guideway is installed from its repository, as the README says, and so are its extras.
"""


def install(extra: str) -> str:
    """Return the command that installs an extra of ``pyproject.toml``, with where it is run."""
    return f"pip install '.[{extra}]' in guideway's repository"

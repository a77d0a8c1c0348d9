"""What the product costs, each figure beside what it is compared with, measured in one run on one machine.

A bench is a module of this folder with ``main() -> list[Figure]``; ``python -m bench [name…]`` runs them.
Figures are read by people: they are never a test, since a busy machine must not fail one.
"""

from typing import NamedTuple


class Figure(NamedTuple):
    """One measured value; ``goal`` and ``met`` are empty where nothing is promised."""

    what: str
    value: str
    goal: str = ""
    met: bool | None = None

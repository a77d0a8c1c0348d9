"""The one way in: every door admits and runs programs here."""

from dataclasses import dataclass

from guideway.dsl.analysis import Analysis, WorstCase
from guideway.dsl.ast import Program
from guideway.dsl.parser import DEFAULT_LIMITS, Limits
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Observer, Report


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a command may take where its target does not say, and a whole pipeline."""

    ping: float = 5.0
    get_status: float = 10.0
    restart: float = 60.0
    if_running: float = 30.0
    pipeline: float = 300.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """A program that may run: this caller, this tree, nothing else."""

    program: Program
    analysis: Analysis
    worst_case: WorstCase


class Pipeline:
    """Admits programs and runs them. One for the whole process; safe to use from many tasks."""

    def __init__(
        self, inventory: Inventory, *, limits: Limits = DEFAULT_LIMITS, deadlines: Deadlines = Deadlines()
    ) -> None:
        self.inventory = inventory
        self.limits = limits
        self.deadlines = deadlines

    def admit(self, text: str, caller: Principal, *, name: str = "program") -> Admitted:
        """Check a program without any effect. Raises ``Refusal``."""
        raise NotImplementedError

    async def run(
        self, text: str, caller: Principal, *, name: str = "program", observe: Observer | None = None
    ) -> Report:
        """Admit a program and run it. A refusal is a report too; only cancellation is raised."""
        raise NotImplementedError

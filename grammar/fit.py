"""A shape to the largest copy within the server's limits: a finite copy spells nothing that is refused for its size."""

from bisect import bisect_left
from collections.abc import Mapping

from guideway.dsl.ast import Target
from guideway.dsl.parser import Limits
from guideway.grammar.measure import longest, most_commands
from guideway.grammar.model import Grammar
from guideway.grammar.names import Names
from guideway.grammar.spell import Layout, Shape, TooLarge, spell


def fit(
    grammar: Grammar, names: Mapping[Target, Names], shape: Shape, layout: Layout, limits: Limits
) -> tuple[Grammar, Shape]:
    """Return the spelled grammar of the largest shape within the limits, and that shape: as deep, perhaps less long.

    A shape without a most of statements is bounded in its nesting alone. Raises ``TooLarge`` for a shape that the
    limits have no room for.
    """
    if shape.nesting > limits.nesting:
        raise TooLarge(f"the limits let programs nest {limits.nesting} deep, not {shape.nesting}")
    spellings = {kind.value: found for kind, found in names.items()}

    def spelled(statements: int | None) -> Grammar | None:
        found = spell(grammar, spellings, Shape(shape.nesting, statements), layout)
        most, commands = longest(found), most_commands(found)
        fits = (most is None or most <= limits.bytes) and (commands is None or commands <= limits.commands)
        return found if fits else None

    if shape.statements is None:
        largest, fitting = None, spelled(None)
    else:
        # The more in a row, the more is spelled, so what fits is found by halving. Each statement can be a command.
        counts = range(1, min(shape.statements, limits.commands) + 1)
        largest = bisect_left(counts, True, key=lambda count: spelled(count) is None)
        fitting = spelled(largest) if largest else None
    if fitting is None:
        raise TooLarge(f"programs that nest {shape.nesting} deep can be larger than the limits allow")
    return fitting, Shape(shape.nesting, largest)
